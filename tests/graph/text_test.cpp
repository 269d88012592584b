// code() and parse() are each other's inverse, and parse() tells what is wrong with a text.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "diptych/base/error.h"
#include "diptych/graph/identical.h"
#include "diptych/graph/parse.h"
#include "diptych/graph/verify.h"
#include "graph/random_graph.h"
#include "testing/expect_error.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_contains;
using testing::message_of;
using testing::RandomGraph;
using testing::test_hop;

Graph reparsed(const Graph& graph) { return parse(graph.code(), all_constants(graph), test_hop); }

std::string parse_error(const std::string& text, const std::vector<at::Tensor>& constants = {}) {
  return message_of([&] { parse(text, constants, test_hop); });
}

constexpr std::string_view kSmall = R"(graph forward(%0 x : f32[128,512], %1 params.w : f32[512,512] grad)
  %2 : f32[512,512]{1,512} grad = aten.t(%1)  # block0
  %3 : f32[128,512] grad = aten.mm(%0, %2)  # block0
  %4 : f32[128,512] grad = aten.tanh(%3)  # block0
  %5 : f32[128,512] = aten.tanh_backward(%0, %4)  # block0 · grad of %3
  [%6 : f32[64,512], %7 : f32[64,512]] = aten.split.Tensor(%4, 64)
  %8 : f32[128,512] = aten.add.Tensor(%4, number(2.0), alpha=3)  # no_grad
  %9 : f32[512] = aten.mean.dim(%8, [0])
  none, %10 : f32[] = aten.aminmax(%9)
  _ = aten.item(%10)
  return (%9 loss, %2 residual.0 residual, none x.grad gradient)
)";

TEST(Text, PrintsWhatItParsed) { EXPECT_EQ(parse(kSmall).code(), kSmall); }

constexpr std::string_view kRegions = R"(graph f(%0 x : f32[2] grad)
  %1 : f32[2] grad = aten.sin(%0)  # block0 · region checkpoint.0 recompute
  %2 : f32[2] grad = aten.tanh(%1)  # region checkpoint.0/checkpoint.1 auto/save · named "q,k" · by decompose
  %3 : f32[2] = aten.tanh_backward(%0, %2)  # grad of %2 · region checkpoint.0/checkpoint.1
  %4 : f32[2] = aten.neg(%3)  # "region" · region "a b" save · own_derivative · no_grad
  return (%4 y)
)";

TEST(Text, HoldsRegionsMarksAndNames) {
  const Graph graph = parse(kRegions);
  EXPECT_EQ(graph.code(), kRegions);
  const Provenance& second = graph.nodes()[1].provenance;
  EXPECT_EQ(second.region.str(), "checkpoint.0/checkpoint.1");
  EXPECT_EQ(second.marks.at(0), Rematerialize::kAuto);
  EXPECT_EQ(second.marks.decision(), Rematerialize::kSave);
  EXPECT_TRUE(has_residual_name(second.residual_name, "k"));
  EXPECT_FALSE(has_residual_name(second.residual_name, "q,k"));
  EXPECT_EQ(graph.nodes()[3].provenance.scope.str(), "region");
  EXPECT_TRUE(graph.nodes()[3].provenance.own_derivative && !second.own_derivative);
  EXPECT_NE(graph.table().find("block0 · region checkpoint.0 recompute"), std::string::npos) << graph.table();
  const auto line = [](std::string_view note) {
    return fmt::format("graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.sin(%0)  # {}\n  return (%1)", note);
  };
  expect_contains(parse_error(line("region a maybe")), "got 'maybe', expected 'auto', 'save' or 'recompute'");
  expect_contains(parse_error(line("region a save/save")), "which are more than the regions on the path 'a'");
  expect_contains(parse_error(line("region a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a")), "17 deep, expected at most 16");
  expect_contains(parse_error(line("named x · oops")), "got 'oops', expected 'grad of %3'");
}

TEST(Text, RegionPathsAreTakenApart) {
  const InternedString path("a/b/c");
  EXPECT_EQ(region_depth(path), 3U);
  EXPECT_EQ(region_depth(InternedString()), 0U);
  EXPECT_EQ(outer_region(path, 2).str(), "a/b");
  EXPECT_EQ(outer_region(path, 3), path);
  EXPECT_TRUE(outer_region(path, 0).empty());
  EXPECT_EQ(common_region_depth(path, InternedString("a/b/d")), 2U);
  EXPECT_EQ(common_region_depth(path, InternedString("a/bb")), 1U);
  EXPECT_EQ(common_region_depth(path, path), 3U);
  EXPECT_EQ(common_region_depth(path, InternedString()), 0U);
}

