// The table of shape functions and the helpers that its families share.
#include "diptych/ops/shapes.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>

#include <unordered_map>

#include "diptych/base/check.h"
#include "diptych/ops/shapes_table.h"

namespace diptych::detail {

at::Tensor meta_empty(at::IntArrayRef sizes, at::ScalarType dtype, at::MemoryFormat format) {
  return at::Tensor(at::detail::empty_meta(sizes, dtype, format));
}

at::Tensor meta_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  return at::Tensor(at::detail::empty_strided_meta(sizes, strides, dtype));
}

at::Tensor meta_of(const ResultShape& shape, c10::ArrayRef<c10::IValue> arguments) {
  if (!shape.is_view_of_first) return meta_strided(shape.sizes, shape.strides, shape.dtype);
  const at::Tensor& base = arguments[0].toTensor();
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()),
                                                             base.key_set(), base.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(shape.sizes, shape.strides, shape.offset);
  return view;
}

at::Tensor meta_like(const at::Tensor& self, OptionalDtype dtype) {
  const at::ScalarType type = dtype.value_or(self.scalar_type());
  if (self.is_non_overlapping_and_dense()) return meta_strided(self.sizes(), self.strides(), type);
  return meta_strided(self.sizes(), at::infer_dense_strides(self.sizes(), self.strides()), type);
}

at::Tensor meta_like(const at::Tensor& self, at::MemoryFormat format) {
  return meta_empty(self.sizes(), self.scalar_type(), format);
}

at::Tensor meta_contiguous_like(const at::Tensor& self, OptionalDtype dtype) {
  const at::ScalarType type = dtype.value_or(self.scalar_type());
  // A tensor that is contiguous already keeps its strides, also unusual ones of dimensions of size 1.
  if (self.is_contiguous()) return meta_strided(self.sizes(), self.strides(), type);
  return meta_empty(self.sizes(), type);
}

bool give_empty(ResultShape& result, at::IntArrayRef sizes, at::ScalarType dtype) {
  result.sizes.assign(sizes.begin(), sizes.end());
  result.strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    result.strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  result.dtype = dtype;
  return true;
}

bool give_strided(ResultShape& result, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  result.sizes.assign(sizes.begin(), sizes.end());
  result.strides.assign(strides.begin(), strides.end());
  result.dtype = dtype;
  return true;
}

// TensorIterator tries these in order: contiguous, channels last, strides that all inputs share.
bool give_pointwise(ResultShape& result, TensorRefs inputs, at::ScalarType dtype) {
  const at::Tensor& first = *inputs.begin();
  bool contiguous = true, channels_last = true, same_strides = true;
  for (const at::Tensor& input : inputs) {
    if (input.sizes() != first.sizes()) return false;
    contiguous = contiguous && input.is_contiguous();
    channels_last = channels_last && input.is_contiguous(at::MemoryFormat::ChannelsLast);
    same_strides = same_strides && input.is_non_overlapping_and_dense() && input.strides() == first.strides();
  }
  if (contiguous) return give_empty(result, first.sizes(), dtype);
  if (channels_last)
    return give_strided(result, first.sizes(), c10::get_channels_last_strides_2d(first.sizes()), dtype);
  return same_strides && give_strided(result, first.sizes(), first.strides(), dtype);
}

at::Tensor meta_pointwise(TensorRefs inputs, at::ScalarType dtype) {
  ResultShape shape;
  if (give_pointwise(shape, inputs, dtype)) return meta_of(shape, {});
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false)
      .check_all_same_device(false)
      .declare_static_dtype_and_device(dtype, at::kMeta)
      .add_owned_output(at::Tensor());
  for (const at::Tensor& input : inputs) config.add_owned_const_input(input);
  return config.build().output();
}

namespace {

ShapeRows join_families() {
  ShapeRows rows;
  for (const auto& family :
       {fast_shapes(), activation_shapes(), attention_shapes(), collective_shapes(), convolution_shapes(),
        embedding_shapes(), fft_shapes(), indexing_shapes(), linalg_shapes(), loss_shapes(), norm_shapes(),
        pool_shapes(), random_shapes(), range_shapes(), recurrent_shapes(), reduction_shapes(), spatial_shapes()}) {
    rows.insert(rows.end(), family.begin(), family.end());
  }
  return rows;
}

// "aten::add.Tensor" -> {"aten::add", "Tensor"}; the dot is searched for behind the namespace.
c10::OperatorName parse_name(std::string_view name) {
  const size_t dot = name.find('.', name.find("::"));
  if (dot == std::string_view::npos) return {std::string(name), ""};
  return {std::string(name.substr(0, dot)), std::string(name.substr(dot + 1))};
}

using ShapeTable = std::unordered_map<c10::OperatorName, ShapeRow>;

ShapeTable index_rows() {
  ShapeTable table;
  for (const ShapeRow& row : all_shape_rows()) {
    const bool is_new = table.emplace(parse_name(row.name), row).second;
    DIPTYCH_ASSERT(is_new, "operator {} has two shape functions", row.name);
  }
  return table;
}

}  // namespace

const ShapeRows& all_shape_rows() {
  static const ShapeRows rows = join_families();
  return rows;
}

namespace {

const ShapeRow* find_row(const c10::OperatorHandle& op) {
  static const detail::ShapeTable table = detail::index_rows();
  const auto found = table.find(op.operator_name());
  if (found == table.end()) return nullptr;
  const detail::ShapeRow& row = found->second;
  DIPTYCH_ASSERT(row.num_arguments == 0 || row.num_arguments == op.schema().arguments().size(),
                 "the shape function of {} takes {} arguments but the operator takes {}", row.name, row.num_arguments,
                 op.schema().arguments().size());
  return &row;
}

}  // namespace

ShapeFunction find_shape_function(const c10::OperatorHandle& op) {
  const detail::ShapeRow* row = find_row(op);
  return row == nullptr ? nullptr : row->function;
}

QuickShape find_quick_shape(const c10::OperatorHandle& op) {
  const detail::ShapeRow* row = find_row(op);
  return row == nullptr ? nullptr : row->quick;
}

}  // namespace diptych::detail
