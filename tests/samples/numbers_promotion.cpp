// Operands of all pairs of dtypes, with and without dims.
#include "samples/cases.h"
#include "samples/families.h"

namespace diptych::test {

Samples numbers_promotion() {
  using testing::OperandKind;
  const auto dtypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kByte, at::kBool};
  Samples out;
  for (const std::string op :
       {"aten.add.Tensor", "aten.mul.Tensor", "aten.div.Tensor", "aten.maximum", "aten.lt.Tensor", "aten.eq.Tensor",
        "aten.where.self", "aten.pow.Tensor_Tensor", "aten.atan2"}) {
    for (const auto a : dtypes) {
      for (const auto b : dtypes) {
        for (const auto second : {OperandKind::kBlock2, OperandKind::kScalar}) {
          std::vector<c10::IValue> arguments = {plain_sample(OperandKind::kBlock, a), plain_sample(second, b)};
          if (op == "aten.where.self") {
            arguments.insert(arguments.begin(), plain_sample(OperandKind::kBlock, at::kDouble).gt(0));
          }
          out.push_back(sample(op, arguments, "promoted"));
          out.back().may_be_refused = true;
        }
      }
    }
  }
  return out;
}

}  // namespace diptych::test
