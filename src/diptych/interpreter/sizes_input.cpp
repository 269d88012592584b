#include "diptych/interpreter/sizes_input.h"

#include <ATen/ops/empty.h>

namespace diptych::detail {

TensorMeta sizes_meta(size_t num_symbols, const SymbolValues& hints) {
  TensorMeta meta;
  for (size_t i = 0; i < num_symbols; ++i) {
    meta.sizes.push_back(SizeExpr::symbol(SizePattern::name_of(i), hints[i]));
  }
  meta.sizes.emplace_back(0);
  meta.strides = contiguous_strides(meta.sizes);
  return meta;
}

at::Tensor sizes_tensor(size_t num_symbols, const SymbolValues& symbols) {
  std::vector<int64_t> sizes(symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(num_symbols));
  sizes.push_back(0);
  return at::empty(sizes);
}

}  // namespace diptych::detail
