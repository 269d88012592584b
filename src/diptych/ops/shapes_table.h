// How the families of shape functions are written and joined to one table. A row names an operator and a plain function
// with the operator's own C++ signature; this file does the boxing.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/boxing/impl/WrapFunctionIntoFunctor.h>
#include <ATen/core/boxing/impl/make_boxed_from_unboxed_functor.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "diptych/ops/shapes.h"

namespace diptych::detail {

/// One row: the operator ("aten::add.Tensor"), its shape function, and how many arguments that takes off the stack
/// (0: it reads the stack itself).
struct ShapeRow {
  std::string_view name;
  ShapeFunction function;
  size_t num_arguments = 0;
  QuickShape quick = nullptr;
};
using ShapeRows = std::vector<ShapeRow>;

/// Calls the typed function `F` with arguments from the stack and pushes what it returns.
template <auto F>
bool call_typed(const c10::OperatorHandle& op, c10::Stack& stack) {
  using Pointer = c10::CompileTimeFunctionPointer<std::remove_pointer_t<decltype(F)>, F>;
  using Functor = typename c10::impl::WrapFunctionIntoFunctor<Pointer>::type;
  Functor functor;
  c10::impl::make_boxed_from_unboxed_functor<Functor, /*AllowDeprecatedTypes=*/true>::call(&functor, op, {}, &stack);
  return true;
}

template <class R, class... Args>
constexpr size_t count_arguments(R (*)(Args...)) {
  return sizeof...(Args);
}

/// Makes the row of a typed function, whose parameters are the operator's.
template <auto F>
ShapeRow typed_row(std::string_view name) {
  return {name, &call_typed<F>, count_arguments(F)};
}

/// The result that a quick shape describes, for arguments that are meta tensors.
at::Tensor meta_of(const ResultShape& shape, c10::ArrayRef<c10::IValue> arguments);

template <QuickShape F>
bool call_quick(const c10::OperatorHandle& op, c10::Stack& stack) {
  const size_t count = op.schema().arguments().size();
  const c10::ArrayRef<c10::IValue> arguments(stack.data() + (stack.size() - count), count);
  ResultShape shape;
  if (!F(arguments, shape)) return false;
  c10::IValue result = meta_of(shape, arguments);
  stack.resize(stack.size() - count);
  stack.push_back(std::move(result));
  return true;
}

/// Makes the row of a quick shape.
template <QuickShape F>
ShapeRow quick_row(std::string_view name) {
  return {name, &call_quick<F>, 0, F};
}

using OptionalTensor = std::optional<at::Tensor>;
using OptionalDtype = std::optional<at::ScalarType>;
using TwoTensors = std::tuple<at::Tensor, at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using FourTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

inline bool is_given(const OptionalTensor& tensor) { return tensor.has_value() && tensor->defined(); }

/// A contiguous meta tensor, or one in the memory format given.
at::Tensor meta_empty(at::IntArrayRef sizes, at::ScalarType dtype,
                      at::MemoryFormat format = at::MemoryFormat::Contiguous);
at::Tensor meta_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);

/// The strides of at::empty_like: those of `self` if it is dense, and dense strides in the same order if not.
at::Tensor meta_like(const at::Tensor& self, OptionalDtype dtype = std::nullopt);
/// A tensor of the same sizes in the given memory format.
at::Tensor meta_like(const at::Tensor& self, at::MemoryFormat format);
/// `self` laid out as self.contiguous() would be.
at::Tensor meta_contiguous_like(const at::Tensor& self, OptionalDtype dtype = std::nullopt);

using TensorRefs = std::initializer_list<std::reference_wrapper<const at::Tensor>>;
/// The output of a pointwise kernel (one that uses TensorIterator) over these inputs: broadcast sizes, agreed strides.
at::Tensor meta_pointwise(TensorRefs inputs, at::ScalarType dtype);

/// Fill in `result` and return true: a contiguous tensor, or one of these strides.
bool give_empty(ResultShape& result, at::IntArrayRef sizes, at::ScalarType dtype);
bool give_strided(ResultShape& result, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);
/// The result of meta_pointwise(), without building an iterator, for inputs of one size and layout; false for others.
bool give_pointwise(ResultShape& result, TensorRefs inputs, at::ScalarType dtype);

ShapeRows fast_shapes();
ShapeRows activation_shapes();
ShapeRows attention_shapes();
ShapeRows collective_shapes();
ShapeRows convolution_shapes();
ShapeRows embedding_shapes();
ShapeRows fft_shapes();
ShapeRows indexing_shapes();
ShapeRows linalg_shapes();
ShapeRows loss_shapes();
ShapeRows norm_shapes();
ShapeRows pool_shapes();
ShapeRows random_shapes();
ShapeRows range_shapes();
ShapeRows recurrent_shapes();
ShapeRows reduction_shapes();
ShapeRows spatial_shapes();

/// All rows of all families; no name twice. Threads: any.
const ShapeRows& all_shape_rows();

}  // namespace diptych::detail
