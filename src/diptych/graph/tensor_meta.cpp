#include "diptych/graph/tensor_meta.h"

#include <algorithm>
#include <numeric>

#include "diptych/base/check.h"
#include "diptych/base/torch_version.h"

namespace diptych {

using namespace detail;
namespace {

struct DtypeName {
  at::ScalarType dtype;
  std::string_view name;
};
constexpr DtypeName kDtypeNames[] = {
    {at::kFloat, "f32"},
    {at::kDouble, "f64"},
    {at::kHalf, "f16"},
    {at::kBFloat16, "bf16"},
    {at::kLong, "i64"},
    {at::kInt, "i32"},
    {at::kShort, "i16"},
    {at::kChar, "i8"},
    {at::kByte, "u8"},
    {at::kBool, "b8"},
    {at::kComplexFloat, "c64"},
    {at::kComplexDouble, "c128"},
    {at::kComplexHalf, "c32"},
#if DIPTYCH_TORCH_AT_LEAST(2, 14)
    {at::ScalarType::BComplex32, "bc32"},
#endif
    {at::kUInt16, "u16"},
    {at::kUInt32, "u32"},
    {at::kUInt64, "u64"},
    {at::kFloat8_e4m3fn, "f8e4m3fn"},
    {at::kFloat8_e5m2, "f8e5m2"},
    {at::kFloat8_e4m3fnuz, "f8e4m3fnuz"},
    {at::kFloat8_e5m2fnuz, "f8e5m2fnuz"},
    {at::kFloat8_e8m0fnu, "f8e8m0fnu"},
};

template <class Range>
void assign(Sizes& sizes, const Range& values) {
  sizes.reserve(values.size());
  for (const int64_t value : values) sizes.emplace_back(value);
}

void append(std::string& text, const Sizes& sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) text += ',';
    text += sizes[i].str();
  }
}

std::vector<int64_t> hints(const Sizes& sizes) {
  std::vector<int64_t> values;
  values.reserve(sizes.size());
  for (const auto& size : sizes) values.push_back(size.hint());
  return values;
}

}  // namespace

TensorMeta TensorMeta::of(const at::Tensor& tensor) {
  // Only asks the TensorImpl: an active recorder would see every at::Tensor method that dispatches.
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  DIPTYCH_CHECK(tensor.defined(),
                "[graph] got an undefined tensor, expected a defined one; pass a tensor or leave it out");
  DIPTYCH_CHECK(impl.layout() == at::kStrided,
                "[graph] got a tensor with layout {}, expected a strided one; call to_dense()",
                c10::str(impl.layout()));
  TensorMeta meta;
  meta.dtype = c10::typeMetaToScalarType(impl.dtype());
  meta.device = impl.device();
  meta.requires_grad = impl.requires_grad();
  assign(meta.sizes, impl.sizes());
  assign(meta.strides, impl.strides());
  return meta;
}

int64_t TensorMeta::numel() const {
  int64_t count = 1;
  for (const auto& size : sizes) count *= size.hint();
  return count;
}

int64_t TensorMeta::nbytes() const { return numel() * static_cast<int64_t>(c10::elementSize(dtype)); }

bool TensorMeta::is_static() const {
  for (const auto& size : sizes) {
    if (!size.is_static()) return false;
  }
  for (const auto& stride : strides) {
    if (!stride.is_static()) return false;
  }
  return true;
}

std::vector<int64_t> TensorMeta::size_hints() const { return hints(sizes); }
std::vector<int64_t> TensorMeta::stride_hints() const { return hints(strides); }

Sizes detail::contiguous_strides(const Sizes& sizes) {
  Sizes strides(sizes.size(), SizeExpr(1));
  for (size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = sizes[i] == SizeExpr(0) ? strides[i] : strides[i] * sizes[i];
  }
  return strides;
}

std::string_view detail::find_dtype_name(at::ScalarType dtype) {
  for (const auto& entry : kDtypeNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  return {};
}

std::optional<at::ScalarType> detail::find_dtype(std::string_view name) {
  for (const auto& entry : kDtypeNames) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

std::string dtype_name(at::ScalarType dtype) {
  const auto name = find_dtype_name(dtype);
  DIPTYCH_CHECK(!name.empty(),
                "[graph] got a tensor of dtype {}, which graphs do not support; convert it to a floating, integer, "
                "bool or complex dtype",
                c10::toString(dtype));
  return std::string(name);
}

at::ScalarType dtype_from_name(std::string_view name) {
  if (const auto dtype = find_dtype(name)) return *dtype;
  std::string known;
  for (const auto& entry : kDtypeNames) known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.name);
  detail::throw_user_error(fmt::format("[dtype_from_name] got '{}', expected one of {}", name, known));
}

std::string type_string(const TensorMeta& meta) {
  // Messages show types that graphs do not hold, so this function does not refuse them.
  const auto name = find_dtype_name(meta.dtype);
  std::string text = name.empty() ? c10::toString(meta.dtype) : std::string(name);
  text += '[';
  append(text, meta.sizes);
  text += ']';
  if (meta.strides != contiguous_strides(meta.sizes)) {
    text += '{';
    append(text, meta.strides);
    text += '}';
  }
  if (meta.device != c10::Device(c10::kCPU)) text += "@" + meta.device.str();
  return text;
}

bool detail::is_dense(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return strides[a] != strides[b] ? strides[a] < strides[b] : sizes[a] < sizes[b];
  });
  int64_t expected = 1;
  for (const size_t dim : order) {
    if (sizes[dim] == 0) return true;
    if (sizes[dim] == 1) continue;
    if (strides[dim] != expected) return false;
    expected *= sizes[dim];
  }
  return true;
}

TensorMeta detail::stacked(const TensorMeta& meta, int64_t length) {
  TensorMeta stack = is_dense(meta.size_hints(), meta.stride_hints()) ? meta : contiguous(meta);
  stack.sizes.insert(stack.sizes.begin(), SizeExpr(length));
  stack.strides.insert(stack.strides.begin(), SizeExpr(std::max<int64_t>(meta.numel(), 1)));
  return stack;
}

TensorMeta detail::slice_of(const TensorMeta& stack) {
  TensorMeta slice = stack;
  slice.sizes.erase(slice.sizes.begin());
  slice.strides.erase(slice.strides.begin());
  return slice;
}

TensorMeta detail::contiguous(TensorMeta meta) {
  meta.strides = contiguous_strides(meta.sizes);
  return meta;
}

}  // namespace diptych