TEST(Text, HoldsWhatItSays) {
  const Graph graph = parse(kSmall);
  EXPECT_EQ(graph.name(), "forward");
  ASSERT_EQ(graph.inputs().size(), 2u);
  EXPECT_EQ(graph.input_slots()[1].path, "params.w");
  EXPECT_TRUE(graph.meta(graph.inputs()[1]).requires_grad);
  ASSERT_EQ(graph.nodes().size(), 9u);
  EXPECT_EQ(graph.nodes()[0].provenance.scope.str(), "block0");
  EXPECT_EQ(graph.meta(graph.nodes()[0].outputs[0]).stride_hints(), (std::vector<int64_t>{1, 512}));
  EXPECT_EQ(graph.nodes()[3].provenance.grad_of, Value{3});
  EXPECT_EQ(graph.nodes()[3].provenance.phase, Phase::kBackward);
  EXPECT_EQ(graph.nodes()[4].returns[0], 2);
  EXPECT_FALSE(graph.nodes()[5].grad_enabled);
  EXPECT_EQ(std::get<WrappedNumber>(graph.nodes()[5].operands[1]).number.toDouble(), 2.0);
  EXPECT_EQ(std::get<c10::IValue>(graph.nodes()[5].operands[2]).toInt(), 3);
  EXPECT_TRUE(std::get<c10::IValue>(graph.nodes()[6].operands[3]).isNone());  // dtype, by default
  EXPECT_FALSE(graph.nodes()[7].outputs[0]);
  EXPECT_EQ(graph.nodes()[8].returns[0], -2);
  EXPECT_EQ(graph.output_slots()[1].kind, SlotKind::kResidual);
  EXPECT_FALSE(graph.outputs()[2]);
}

TEST(Text, KeepsSizeExpressionsWithTheirHints) {
  const std::string text = R"(graph f(%0 x : f32[s0,s1*s0/2]) where s0=4, s1=3
  %1 : f32[s0*s1/2,s0]{1,s0*s1/2} = aten.transpose.int(%0, 0, 1)
  %2 : f32[2*s0] = aten.new_empty(%0, [2*s0])
  %3 : f32[2,3] = aten.new_empty(%0, sizes[2, 3])
  return (%2)
)";
  const Graph graph = parse(text);
  EXPECT_EQ(graph.meta(Value{0}).size_hints(), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(std::get<Sizes>(graph.nodes()[1].operands[1])[0].evaluate({{"s0", 10}}), 20);
  EXPECT_TRUE(identical(graph, reparsed(graph)));
  EXPECT_NE(graph.code().find("sizes[2, 3]"), std::string::npos);
}

TEST(Text, NestsSubgraphsAndNumbersTheirConstantsInTheOrderOfTheText) {
  const std::string text = R"(graph f(%0 x : f32[3])
  %1 : f32[3] = constant 0
  %2 : f32[3] = hop.scan(init=[%0, %1, none], like=%0, length=3, scale=0.25, fronts=[1, 2]) {
    graph body(%0 c : f32[3])
      %1 : f32[3] = constant 1
      %2 : f32[3] = aten.mul.Tensor(%0, %1)
      return (%2)
  }  # loop
  %3 : f32[] = constant 2
  return (%2)
)";
  const std::vector<at::Tensor> constants{at::ones({3}), at::zeros({3}), at::ones({})};
  const Graph graph = parse(text, constants, test_hop);
  EXPECT_EQ(graph.code(), text);
  const auto found = all_constants(graph);
  ASSERT_EQ(found.size(), 3u);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].is_same(constants[i]));
}

TEST(Text, RenumbersValuesThatSkipNumbers) {
  const Graph graph =
      parse("graph f(%3 x : f32[2])\n // a remark\n %70 : f32[2] = aten.tanh(%3) // another\n return (%70)");
  EXPECT_EQ(graph.code(), "graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.tanh(%0)\n  return (%1)\n");
}

TEST(Text, EveryOperatorRoundTrips) {
  ASSERT_GT(testing::all_operators().size(), 2000u);
  RandomGraph random(7);
  for (const Op& op : testing::all_operators()) {
    Graph graph = random.make(2);
    random.add_node(graph, op);
    random.add_node(graph, op);
    ASSERT_FALSE(find_problem(graph)) << op.name() << ": " << find_problem(graph)->what;
    const auto text = graph.code();
    const Graph back = parse(text, all_constants(graph), test_hop);
    ASSERT_EQ(back.code(), text);
    ASSERT_TRUE(identical(graph, back)) << text;
  }
}

