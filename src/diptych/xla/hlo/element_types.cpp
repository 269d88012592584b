#include "diptych/xla/hlo/element_types.h"

#include <algorithm>
#include <iterator>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

constexpr ElementType kElementTypes[] = {
    {at::kBool, "i1", PJRT_Buffer_Type_PRED},
    {at::kChar, "i8", PJRT_Buffer_Type_S8},
    {at::kShort, "i16", PJRT_Buffer_Type_S16},
    {at::kInt, "i32", PJRT_Buffer_Type_S32},
    {at::kLong, "i64", PJRT_Buffer_Type_S64},
    {at::kByte, "ui8", PJRT_Buffer_Type_U8},
    {at::kHalf, "f16", PJRT_Buffer_Type_F16},
    {at::kBFloat16, "bf16", PJRT_Buffer_Type_BF16},
    {at::kFloat, "f32", PJRT_Buffer_Type_F32},
    {at::kDouble, "f64", PJRT_Buffer_Type_F64},
    {at::kComplexFloat, "complex<f32>", PJRT_Buffer_Type_C64},
    {at::kComplexDouble, "complex<f64>", PJRT_Buffer_Type_C128},
};

template <class Predicate>
const ElementType* find_row(Predicate is_wanted) {
  const auto* const row = std::find_if(std::begin(kElementTypes), std::end(kElementTypes), is_wanted);
  return row == std::end(kElementTypes) ? nullptr : row;
}

}  // namespace

const ElementType* find_element_type(at::ScalarType dtype) {
  return find_row([&](const ElementType& row) { return row.dtype == dtype; });
}

const ElementType& element_type(at::ScalarType dtype) {
  const ElementType* const row = find_element_type(dtype);
  DIPTYCH_CHECK(row != nullptr,
                "[xla] got a tensor of dtype {}, which XLA's programs cannot hold; convert it to another dtype",
                c10::toString(dtype));
  return *row;
}

const ElementType& element_type(PJRT_Buffer_Type type) {
  const ElementType* const row = find_row([&](const ElementType& row) { return row.type == type; });
  DIPTYCH_CHECK(row != nullptr,
                "[xla] got a buffer of PJRT's element type {}, which no tensor can hold; convert it in the program",
                static_cast<int>(type));
  return *row;
}

}  // namespace diptych::detail
