// Shapes of new tensors: of ranges whose ends are tensors, where Python's Meta kernels read the values though the shape
// does not depend on them, and of what losses make, whose Meta kernels in Python import a thousand modules.
#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

at::Tensor range(bool is_complex, int64_t steps, OptionalDtype dtype) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  const auto usual = c10::typeMetaToScalarType(at::get_default_dtype());
  return meta_empty({steps}, dtype.value_or(is_complex ? c10::toComplexType(usual) : usual));
}

void check_end(const at::Tensor& end) {
  TORCH_CHECK(end.dim() == 0, "ranges only support 0-dimensional start and end tensors, but got ", end.dim(),
              " dimensions");
}

template <class Start, class End>
bool is_complex(const Start& start, const End& end) {
  return start.isComplex() || end.isComplex();
}
struct OfTensor {
  explicit OfTensor(const at::Tensor& tensor) : dtype(tensor.scalar_type()) { check_end(tensor); }
  bool isComplex() const { return c10::isComplexType(dtype); }
  at::ScalarType dtype;
};

using Layout = std::optional<at::Layout>;
using Device = std::optional<at::Device>;
using Pin = std::optional<bool>;

at::Tensor linspace_tt(const at::Tensor& start, const at::Tensor& end, int64_t steps, OptionalDtype dtype, Layout,
                       Device, Pin) {
  return range(is_complex(OfTensor(start), OfTensor(end)), steps, dtype);
}
at::Tensor linspace_ts(const at::Tensor& start, const at::Scalar& end, int64_t steps, OptionalDtype dtype, Layout,
                       Device, Pin) {
  return range(is_complex(OfTensor(start), end), steps, dtype);
}
at::Tensor linspace_st(const at::Scalar& start, const at::Tensor& end, int64_t steps, OptionalDtype dtype, Layout,
                       Device, Pin) {
  return range(is_complex(start, OfTensor(end)), steps, dtype);
}
at::Tensor logspace_tt(const at::Tensor& start, const at::Tensor& end, int64_t steps, double, OptionalDtype dtype,
                       Layout, Device, Pin) {
  return range(is_complex(OfTensor(start), OfTensor(end)), steps, dtype);
}
at::Tensor logspace_ts(const at::Tensor& start, const at::Scalar& end, int64_t steps, double, OptionalDtype dtype,
                       Layout, Device, Pin) {
  return range(is_complex(OfTensor(start), end), steps, dtype);
}
at::Tensor logspace_st(const at::Scalar& start, const at::Tensor& end, int64_t steps, double, OptionalDtype dtype,
                       Layout, Device, Pin) {
  return range(is_complex(start, OfTensor(end)), steps, dtype);
}

using Arguments = c10::ArrayRef<c10::IValue>;

// What every kernel fills; others are refused by some of them, in their own words.
bool is_usual(at::ScalarType dtype) {
  constexpr at::ScalarType kUsual[] = {at::kByte, at::kChar,  at::kShort,  at::kInt,     at::kLong,
                                       at::kHalf, at::kFloat, at::kDouble, at::kBFloat16};
  return std::find(std::begin(kUsual), std::end(kUsual), dtype) != std::end(kUsual);
}

// Of integers: [start,] end[, step], then a dtype. They are such as floats hold as well.
template <size_t kNumbers>
bool integer_range(Arguments arguments, ResultShape& result) {
  constexpr int64_t kLargest = int64_t{1} << 52;
  const auto is_plain = [&](const c10::IValue& number) {
    return number.isInt() && number.toInt() >= -kLargest && number.toInt() <= kLargest;
  };
  const auto numbers = arguments.slice(0, std::min<size_t>(kNumbers, 2));
  if (!std::all_of(numbers.begin(), numbers.end(), is_plain)) return false;
  const int64_t start = kNumbers > 1 ? numbers[0].toInt() : 0, end = numbers[kNumbers > 1 ? 1 : 0].toInt();
  if (kNumbers > 2 && !arguments[2].isInt()) return false;
  const int64_t step = kNumbers > 2 ? arguments[2].toInt() : 1;
  // The magnitude of the smallest integer is negative.
  const int64_t length = step > 0 ? end - start : start - end,
                stride = step < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(step)) : step;
  const auto dtype = arguments[kNumbers].isNone() ? at::kLong : arguments[kNumbers].toScalarType();
  if (stride <= 0 || length < 0 || !is_usual(dtype)) return false;
  return give_empty(result, {length / stride + (length % stride != 0 ? 1 : 0)}, dtype);
}

bool full(Arguments arguments, ResultShape& result) {
  const c10::IValue &dtype = arguments[2], &layout = arguments[3];
  const bool is_strided = layout.isNone() || layout.toLayout() == at::kStrided;
  if (!arguments[0].isIntList() || dtype.isNone() || !is_strided) return false;
  const auto sizes = arguments[0].toDimVector();
  const bool are_sizes = std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 0; });
  const bool fits = dtype.toScalarType() == at::kBool || is_usual(dtype.toScalarType());
  return are_sizes && fits && give_empty(result, sizes, dtype.toScalarType());
}

}  // namespace

ShapeRows range_shapes() {
  return {
      quick_row<&integer_range<1>>("aten::arange"),
      quick_row<&integer_range<2>>("aten::arange.start"),
      quick_row<&integer_range<3>>("aten::arange.start_step"),
      quick_row<&full>("aten::full"),
      typed_row<linspace_tt>("aten::linspace.Tensor_Tensor"),
      typed_row<linspace_ts>("aten::linspace.Tensor_Scalar"),
      typed_row<linspace_st>("aten::linspace.Scalar_Tensor"),
      typed_row<logspace_tt>("aten::logspace.Tensor_Tensor"),
      typed_row<logspace_ts>("aten::logspace.Tensor_Scalar"),
      typed_row<logspace_st>("aten::logspace.Scalar_Tensor"),
  };
}

}  // namespace diptych::detail