TEST(Text, RandomGraphsRoundTrip) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = RandomGraph(seed).make(12);
    ASSERT_NO_THROW(verify(graph)) << graph.code();
    ASSERT_TRUE(identical(graph, reparsed(graph))) << seed << "\n" << graph.code();
  }
}

TEST(Text, IdenticalSeesEveryDifferenceThatTextShows) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph a = RandomGraph(seed).make(6), b = RandomGraph(seed + 1).make(6);
    EXPECT_EQ(identical(a, b), a.code() == b.code()) << seed;
  }
}

// A damaged text is refused, or is another text that means what it says.
TEST(Text, MutatedTextIsRefusedOrRoundTrips) {
  std::mt19937_64 random(3);
  const auto below = [&](size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random); };
  size_t refused = 0, accepted = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = RandomGraph(seed).make(5);
    const auto constants = all_constants(graph);
    for (int i = 0; i < 150; ++i) {
      std::string text = graph.code();
      for (size_t n = 1 + below(3); n > 0; --n) {
        const size_t at = below(text.size());
        switch (below(4)) {
          case 0:
            text[at] = static_cast<char>(below(256));
            break;
          case 1:
            text.erase(at, 1 + below(12));
            break;
          case 2:
            text.insert(at, text.substr(below(text.size()), below(20)));
            break;
          default:
            text[at] = "%()[]{},:=#\"\\ \n0-9none"[below(22)];
            break;
        }
        if (text.empty()) text = " ";
      }
      try {
        const Graph other = parse(text, constants, test_hop);
        ASSERT_TRUE(identical(other, parse(other.code(), all_constants(other), test_hop))) << text;
        ++accepted;
      } catch (const UserError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(accepted, 50u);
}

TEST(Text, DeeplyNestedTextIsRefused) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "graph f() hop.nested() {";
  expect_contains(parse_error(text), "at most 32 nested graphs");
}

struct BadText {
  const char* text;
  const char* message;
};

