#include "diptych/native/scalar/code_target.h"

#include <algorithm>
#include <string_view>

namespace diptych::detail {
namespace {

struct SleefRow {
  std::string_view architecture;  // a triple begins with it
  int vector_bytes;
};

// What ATen's vectorized kernels call, which libtorch_cpu then exports. Names are made the same way everywhere.
constexpr SleefRow kSleef[] = {{"x86_64-", 32}, {"x86_64-", 64}, {"aarch64-", 16}, {"arm64-", 16}};

}  // namespace

CodeTarget code_target(const HostTarget& machine) {
  const bool has_sleef = std::ranges::any_of(kSleef, [&](const SleefRow& row) {
    return machine.triple.starts_with(row.architecture) && machine.vector_bytes == row.vector_bytes;
  });
  // The fence after such stores is x86's.
  return {machine.vector_bytes, has_sleef, machine.triple.starts_with("x86_64-")};
}

const CodeTarget& host_code_target() {
  static const CodeTarget target = code_target(host_target());
  return target;
}

}  // namespace diptych::detail
