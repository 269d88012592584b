#include "diptych/backends/native/codegen/code_target.h"

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
  return {machine.vector_bytes, std::ranges::any_of(kSleef, [&](const SleefRow& row) {
            return machine.triple.starts_with(row.architecture) && machine.vector_bytes == row.vector_bytes;
          })};
}

const CodeTarget& host_code_target() {
  static const CodeTarget target = code_target(host_target());
  return target;
}

}  // namespace diptych::detail
