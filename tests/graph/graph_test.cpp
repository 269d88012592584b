// Sizes, metadata, the verifier, rewriting and the page.
#include <gtest/gtest.h>

#include "diptych/graph/html.h"
#include "diptych/graph/identical.h"
#include "diptych/graph/parse.h"
#include "diptych/graph/rewrite.h"
#include "diptych/graph/verify.h"
#include "diptych/graph/with_slots.h"
#include "graph/random_graph.h"
#include "testing/expect_error.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_error;
using testing::message_of;

TEST(SizeExpr, ComputesAndComparesPolynomials) {
  const auto a = SizeExpr::symbol("a", 6), b = SizeExpr::symbol("b", 4);
  EXPECT_EQ((a + b) * (a - b), a * a - b * b);
  EXPECT_EQ(((a + b) * (a - b)).hint(), 20);
  EXPECT_EQ((a * b).divided_by(2) + (a * b).divided_by(2), a * b);
  EXPECT_EQ((a * 4).divided_by(2), a * 2);
  EXPECT_TRUE((a - a).is_static());
  EXPECT_TRUE(((a + 3) - a).is_static());
  EXPECT_EQ((a + 3) - a, SizeExpr(3));
  EXPECT_FALSE(a == b);
  EXPECT_FALSE(a == SizeExpr(6));
  EXPECT_EQ((a * b + 2).evaluate({{"a", 3}, {"b", 5}}), 17);
  EXPECT_EQ((a * (a + 1)).divided_by(2).evaluate({{"a", 7}}), 28);
  EXPECT_EQ((a * b).symbols(), (std::map<std::string, int64_t>{{"a", 6}, {"b", 4}}));
}

TEST(SizeExpr, PrintsWhatItParses) {
  const std::map<std::string, int64_t> hints{{"s0", 8}, {"s1", 3}};
  for (const char* text : {"0", "-5", "9223372036854775807", "-9223372036854775808", "s0", "-s0", "2*s0", "s0*s1/2",
                           "s0^2+s0*s1-3*s1+7", "(s0+3)/2", "-s0+4", "s0^3", "1/2"}) {
    EXPECT_EQ(SizeExpr::parse(text, hints).str(), text);
  }
  EXPECT_EQ(SizeExpr::parse("(s0+1)*(s0-1)", hints).str(), "s0^2-1");
  EXPECT_EQ(SizeExpr::parse("6*s0/4", hints).str(), "3*s0/2");
}

TEST(SizeExpr, RandomExpressionsRoundTripAndEvaluateToTheirHints) {
  std::mt19937_64 random(1);
  const auto below = [&](uint64_t bound) { return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random); };
  const std::map<std::string, int64_t> hints{{"s0", 12}, {"s1", 18}};
  for (int i = 0; i < 2000; ++i) {
    SizeExpr size = int64_t(below(9)) - 4;
    for (uint64_t n = below(6); n > 0; --n) {
      const char* symbol = below(2) ? "s0" : "s1";
      const SizeExpr other = below(2) ? SizeExpr::symbol(symbol, hints.at(symbol)) : SizeExpr(int64_t(below(7)) - 3);
      size = below(3) == 0 ? size * other : below(2) ? size + other : size - other;
    }
    const SizeExpr back = SizeExpr::parse(size.str(), size.symbols());
    ASSERT_EQ(back, size) << size.str();
    ASSERT_EQ(back.hint(), size.hint()) << size.str();
    ASSERT_EQ(size.evaluate(size.symbols()), size.hint()) << size.str();
  }
}

TEST(SizeExpr, ErrorsSayWhatAndWhere) {
  const auto a = SizeExpr::symbol("a", 3);
  expect_error([] { SizeExpr::symbol("A", 1); }, "got the name 'A', expected a lower-case letter");
  expect_error([] { SizeExpr::parse("2+*3"); }, "'2+*3', column 3: got '*3', expected an integer, a symbol or '('");
  expect_error([] { SizeExpr::parse("s0"); }, "expected a symbol that has a hint");
  expect_error([] { SizeExpr::parse(std::string(200000, '(')); }, "expected fewer parentheses");
  expect_error([&] { (a * 2).evaluate({}); }, "symbol 'a' of '2*a' has no value");
  expect_error([&] { a.divided_by(2).evaluate({{"a", 3}}); }, "'a/2' is 3/2 for these sizes, expected an integer");
  expect_error([&] { a.divided_by(0); }, "got the divisor 0");
  expect_error([&] { (a * a).evaluate({{"a", INT64_MAX}}); }, "does not fit in 64 bits");
  expect_error([&] { SizeExpr(INT64_MAX) + 1; }, "does not fit in 64 bits");
}

