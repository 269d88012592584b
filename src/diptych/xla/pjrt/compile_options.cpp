// The messages are written field by field: field numbers are the wire format, which never changes, so no protobuf
// library is needed. Source: OpenXLA, xla/pjrt/proto/compile_options.proto and xla/xla_data.proto.
#include "diptych/xla/pjrt/compile_options.h"

#include <cstdint>

#include "diptych/base/environment.h"

namespace diptych::detail {
namespace {

// Options of XLA's own that would make results others than eager's, by platform (all, if it is empty). An option
// without text is switched off.
struct Override {
  std::string_view platform, option, text;
  bool is_needed_always;
};
constexpr Override kOverrides[] = {
    {"cpu", "xla_cpu_enable_fast_min_max", "", true},  // maxima and minima would lose NaN
    // Takes log(exp(x)), (x + c) - c and x * c / c for x, where eager overflows or rounds.
    {"", "xla_disable_hlo_passes", "algsimp", false},
    {"", "xla_allow_excess_precision", "", false},  // a half that is made and read again would not be rounded
};

// Field numbers.
namespace options_field {
constexpr int kBuildOptions = 3, kOverride = 7;
constexpr int kKey = 1, kValue = 2;  // of an entry of the map kOverride
constexpr int kText = 1, kBool = 2;  // of OptionOverrideProto
}  // namespace options_field
namespace build_field {
constexpr int kDeviceOrdinal = 1, kNumReplicas = 4, kNumPartitions = 5, kUseSpmd = 6, kAssignment = 9, kUseShardy = 19;
}
namespace assignment_field {
constexpr int kReplicas = 1, kComputations = 2, kComputationDevices = 3;
constexpr int kDeviceIds = 1;  // of ComputationDevice
}  // namespace assignment_field

// A protobuf message under construction.
class WireMessage {
 public:
  WireMessage& number(int field, int64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  WireMessage& bytes(int field, std::string_view value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    text_ += value;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void varint(uint64_t value) {
    for (; value > 0x7f; value >>= 7) text_ += static_cast<char>((value & 0x7f) | 0x80);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

std::string entry_of(const Override& row) {
  using namespace options_field;
  WireMessage value;
  if (row.text.empty()) value.number(kBool, 0);
  if (!row.text.empty()) value.bytes(kText, row.text);
  return WireMessage().bytes(kKey, row.option).bytes(kValue, value.text()).text();
}

std::string device_assignment(std::span<const int> device_ids) {
  using namespace assignment_field;
  WireMessage assignment;
  assignment.number(kReplicas, 1).number(kComputations, static_cast<int64_t>(device_ids.size()));
  for (const int id : device_ids) assignment.bytes(kComputationDevices, WireMessage().number(kDeviceIds, id).text());
  return assignment.text();
}

}  // namespace

std::string compile_options(std::string_view platform, std::span<const int> device_ids) {
  const bool is_fast = is_on("DIPTYCH_XLA_FAST_MATH", false);
  WireMessage build;
  build.number(build_field::kDeviceOrdinal, -1)
      .number(build_field::kNumReplicas, 1)
      .number(build_field::kNumPartitions, static_cast<int64_t>(device_ids.size()))
      .bytes(build_field::kAssignment, device_assignment(device_ids));
  if (device_ids.size() > 1) build.number(build_field::kUseSpmd, 1).number(build_field::kUseShardy, 1);
  WireMessage options;
  options.bytes(options_field::kBuildOptions, build.text());
  for (const Override& row : kOverrides) {
    if (!row.platform.empty() && platform != row.platform) continue;
    if (row.is_needed_always || !is_fast) options.bytes(options_field::kOverride, entry_of(row));
  }
  return options.text();
}

}  // namespace diptych::detail
