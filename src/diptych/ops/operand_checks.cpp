#include "diptych/ops/operand_checks.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace diptych::detail {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;

bool is_given(const c10::IValue& argument) { return argument.isTensor() && argument.toTensor().defined(); }

// Nothing is checked where there is nothing to compute.
void two_alike(Arguments arguments) {
  const auto &a = arguments[0].toTensor(), &b = arguments[1].toTensor();
  TORCH_CHECK(a.numel() == 0 || b.numel() == 0 || a.scalar_type() == b.scalar_type(), "expected scalar type ",
              a.scalar_type(), " but found ", b.scalar_type());
}

void matrices(Arguments arguments) {
  const auto &a = arguments[0].toTensor(), &b = arguments[1].toTensor();
  TORCH_CHECK(a.dtype() == b.dtype(), "expected m1 and m2 to have the same dtype, but got: ", a.dtype(),
              " != ", b.dtype());
}

void vectors(Arguments arguments) {
  const auto a = arguments[0].toTensor().scalar_type(), b = arguments[1].toTensor().scalar_type();
  TORCH_CHECK(a == b, "dot : expected both vectors to have same dtype, but found ", a, " and ", b);
}

void added_batches(Arguments arguments) {
  const auto self = arguments[0].toTensor().scalar_type();
  for (const size_t i : {1, 2}) {
    const auto found = arguments[i].toTensor().scalar_type();
    TORCH_CHECK(found == self, "self and mat2 must have the same dtype, but got ", self, " and ", found);
  }
}

// Of a loss or its gradient: the operand `kInput` and those that have its dtype.
template <size_t kInput, size_t... kOthers>
void like_input(Arguments arguments) {
  const auto wanted = arguments[kInput].toTensor().scalar_type();
  for (const size_t i : {kOthers...}) {
    if (!is_given(arguments[i])) continue;
    const auto found = arguments[i].toTensor().scalar_type();
    TORCH_CHECK(found == wanted, "Found dtype ", found, " but expected ", wanted);
  }
}

void weights_of_classes(Arguments arguments) {
  if (!is_given(arguments[2])) return;
  const auto wanted = arguments[0].toTensor().scalar_type(), found = arguments[2].toTensor().scalar_type();
  TORCH_CHECK(found == wanted, "expected scalar type ", wanted, " but found ", found);
}

void huber(Arguments arguments) {
  TORCH_CHECK(arguments[3].toDouble() > 0, "huber_loss does not support non-positive values for delta.");
}

void labels(Arguments arguments) {
  const auto &input = arguments[0].toTensor(), &target = arguments[1].toTensor();
  const bool fits =
      input.dim() <= 1 ? target.dim() <= 1 && target.numel() == input.numel() : target.sizes().equals(input.sizes());
  TORCH_CHECK(fits, "inconsistent target size: ", target.sizes(), " for input of size: ", input.sizes());
}

// Parameters of a normalization have the input's dtype, or float beside a half.
template <size_t... kParameters>
void parameters(Arguments arguments) {
  const auto dtype = arguments[0].toTensor().scalar_type();
  auto wanted = dtype;
  bool is_first = true;
  for (const size_t i : {kParameters...}) {
    if (!is_given(arguments[i])) continue;
    const auto found = arguments[i].toTensor().scalar_type();
    const bool may_widen = is_first && at::isReducedFloatingType(dtype) && found == at::kFloat;
    if (may_widen) wanted = found;
    is_first = false;
    TORCH_CHECK(found == wanted, "mixed dtype (CPU): expect parameter to have scalar type of ", wanted);
  }
}

void batch_norm(Arguments arguments) {
  const auto dtype = arguments[0].toTensor().scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isIntegralType(dtype, /*includeBool=*/true), "\"batch_norm\" not implemented for '",
                              dtype, "'");
  for (const size_t i : {3, 4}) {
    if (!is_given(arguments[i])) continue;
    const auto rank = arguments[i].toTensor().dim();
    TORCH_CHECK(rank == 1, "TensorAccessor expected 1 dims but tensor has ", rank);
  }
  parameters<1, 2, 3, 4>(arguments);
}

void layer_norm(Arguments arguments) {
  if (!arguments[1].isIntList()) return;
  const auto shape = arguments[1].toDimVector();
  TORCH_CHECK(!shape.empty(),
              "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
              "normalized_shape = []");
  for (const size_t i : {2, 3}) {
    if (!is_given(arguments[i])) continue;
    const auto sizes = arguments[i].toTensor().sizes();
    TORCH_CHECK(sizes.equals(shape), "Expected ", i == 2 ? "weight" : "bias",
                " to be of same shape as normalized_shape, but got ", i == 2 ? "weight" : "bias", " of shape ", sizes,
                " and normalized_shape = ", c10::IntArrayRef(shape));
  }
  parameters<2, 3>(arguments);
}