TEST(Text, ErrorsSayWhereAndWhatWasExpected) {
  const BadText cases[] = {
      {"", "[parse] line 1, column 1: got the end of the text, expected 'graph'"},
      {"graph f(%0 x : f32[2]", "expected ')' after the inputs"},
      {"graph f(%0 x : q32[2])\n return ()",
       "[parse] line 1, column 16: got \"q32[2])\", expected a type such as f32[2,3]"},
      {"graph f(%0 x : f32[2] banana)\n return ()", "or a kind of slot: argument, free_variable"},
      {"graph f(%0 x : f32[s7])\n return ()", "expected a symbol that has a hint"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.tanhh(%0)\n return ()",
       "[parse] line 2, column 17: [Op::find] this LibTorch has no operator 'aten.tanhh'"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.tanh(%5)\n return ()",
       "[parse] line 2, column 27: got %5, expected a value that an input or an earlier line defines"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.tanh()\n return ()",
       "aten.tanh needs the operand 'self'; its schema is aten::tanh(Tensor self) -> Tensor"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.tanh(%0, %0)\n return ()", "aten.tanh takes 1 operands, got more"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.add.Tensor(%0, %0, beta=1)\n return ()",
       "aten.add.Tensor has no operand 'beta'"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.add.Tensor(self=%0, %0)\n return ()",
       "got an unnamed operand after a named one"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.add.Tensor(%0, %0, self=%0)\n return ()",
       "operand 'self' is given twice"},
      {"graph f(%0 x : f32[2])\n  %0 : f32[2] = aten.tanh(%0)\n return ()",
       "[parse] line 2, column 3: %0 is defined twice"},
      {"graph f(%0 x : f32[2])\n  %5 : f32[2] = aten.tanh(%0)\n  %4 : f32[2] = aten.tanh(%0)\n return ()",
       "%4 is defined after a value with a higher number"},
      {"graph f(%0 x : f32[2], %9 y : f32[2])\n  %5 : f32[2] = aten.tanh(%9)\n return ()",
       "%5 uses %9, which has a higher number"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2], %2 : f32[2] = aten.tanh(%0)\n return ()",
       "has 2 returns, but its schema aten::tanh(Tensor self) -> Tensor announces 1"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.sum.dim_IntList(%0, [0.5])\n return ()",
       "[parse] line 2, column 43: [SizeExpr::parse] '0.5'"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.sum(%0, dtype=f33)\n return ()", "expected a dtype such as f32"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.bernoulli(%0, generator=generator(cpu))\n return ()",
       "got a generator, which text cannot hold"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.tanh(%0)  # block0 · nonsense\n return ()",
       "a remark starts with //"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.tanh(%0)  # grad of %8\n return ()",
       "got 'grad of %8', expected a value of this graph"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = aten.tanh(%0) %3\n return ()", "expected the end of the line"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = hop.nothing(x=%0)\n return ()",
       "got the unknown higher-order operator 'hop.nothing'"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = hop.scan(init=[%0], like=%0, length=2)\n return ()",
       "has 0 subgraphs, expected 1 (step)"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = hop.scan([%0], like=%0, length=2)\n return ()",
       "got an unnamed operand, expected a named one, as in init=...; the schema of hop.scan is "
       "scan(Tensor[] init, Tensor like, int length, float scale=0.5, int[] fronts=[])"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = hop.scan(init=[%0], like=%0)\n return ()",
       "hop.scan needs the operand 'length'"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = hop.scan(init=[%0], like=%0, length=2, banana=1)\n return ()",
       "hop.scan has no operand 'banana'"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = hop.scan(init=%0, like=%0, length=2)\n return ()", "expected '['"},
      {"graph f(%0 x : f32[2])\n  %1 : f32[2] = constant 0\n return ()",
       "the text has constant 0, but 0 tensors were given"},
      {"graph f(%0 x : i64[2] grad)\n return ()", "%0 is i64 and requires grad"},
      {"graph f(%0 x : f32[2]{1,2})\n return ()", "%0 has 1 sizes and 2 strides"},
      {"graph f(%0 x : f32[-2])\n return ()", "%0 has the negative size -2"},
      {"graph f(%0 x : f32[9999999999,9999999999])\n return ()", "%0 has more bytes than 64 bits count"},
      {"graph f(%0 x : f32[9999999999,9999999999,9999999999])\n return ()",
       "[parse] line 1, column 16: [SizeExpr] the value does not fit in 64 bits"},
      {"graph f(%0 x : f32[2]@nowhere)\n return ()", "[parse] line 1, column 23:"},
      {"graph f(%0 x : f32[2] tangent)\n return (%0 y tangent)",
       "output 0 'y' has the slot kind 'tangent', which does not exist for an output"},
      {"graph f(%0 \"x\\q\" : f32[2])\n return ()", "in a string"},
      {"graph f(%0 x : f32[2])\n return (%0) extra", "expected the end of the text after 'return (...)'"},
  };
  for (const auto& bad : cases) {
    EXPECT_NE(parse_error(bad.text).find(bad.message), std::string::npos)
        << bad.text << "\ngot: " << parse_error(bad.text);
  }
}

TEST(Text, ConstantsOfAnotherTypeAreRefused) {
  const std::string text = "graph f()\n  %0 : f32[2] = constant 0\n  return (%0)\n";
  expect_contains(parse_error(text, {at::ones({3})}), "constant 0 was given as f32[3], expected f32[2]");
  EXPECT_TRUE(identical(parse(text, {at::ones({2})}), parse(text, {at::ones({2})})));
  EXPECT_FALSE(identical(parse(text, {at::ones({2})}), parse(text, {at::zeros({2})})));
}

TEST(Text, AGeneratorPrintsAsWhatCanNotBeRead) {
  Graph graph = parse("graph f(%0 x : f32[2])\n  return ()\n");
  Node node{Op::find("aten.bernoulli"),
            {Value{0}, c10::IValue(at::make_generator<at::CPUGeneratorImpl>())},
            {},
            {-1},
            {},
            {},
            true};
  graph.add_node(std::move(node), {graph.meta(Value{0})});
  EXPECT_NE(graph.code().find("aten.bernoulli(%0, generator=generator(cpu))"), std::string::npos);
  expect_contains(parse_error(graph.code()), "got a generator");
}

TEST(Table, AlignsColumnsAndSumsUp) {
  const auto table = parse(kSmall).table();
  EXPECT_NE(table.find("%4         f32[128,512]"), std::string::npos) << table;
  EXPECT_NE(table.find("%6, %7     f32[64,512], f32[64,512]"), std::string::npos) << table;
  EXPECT_NE(table.find("forward: 9 nodes, 2 inputs, 3 outputs, 0 constants; 2.3 MiB in the values that nodes make"),
            std::string::npos)
      << table;
  std::vector<size_t> lengths;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) lengths.push_back(line.size());
  for (size_t i = 1; i + 1 < lengths.size(); ++i) EXPECT_EQ(lengths[i], lengths[0]) << table;
}

}  // namespace
}  // namespace diptych
