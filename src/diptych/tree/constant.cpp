#include "diptych/tree/constant.h"

#include "diptych/base/check.h"

namespace diptych {

using namespace detail;

Constant Constant::of(const at::Scalar& value) {
  DIPTYCH_CHECK(!value.isSymbolic(),
                "[constants] got an at::Scalar that holds a symbolic number, expected a plain one; pass the number as "
                "an int64_t or a double");
  if (value.isBoolean()) return of(value.toBool());
  if (value.isComplex()) return of(value.toComplexDouble());
  if (value.isFloatingPoint()) return of(value.toDouble());
  return value.type() == at::kUInt64 ? of(value.toUInt64()) : of(value.toLong());
}

std::string Constant::str() const {
  switch (kind) {
    case ConstantKind::kNothing:
      return "nothing";
    case ConstantKind::kBool:
      return bits != 0 ? "true" : "false";
    case ConstantKind::kInteger:
      return fmt::format("{}", static_cast<int64_t>(bits));
    case ConstantKind::kUnsigned:
      return fmt::format("{}", bits);
    case ConstantKind::kFloat:
      return fmt::format("{}", std::bit_cast<double>(bits));
    case ConstantKind::kComplex:
      return fmt::format("{}{:+}i", std::bit_cast<double>(bits), std::bit_cast<double>(more_bits));
    case ConstantKind::kString:
      return fmt::format("\"{}\"", text);
    case ConstantKind::kEnum:
      return fmt::format("enum value {}", static_cast<int64_t>(bits));
    case ConstantKind::kDtype:
      return c10::toString(static_cast<at::ScalarType>(bits));
    case ConstantKind::kDevice:
      return c10::Device(static_cast<c10::DeviceType>(bits), static_cast<c10::DeviceIndex>(more_bits)).str();
  }
  DIPTYCH_ASSERT(false, "unknown constant kind {}", static_cast<int>(kind));
}

}  // namespace diptych
