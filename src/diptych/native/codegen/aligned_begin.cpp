#include "diptych/native/codegen/aligned_begin.h"

#include <algorithm>

#include "diptych/native/schedule/nontemporal_stores.h"

namespace diptych::detail {

AlignedBegin write_aligned_begin(LlvmWriter& writer, PointCode& point, const std::vector<const KernelStore*>& stores,
                                 int lanes) {
  struct Begin {
    std::string points;
    int64_t period;
  };
  std::vector<Begin> begins;
  std::string exists = "true";
  const auto require = [&](const std::string& condition) { exists = writer.value("and i1 {}, {}", exists, condition); };
  for (const KernelStore* store : stores) {
    const at::ScalarType dtype = point.dtype_of(*store);
    const auto size = static_cast<int64_t>(c10::elementSize(dtype)), alignment = nontemporal_alignment(dtype, lanes);
    const std::string address = writer.value("ptrtoint ptr {} to i64", point.first_address(*store));
    const std::string missing = writer.value("and i64 {}, {}", writer.value("sub i64 0, {}", address), alignment - 1);
    // Foreign memory need not be aligned to its elements; then no vector is.
    require(writer.value("icmp eq i64 {}, 0", writer.value("and i64 {}, {}", missing, size - 1)));
    begins.push_back({writer.value("udiv i64 {}, {}", missing, size), alignment / size});
  }
  const Begin rarest = *std::ranges::max_element(begins, {}, &Begin::period);
  for (const Begin& begin : begins) {
    const std::string there = writer.value("and i64 {}, {}", rarest.points, begin.period - 1);
    require(writer.value("icmp eq i64 {}, {}", there, begin.points));
  }
  return {rarest.points, exists};
}

}  // namespace diptych::detail