TEST(TensorMeta, ReadsATensor) {
  const auto tensor = at::ones({2, 3, 4}, at::kDouble).transpose(0, 2).set_requires_grad(true);
  const auto meta = TensorMeta::of(tensor);
  EXPECT_EQ(meta.dtype, at::kDouble);
  EXPECT_TRUE(meta.requires_grad);
  EXPECT_EQ(meta.size_hints(), (std::vector<int64_t>{4, 3, 2}));
  EXPECT_EQ(meta.stride_hints(), (std::vector<int64_t>{1, 4, 12}));
  EXPECT_EQ(meta.nbytes(), 192);
  EXPECT_EQ(type_string(meta), "f64[4,3,2]{1,4,12}");
  EXPECT_EQ(type_string(TensorMeta::of(at::ones({2, 1, 0}, at::kBool))), "b8[2,1,0]");
  EXPECT_EQ(type_string(TensorMeta::of(at::ones({}, at::TensorOptions().device(at::kMeta)))), "f32[]@meta");
}

TEST(TensorMeta, RefusesWhatGraphsDoNotHold) {
  expect_error<UserError>([] { TensorMeta::of(at::Tensor()); }, "got an undefined tensor");
  expect_error<UserError>([] { TensorMeta::of(at::ones({2, 2}).to_sparse()); }, "got a tensor with layout Sparse");
  expect_error<UserError>([] { dtype_name(at::kQInt8); }, "got a tensor of dtype QInt8");
  expect_error<UserError>([] { dtype_from_name("float"); }, "got 'float', expected one of f32, f64");
}

TEST(TensorMeta, DtypeNamesAreInvertible) {
  for (int i = 0; i < int(at::ScalarType::NumOptions); ++i) {
    const auto name = find_dtype_name(static_cast<at::ScalarType>(i));
    if (name.empty()) continue;
    EXPECT_EQ(int(dtype_from_name(name)), i);
  }
}

constexpr std::string_view kFive = R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.sin(%0)
  %2 : f32[2] = aten.cos(%1)
  %3 : f32[2] = aten.tanh(%2)
  %4 : f32[2] = aten.exp(%3)
  %5 : f32[2] = aten.relu(%4)
  return (%5)
)";

std::string verify_error(const Graph& graph) {
  return message_of<InternalError>([&] { verify(graph); });
}

