// Shapes of ranges whose ends are tensors: Python's Meta kernels read the values, though the shape does not depend on
// them.
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

}  // namespace

ShapeRows range_shapes() {
  return {
      typed_row<linspace_tt>("aten::linspace.Tensor_Tensor"), typed_row<linspace_ts>("aten::linspace.Tensor_Scalar"),
      typed_row<linspace_st>("aten::linspace.Scalar_Tensor"), typed_row<logspace_tt>("aten::logspace.Tensor_Tensor"),
      typed_row<logspace_ts>("aten::logspace.Tensor_Scalar"), typed_row<logspace_st>("aten::logspace.Scalar_Tensor"),
  };
}

}  // namespace diptych::detail
