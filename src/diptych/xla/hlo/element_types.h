// The one table of dtypes: what StableHLO's text calls them, and which element type of PJRT they are.
#pragma once
#include <c10/core/ScalarType.h>

#include <string_view>

#include "pjrt_c_api.h"

namespace diptych::detail {

struct ElementType {
  at::ScalarType dtype;
  std::string_view name;  ///< in StableHLO's text
  PJRT_Buffer_Type type;
};

/// Returns the row of a dtype, or null if XLA has no such type.
const ElementType* find_element_type(at::ScalarType dtype);
/// Returns the row of a dtype. Errors: UserError for a dtype that XLA does not have.
const ElementType& element_type(at::ScalarType dtype);
/// Returns the row of PJRT's type. Errors: UserError for a type that no dtype corresponds to.
const ElementType& element_type(PJRT_Buffer_Type type);

}  // namespace diptych::detail