TEST(Verify, ShowsTheNodeAndThoseRoundIt) {
  Graph graph = parse(kFive);
  graph.add_node(Node{Op::find("aten.tanh"), {Value{7}}, {}, {-1}, {}, {}, true}, {graph.meta(Value{0})});
  const auto text = verify_error(graph);
  EXPECT_NE(text.find("[verify] node 5 (aten.tanh) operand 0 'self' is %7, which is not made before it"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(">     5  %6 : f32[2] = aten.tanh(%7)"), std::string::npos) << text;
  EXPECT_NE(text.find("      2  %3 : f32[2] = aten.tanh(%2)"), std::string::npos) << text;
  EXPECT_EQ(text.find("aten.cos"), std::string::npos) << text;
}

TEST(Verify, FindsEachKindOfFault) {
  const TensorMeta meta = parse(kFive).meta(Value{0});
  const auto with_node = [&](Node node, std::vector<std::optional<TensorMeta>> metas) {
    Graph graph = parse(kFive);
    graph.add_node(std::move(node), std::move(metas));
    return verify_error(graph);
  };
  const auto expect = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const Op tanh = Op::find("aten.tanh"), sum = Op::find("aten.sum.dim_IntList");
  const Op nested(testing::test_hop("nested")), scan(testing::test_hop("scan"));
  expect(with_node({tanh, {}, {}, {-1}, {}, {}, true}, {meta}),
         "has 0 operands, but its schema aten::tanh(Tensor self) -> Tensor takes 1");
  expect(with_node({tanh, {c10::IValue(2)}, {}, {-1}, {}, {}, true}, {meta}),
         "operand 0 'self': expected Tensor, got a constant of type Int");
  expect(with_node({tanh, {Value{-7}}, {}, {-1}, {}, {}, true}, {meta}),
         "operand 0 'self' is %-7, which is not a value");
  expect(
      with_node({sum, {Value{0}, c10::IValue(0.5), c10::IValue(false), c10::IValue()}, {}, {-1}, {}, {}, true}, {meta}),
      "operand 1 'dim': expected int[]?, got a constant of type Double");
  expect(with_node({sum, {Value{0}, Value{0}, c10::IValue(false), c10::IValue()}, {}, {-1}, {}, {}, true}, {meta}),
         "operand 1 'dim': expected int[]?, got a tensor");
  expect(with_node({tanh, {Value{0}}, {}, {}, {}, {}, true}, {meta}), "has 1 outputs, but its returns announce 0");
  expect(with_node({tanh, {Value{0}}, {}, {-1, -1}, {}, {}, true}, {meta, meta}), "has 2 returns, but its schema");
  expect(with_node({tanh, {Value{0}}, {}, {1}, {}, {}, true}, {meta}), "return 0 is Tensor by the schema");
  expect(with_node({tanh, {Value{0}}, {}, {-1}, {std::make_shared<const Graph>()}, {}, true}, {meta}),
         "has 1 subgraphs, expected 0");
  const c10::IValue fronts(std::vector<int64_t>{});
  const auto with_scan = [&](Operand init, Operand like, Operand length) {
    return with_node({scan, {init, like, length, c10::IValue(0.5), fronts}, {}, {}, {}, {}, true}, {});
  };
  expect(with_scan(ValueList{}, Value{0}, c10::IValue(2)), "has 0 subgraphs, expected 1 (step)");
  expect(with_scan(Value{0}, Value{0}, c10::IValue(2)), "operand 0 'init': expected Tensor[], got a tensor");
  expect(with_scan(ValueList{}, ValueList{}, c10::IValue(2)),
         "operand 1 'like': expected Tensor, got a list of tensors");
  expect(with_scan(ValueList{}, Value{0}, c10::IValue(0.5)),
         "operand 2 'length': expected int, got a constant of type");
  expect(with_node({scan, {ValueList{}}, {}, {}, {}, {}, true}, {}), "has 1 operands, but its schema");
  expect(with_node({nested, {}, {}, {}, {nullptr}, {}, true}, {}), "subgraph 0 is missing");
  Provenance from;
  from.grad_of = Value{99};
  expect(with_node({tanh, {Value{0}}, {}, {-1}, {}, from, true}, {meta}), "is the gradient of %99");
  auto inner = std::make_shared<Graph>("body");
  inner->set_outputs({Value{3}}, {{SlotKind::kOutput, "y"}});
  expect(with_node({nested, {}, {}, {}, {inner}, {}, true}, {}),
         "in its subgraph 0: graph 'body' output 0 is %3, which is not a value of the graph");
  TensorMeta odd = meta;
  odd.strides.push_back(1);
  expect(with_node({tanh, {Value{0}}, {}, {-1}, {}, {}, true}, {odd}), "%6 has 1 sizes and 2 strides");
  odd = meta;
  odd.sizes[0] = -3;
  expect(with_node({tanh, {Value{0}}, {}, {-1}, {}, {}, true}, {odd}), "%6 has the negative size -3");
  odd = meta;
  odd.dtype = at::kQInt8;
  expect(with_node({tanh, {Value{0}}, {}, {-1}, {}, {}, true}, {odd}), "has the dtype QInt8");
  Graph hints = parse(kFive);
  hints.mutable_meta(Value{1}).sizes[0] = SizeExpr::symbol("s0", 2);
  hints.mutable_meta(Value{2}).sizes[0] = SizeExpr::symbol("s0", 3);
  expect(verify_error(hints), "symbol s0 has the hints 2 and 3");
  Graph slots = parse(kFive);
  slots.rename_slots({{SlotKind::kGradient, "g"}}, slots.output_slots());
  expect(verify_error(slots), "input 0 'g' has the slot kind 'gradient', which does not exist for an input");
}

TEST(Identical, SeesEachPartOfAGraph) {
  const Graph graph = parse(kFive);
  EXPECT_TRUE(identical(graph, parse(kFive)));
  const auto differs = [&](auto change) {
    Graph other = graph;
    change(other);
    EXPECT_FALSE(identical(graph, other));
  };
  differs([](Graph& g) { g.set_name("g"); });
  differs([](Graph& g) { g.rename_slots({{SlotKind::kArgument, "z"}}, g.output_slots()); });
  differs([](Graph& g) { g.rename_slots({{SlotKind::kTangent, "x"}}, g.output_slots()); });
  differs([](Graph& g) { g.set_outputs({Value{4}}, g.output_slots()); });
  differs([](Graph& g) { g.mutable_meta(Value{3}).requires_grad = true; });
  differs([](Graph& g) { g.mutable_meta(Value{3}).strides[0] = 2; });
  differs([](Graph& g) { g.add_constant(at::ones({1})); });
  differs([](Graph& g) { g.add_input(g.meta(Value{0}), {}); });
}

TEST(Graph, ChangingACopyLeavesTheOriginalAsItWas) {
  const Graph graph = parse(kFive);
  const std::string before = graph.code();
  Graph copy = graph;
  copy.mutable_meta(Value{1}).sizes = {3};
  copy.set_grad_enabled(Value{1}, false);
  copy.add_input(graph.meta(Value{0}), {SlotKind::kArgument, "z"});
  copy.set_outputs({}, {});
  copy.set_name("other");
  EXPECT_EQ(graph.code(), before);
  EXPECT_NE(copy.code(), before);
}

TEST(Rewrite, CopiesAreIdenticalAndExtractKeepsWhatIsNeeded) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = testing::RandomGraph(seed).make(8);
    Rewriter rewriter(graph);
    rewriter.copy_inputs();
    for (const Node& node : graph.nodes()) rewriter.copy_node(node);
    const Graph copy = rewriter.finish();
    ASSERT_FALSE(find_problem(copy)) << find_problem(copy)->what;
    ASSERT_EQ(copy.nodes().size(), graph.nodes().size());
  }
  const Graph graph = parse(kFive);
  const Graph part =
      extract(graph, "part", {Value{2}}, {{SlotKind::kArgument, "a"}}, {Value{4}}, {{SlotKind::kOutput, "b"}});
  EXPECT_EQ(
      part.code(),
      "graph part(%0 a : f32[2])\n  %1 : f32[2] = aten.tanh(%0)\n  %2 : f32[2] = aten.exp(%1)\n  return (%2 b)\n");
}