void numbers_of_convolution(Arguments arguments) {
  const auto all = [&](size_t i, int64_t least) {
    if (!arguments[i].isIntList()) return true;
    const auto numbers = arguments[i].toDimVector();
    return std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number >= least; });
  };
  TORCH_CHECK(all(4, 0), "negative padding is not supported");
  TORCH_CHECK(all(7, 0), "negative output_padding is not supported");
  TORCH_CHECK(all(3, 1), "non-positive stride is not supported");
  TORCH_CHECK(all(5, 1), "dilation should be greater than zero");
}

void sampled_batches(Arguments arguments) {
  const auto input = arguments[0].toTensor().sizes(), grid = arguments[1].toTensor().sizes();
  TORCH_CHECK(input.empty() || grid.empty() || input[0] == grid[0],
              "grid_sampler(): expected grid and input to have same batch size, but got input with sizes ", input,
              " and grid with sizes ", grid);
}

void positions_to_unpool(Arguments arguments) {
  const auto positions = arguments[1].toTensor().scalar_type();
  TORCH_CHECK(positions == at::kLong, "elements in indices should be type int64 but got: ", positions);
  const auto dtype = arguments[0].toTensor().scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(dtype != at::kBool && !c10::isComplexType(dtype), "\"max_unpool",
                              arguments[2].toIntVector().size(), "d\" not implemented for '", dtype, "'");
  const auto input = arguments[0].toTensor().sizes(), indices = arguments[1].toTensor().sizes();
  TORCH_CHECK(input.equals(indices), "Expected shape of indices to be same as that of the input tensor (", input,
              ") but got indices tensor with shape: ", indices);
}

void positions_to_unpool3d(Arguments arguments) {
  positions_to_unpool(arguments);
  const auto strides = arguments[3].toIntVector();
  TORCH_CHECK(std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride > 0; }),
              "strides should be greater than zero, but got stride: ", at::IntArrayRef(strides));
}

void sides_of_triangle(Arguments arguments) {
  const std::pair<size_t, const char*> names[] = {{0, "row"}, {1, "col"}};
  for (const auto& [i, name] : names) {
    if (!arguments[i].isInt()) continue;
    TORCH_CHECK(arguments[i].toInt() >= 0, name, " must be non-negative, got", arguments[i].toInt());
  }
}

// One number under a mask is filled in, whatever its dtype.
void put_values(Arguments arguments) {
  if (arguments[2].toTensor().numel() == 1) return;
  const auto to = arguments[0].toTensor().scalar_type(), from = arguments[2].toTensor().scalar_type();
  TORCH_CHECK(to == from, "Index put requires the source and destination dtypes match, got ", to,
              " for the destination and ", from, " for the source.");
}

void put_at_places(Arguments arguments) {
  const auto self = arguments[0].toTensor().scalar_type(), source = arguments[2].toTensor().scalar_type();
  TORCH_CHECK(self == source, "put_(): self and source expected to have the same dtype, but got self.dtype = ", self,
              " and source.dtype = ", source);
}

void masked_source(Arguments arguments) {
  const auto self = arguments[0].toTensor().scalar_type(), source = arguments[2].toTensor().scalar_type();
  TORCH_CHECK(self == source, "masked_scatter: expected self and source to have same dtypes but got ", self, " and ",
              source);
}

const std::unordered_map<std::string_view, OperandCheck>& checks() {
  static const std::unordered_map<std::string_view, OperandCheck> rows{
      {"aten.mm", matrices},
      {"aten.bmm", two_alike},
      {"aten.dot", vectors},
      {"aten.vdot", vectors},
      {"aten.addbmm", added_batches},
      {"aten._cdist_forward", two_alike},
      {"aten.index_put", put_values},
      {"aten.masked_scatter", masked_source},
      {"aten.put", put_at_places},
      {"aten.convolution", numbers_of_convolution},
      {"aten.grid_sampler_2d", sampled_batches},
      {"aten.grid_sampler_3d", sampled_batches},
      {"aten.max_unpool2d", positions_to_unpool},
      {"aten.max_unpool3d", positions_to_unpool3d},
      {"aten.tril_indices", sides_of_triangle},
      {"aten.triu_indices", sides_of_triangle},
      {"aten.nll_loss_forward", weights_of_classes},
      {"aten.nll_loss2d_forward", weights_of_classes},
      {"aten.huber_loss", huber},
      {"aten.huber_loss_backward", like_input<1, 0, 2>},
      {"aten.binary_cross_entropy", like_input<0, 1, 2>},
      {"aten.binary_cross_entropy_backward", like_input<1, 0, 2, 3>},
      {"aten.multilabel_margin_loss_forward", labels},
      {"aten.native_layer_norm", layer_norm},
      {"aten.native_group_norm", parameters<1, 2>},
      {"aten.native_batch_norm", batch_norm},
      {"aten._native_batch_norm_legit", batch_norm},
      {"aten._native_batch_norm_legit_functional", batch_norm},
      {"aten._native_batch_norm_legit_no_training", batch_norm},
  };
  return rows;
}

}  // namespace

OperandCheck find_operand_check(const Op& op) {
  const auto found = checks().find(op.name());
  return found == checks().end() ? nullptr : found->second;
}

}  // namespace diptych::detail
