// Operators that belong to another one.
#include "diptych/ops/related_operators.h"

#include <gtest/gtest.h>

#include <string>

namespace diptych::detail {
namespace {

std::string name_of(const std::optional<Op>& op) { return op ? op->name() : ""; }

TEST(RelatedOperators, ProductsHaveAFormThatWritesIntoMemory) {
  for (const std::string name : {"aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm"}) {
    EXPECT_EQ(name_of(product_into(Op::find(name))), name + ".out");
  }
  for (const std::string name : {"aten.mm.out", "aten.mv", "aten.add.Tensor", "aten.tanh"}) {
    EXPECT_EQ(name_of(product_into(Op::find(name))), "") << name;
  }
}

TEST(RelatedOperators, GradientsNameThePointwiseFunctionThatTheyAreOf) {
  for (const std::string name : {"aten.gelu", "aten.silu", "aten.tanh", "aten.leaky_relu", "aten.softplus"}) {
    EXPECT_EQ(name_of(function_of_gradient(Op::find(name + "_backward"))), name);
  }
  for (const std::string name : {"aten.gelu", "aten.log_sigmoid_backward", "aten.native_layer_norm_backward",
                                 "aten.convolution_backward", "aten.tanh_backward.grad_input"}) {
    EXPECT_EQ(name_of(function_of_gradient(Op::find(name))), "") << name;
  }
}

}  // namespace
}  // namespace diptych::detail