TEST(WithSlots, TakesThePlaceOfTheGraphThatItIsLike) {
  const Graph like =
      parse("graph f(%0 x : f32[n,3]) where n=2\n  %1 : f32[n,3] = aten.tanh(%0)\n  return (%1 y, none z)\n");
  const std::string other =
      "graph g(%0 a : f32[n,3], %1 free : f32[3]) where n=2\n  %2 : f32[n,3] = aten.mul.Tensor(%0, %1)\n  return (%2 "
      "0)\n";
  const std::vector<at::Tensor> constants{at::ones({3})};
  EXPECT_EQ(
      with_slots_of(parse(other), like, constants).code(),
      "graph f(%0 x : f32[n,3]) where n=2\n  %1 : f32[3] = constant 0\n  %2 : f32[n,3] = aten.mul.Tensor(%0, %1)\n"
      "  return (%2 y, none z)\n");
  const auto refusal = [&](const std::string& part, const std::string& by) {
    std::string text = other;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += by.size()) {
      text.replace(at, part.size(), by);
    }
    return message_of<UserError>([&] { with_slots_of(parse(text), like, constants); });
  };
  const std::string remedy = "; keep the dtypes and sizes of the source graph";
  EXPECT_EQ(refusal("%2 : f32[n,3]", "%2 : f64[n,3]"),
            "[with_slots_of] output 0 ('y') is f64[n,3], expected f32[n,3]" + remedy);
  EXPECT_EQ(refusal("%2 : f32[n,3]", "%2 : f32[2,3]"),
            "[with_slots_of] output 0 ('y') is f32[2,3], expected f32[n,3]" + remedy);
  EXPECT_EQ(refusal("a : f32[n,3]", "a : i64[2,n]"),
            "[with_slots_of] input 0 ('x') is i64[2,n], expected f32[n,3]" + remedy);
}

TEST(Html, HoldsThePairAndEscapesIt) {
  const Graph forward = parse(
      "graph forward(%0 x : f32[2])\n %1 : f32[2] = aten.tanh(%0) # \"</script><b>\"\n return (%1 y, %1 saved "
      "residual)");
  const Graph backward = parse(
      "graph backward(%0 saved : f32[2] residual, %1 g : f32[2] tangent)\n %2 : f32[2] = aten.tanh_backward(%1, %0)\n "
      "return (%2 x.grad gradient)");
  const auto page = html(forward, backward, "A <pair> & more");
  EXPECT_NE(page.find("<title>A &lt;pair&gt; &amp; more</title>"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script>\\u003cb>"), std::string::npos);
  EXPECT_NE(page.find("tanh_backward"), std::string::npos);
  EXPECT_NE(page.find("\"k\":\"residual\""), std::string::npos);
  for (const char* network : {"http:", "https:", "src=", "@import", "fetch("})
    EXPECT_EQ(page.find(network), std::string::npos) << network;
  EXPECT_NE(html(forward, "one").find("\"panels\":[\"forward\"]"), std::string::npos);
  expect_error<UserError>([&] { html(forward, forward, "no pair"); }, "has 1 residuals and the backward graph 0");
}

}  // namespace
}  // namespace diptych
