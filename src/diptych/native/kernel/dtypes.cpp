#include "diptych/native/kernel/dtypes.h"

#include "diptych/graph/tensor_meta.h"

namespace diptych::detail {

std::string dtype_names(DtypeSet set) {
  std::string names;
  for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
    const auto dtype = static_cast<at::ScalarType>(i);
    if (has_dtype(set, dtype)) names += (names.empty() ? "" : ", ") + dtype_name(dtype);
  }
  return names;
}

}  // namespace diptych::detail
