// The signature of a hand-made pair: queries, the table, errors, and differences.
#include "diptych/tree/signature.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <sstream>

#include "testing/expect_error.h"

namespace diptych {
namespace {

using testing::message_of;

TensorMeta meta(at::IntArrayRef sizes, bool requires_grad = false, at::ScalarType dtype = at::kFloat) {
  TensorMeta result = TensorMeta::of(at::empty(sizes, at::TensorOptions(dtype)));
  result.requires_grad = requires_grad;
  return result;
}

/// f(params.w, params.b, tokens, state | mask) -> (loss, view of params.w), changes state in place, saves one residual.
Graph forward_graph(int64_t width = 4) {
  Graph graph("forward");
  const Value w = graph.add_input(meta({width, 4}, true), {SlotKind::kArgument, "params.w"});
  const Value b = graph.add_input(meta({4}, true), {SlotKind::kArgument, "params.b"});
  graph.add_input(meta({8}, false, at::kLong), {SlotKind::kArgument, "tokens"});
  const Value state = graph.add_input(meta({2}), {SlotKind::kArgument, "state"});
  graph.add_input(meta({4}), {SlotKind::kFreeVariable, "mask"});
  graph.set_outputs({b, w, state, b}, {{SlotKind::kOutput, "output.0"},
                                       {SlotKind::kOutput, "output.1"},
                                       {SlotKind::kMutated, "state"},
                                       {SlotKind::kResidual, "%7"}});
  return graph;
}

Graph backward_graph(std::string residual = "%7", std::string gradient = "params.w") {
  Graph graph("backward");
  const Value saved = graph.add_input(meta({4}), {SlotKind::kResidual, std::move(residual)});
  graph.add_input(meta({4}), {SlotKind::kTangent, "output.0"});
  graph.add_input(meta({2}), {SlotKind::kTangent, "state"});
  graph.set_outputs({saved, Value{}}, {{SlotKind::kGradient, std::move(gradient)}, {SlotKind::kGradient, "params.b"}});
  return graph;
}

Signature make_signature(int64_t width = 4) {
  return Signature(forward_graph(width), backward_graph(), {{OutputAlias::Kind::kViewOfInput, 1, 0}});
}

TEST(Signature, AnswersWhatStandsWhere) {
  const Signature signature = make_signature();
  EXPECT_EQ(signature.num_arguments(), 4u);
  EXPECT_EQ(signature.num_outputs(), 2u);
  EXPECT_EQ(signature.free_variables(), std::vector<std::string>{"mask"});
  EXPECT_EQ(signature.residuals(), std::vector<std::string>{"%7"});
  EXPECT_EQ(signature.mutated(), std::vector<std::string>{"state"});
  EXPECT_EQ(signature.index_of_input("tokens"), 2u);
  EXPECT_EQ(signature.index_of_input("mask"), 4u);
  EXPECT_EQ(signature.index_of_output("output.1"), 1u);
  EXPECT_EQ(signature.differentiable_outputs(), (std::vector<size_t>{0, 2}));
}

TEST(Signature, FindsGradientsAndWhetherTheyFlow) {
  const Signature signature = make_signature();
  EXPECT_EQ(signature.gradient_of("params.w"), 0u);
  EXPECT_EQ(signature.gradient_of("params.b"), 1u);
  EXPECT_TRUE(signature.has_gradient("params.w"));
  EXPECT_FALSE(signature.has_gradient("params.b"));
}

TEST(Signature, TellsWhatAnOutputAliases) {
  const Signature signature(forward_graph(),
                            {{OutputAlias::Kind::kIsInput, 0, 1}, {OutputAlias::Kind::kViewOfOutput, 1, 0}});
  EXPECT_EQ(signature.alias_text(0), "output 0 is params.b");
  EXPECT_EQ(signature.alias_text(1), "output 1 is a view of output 0");
  EXPECT_EQ(make_signature().alias_text(0), "");
  EXPECT_EQ(make_signature().alias_text(1), "output 1 is a view of params.w");
  EXPECT_EQ(make_signature().alias_of(1)->target, 0u);
  EXPECT_FALSE(make_signature().alias_of(0).has_value());
}

TEST(Signature, PrintsAnAlignedTable) {
  std::ostringstream stream;
  stream << make_signature();
  EXPECT_EQ(stream.str(),
            "forward inputs (5)\n"
            "     0  argument       params.w  f32[4,4]  requires grad\n"
            "     1  argument       params.b  f32[4]    requires grad\n"
            "     2  argument       tokens    i64[8]\n"
            "     3  argument       state     f32[2]\n"
            "     4  free_variable  mask      f32[4]\n"
            "forward outputs (4)\n"
            "     0  output         output.0  f32[4]\n"
            "     1  output         output.1  f32[4,4]  output 1 is a view of params.w\n"
            "     2  mutated        state     f32[2]\n"
            "     3  residual       %7        f32[4]\n"
            "backward inputs (3)\n"
            "     0  residual       %7        f32[4]\n"
            "     1  tangent        output.0  f32[4]\n"
            "     2  tangent        state     f32[2]\n"
            "backward outputs (2)\n"
            "     0  gradient       params.w  f32[4]\n"
            "     1  gradient       params.b  none\n");
}

TEST(Signature, NamesTheNearestPathsOfAnUnknownInput) {
  const Signature signature = make_signature();
  EXPECT_EQ(message_of<UserError>([&] { signature.index_of_input("w"); }),
            "[signature] got 'w', expected the path of an input. The nearest are: 'params.w', 'mask', 'state'.");
  EXPECT_EQ(
      message_of<UserError>([&] { signature.gradient_of("parms.b"); }),
      "[signature] got 'parms.b', expected the path of an input. The nearest are: 'params.b', 'params.w', 'mask'.");
  EXPECT_EQ(message_of<UserError>([&] { signature.index_of_output("output"); }),
            "[signature] got 'output', expected the path of an output. The nearest are: 'output.0', 'output.1'.");
  EXPECT_EQ(message_of<UserError>([&] { Signature().index_of_input("w"); }),
            "[signature] got 'w', expected the path of an input. There are none.");
}

TEST(Signature, SaysWhyAnInputHasNoGradient) {
  EXPECT_EQ(
      message_of<UserError>([&] { make_signature().gradient_of("tokens"); }),
      "[signature] got 'tokens', expected an input with a gradient; it is i64[8], which does not require grad. The "
      "inputs with gradients are those that are floating-point or complex and require grad.");
  EXPECT_EQ(message_of<UserError>([&] { Signature(forward_graph()).gradient_of("params.w"); }),
            "[signature] got 'params.w', expected an input with a gradient, but nothing was differentiated; capture "
            "with an input that requires grad");
  EXPECT_EQ(message_of<UserError>([&] { make_signature().alias_of(2); }),
            "[signature] got output 2, expected one of the 2 outputs.");
}

TEST(Signature, RefusesGraphsThatDoNotFit) {
  const auto text_of = [](auto&& make) { return message_of<InternalError>(make); };
  EXPECT_NE(text_of([] {
              Signature(forward_graph(), backward_graph("%8"));
            }).find("the forward graph makes the residuals [%7], the backward graph takes [%8]"),
            std::string::npos);
  EXPECT_NE(text_of([] {
              Signature(forward_graph(), backward_graph("%7", "nobody"));
            }).find("gradient 'nobody' does not belong to a forward input"),
            std::string::npos);
  EXPECT_NE(text_of([] {
              Signature(forward_graph(), {{OutputAlias::Kind::kIsInput, 0, 9}});
            }).find("output 0 can't alias input 9"),
            std::string::npos);
  Graph stray = backward_graph();
  stray.add_input(meta({1}), {SlotKind::kTangent, "output.0"});
  EXPECT_NE(text_of([&] {
              Signature(forward_graph(), stray);
            }).find("tangent 'output.0' does not belong to a forward output"),
            std::string::npos);
}

TEST(Mismatch, IsNothingForEqualSignatures) { EXPECT_EQ(mismatch(make_signature(), make_signature()), std::nullopt); }

TEST(Mismatch, NamesTheFirstSlotThatDiffers) {
  EXPECT_EQ(mismatch(make_signature(4), make_signature(8)),
            "forward input 0 'params.w': expected f32[4,4], got f32[8,4]");
  EXPECT_EQ(mismatch(make_signature(), Signature(forward_graph(), backward_graph())),
            "aliases: expected that output 1 is a view of params.w, got that output 1 aliases nothing");
  EXPECT_EQ(mismatch(make_signature(), Signature(forward_graph(), {{OutputAlias::Kind::kViewOfInput, 1, 0}})),
            "backward inputs: expected 3, got 0; residual '%7' is missing");
}

TEST(Mismatch, TellsRequiresGradAndNames) {
  Graph a("a"), b("b"), c("c");
  a.add_input(meta({2}, true), {SlotKind::kArgument, "x"});
  b.add_input(meta({2}, false), {SlotKind::kArgument, "x"});
  c.add_input(meta({2}, true), {SlotKind::kFreeVariable, "y"});
  EXPECT_EQ(mismatch(Signature(a), Signature(b)), "forward input 0 'x': expected requires_grad=true, got false");
  EXPECT_EQ(mismatch(Signature(a), Signature(c)),
            "forward input 0 'y': expected the argument 'x', got the free_variable 'y'");
}

}  // namespace
}  // namespace diptych
