// The order of leaves, and the paths under which they are visited, for every container.
#include "diptych/tree/tree.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace lib {
// Stands for structs of another library, which can't be edited.
struct Box {
  at::Tensor low;
  at::Tensor high;
};
struct Nothing {};
template <class T>
struct Two {
  T first;
  T second;
};
using TwoBoxes = Two<Box>;
DIPTYCH_FIELDS_OF(Box, low, high)
DIPTYCH_FIELDS_OF(Nothing)
DIPTYCH_FIELDS_OF(TwoBoxes, first, second)
}  // namespace lib

namespace diptych {
namespace {

/// Writes down every call, as "kind path".
struct Log : LeafVisitor {
  std::vector<std::string> lines;
  void add(std::string kind, const Path& path) { lines.push_back(kind + " " + path.str()); }
  void tensor(const Path& path, const at::Tensor&) { add("tensor", path); }
  template <class X>
  void constant(const Path& path, const X&) {
    add("constant", path);
  }
};

template <class T>
std::vector<std::string> visit(T&& value) {
  Log log;
  visit_leaves(value, Path("v"), log);
  return log.lines;
}

using Lines = std::vector<std::string>;

enum class Mode { kTrain, kTest };

struct Block {
  at::Tensor weight;
  int64_t heads = 4;
  DIPTYCH_FIELDS(weight, heads)
};

class Hidden {
 public:
  at::Tensor shown;

 private:
  at::Tensor own;
  DIPTYCH_FIELDS(own, shown)
};

template <class T>
struct Wrapper {
  T inner;
  std::vector<T> more;
  DIPTYCH_FIELDS(inner, more)
};

struct Empty {
  DIPTYCH_FIELDS()
};

struct Wide {
  int a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1, c2, c3, c4, c5, c6, c7,
      c8, c9, d0, d1, d2, d3, d4, d5, d6, d7, d8, d9;
  DIPTYCH_FIELDS(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1, c2, c3, c4, c5,
                 c6, c7, c8, c9, d0, d1, d2, d3, d4, d5, d6, d7, d8, d9)
};

struct Derived : Block {
  at::Tensor bias;
  DIPTYCH_FIELDS(bias, weight)
};

TEST(Visit, GoesThroughTuplesPairsAndArraysByPosition) {
  EXPECT_EQ(visit(std::make_tuple(at::Tensor(), 3, at::Tensor())), (Lines{"tensor v.0", "constant v.1", "tensor v.2"}));
  EXPECT_EQ(visit(std::make_pair(at::Tensor(), 2.0)), (Lines{"tensor v.0", "constant v.1"}));
  EXPECT_EQ(visit(std::array<at::Tensor, 2>{}), (Lines{"tensor v.0", "tensor v.1"}));
  EXPECT_EQ(visit(std::tuple<>()), Lines{});
}

TEST(Visit, GoesThroughSequencesByPosition) {
  const Lines two{"tensor v.0", "tensor v.1"};
  EXPECT_EQ(visit(std::vector<at::Tensor>(2)), two);
  EXPECT_EQ(visit(std::deque<at::Tensor>(2)), two);
  EXPECT_EQ(visit(std::list<at::Tensor>(2)), two);
  EXPECT_EQ(visit(c10::SmallVector<at::Tensor, 1>(2)), two);
  EXPECT_EQ(visit(c10::List<at::Tensor>({at::Tensor(), at::Tensor()})), two);
  const c10::List<at::Tensor> constant({at::Tensor(), at::Tensor()});
  EXPECT_EQ(visit(constant), two);
  EXPECT_EQ(visit(std::vector<bool>{true, false}), (Lines{"constant v.0", "constant v.1"}));
  EXPECT_EQ(visit(std::vector<at::Tensor>()), Lines{});
}

TEST(Visit, GoesThroughMapsBySortedKeyWhateverTheMapsOrder) {
  const Lines by_number{"tensor v.-5", "tensor v.2", "tensor v.10"};
  EXPECT_EQ(visit(std::map<int, at::Tensor>{{10, {}}, {-5, {}}, {2, {}}}), by_number);
  EXPECT_EQ(visit(std::unordered_map<int64_t, at::Tensor>{{10, {}}, {-5, {}}, {2, {}}}), by_number);
  EXPECT_EQ(visit(std::map<int, at::Tensor, std::greater<int>>{{10, {}}, {-5, {}}, {2, {}}}), by_number);
  const Lines by_text{"tensor v.a", "tensor v.b", "tensor v.ba"};
  EXPECT_EQ(visit(std::map<std::string, at::Tensor>{{"ba", {}}, {"b", {}}, {"a", {}}}), by_text);
  EXPECT_EQ(visit(std::unordered_map<std::string, at::Tensor>{{"ba", {}}, {"b", {}}, {"a", {}}}), by_text);
  EXPECT_EQ(visit(std::map<Mode, int>{{Mode::kTest, 1}, {Mode::kTrain, 2}}), (Lines{"constant v.0", "constant v.1"}));
}

TEST(Visit, SortsAnUnorderedMapOfManyKeys) {
  std::unordered_map<int, at::Tensor> map;
  Lines expected;
  for (int i = 0; i < 100; ++i) expected.push_back("tensor v." + std::to_string(i));
  for (int i = 99; i >= 0; --i) map[i * 37 % 100] = at::Tensor();
  EXPECT_EQ(visit(map), expected);
}

TEST(Visit, GoesThroughStructsInTheOrderOfTheList) {
  EXPECT_EQ(visit(Block()), (Lines{"tensor v.weight", "constant v.heads"}));
  EXPECT_EQ(visit(Derived()), (Lines{"tensor v.bias", "tensor v.weight"}));
  EXPECT_EQ(visit(Empty()), Lines{});
}

TEST(Visit, ReachesPrivateFields) { EXPECT_EQ(visit(Hidden()), (Lines{"tensor v.own", "tensor v.shown"})); }

TEST(Visit, ReachesStructsInsideFunctions) {
  struct Local {
    at::Tensor x;
    DIPTYCH_FIELDS(x)
  };
  EXPECT_EQ(visit(Local()), Lines{"tensor v.x"});
}

TEST(Visit, GoesThroughTemplatesAndNesting) {
  Wrapper<Block> wrapper;
  wrapper.more.resize(1);
  EXPECT_EQ(visit(wrapper), (Lines{"tensor v.inner.weight", "constant v.inner.heads", "tensor v.more.0.weight",
                                   "constant v.more.0.heads"}));
}

TEST(Visit, TakesManyFields) {
  const auto lines = visit(Wide());
  ASSERT_EQ(lines.size(), 40u);
  EXPECT_EQ(lines.front(), "constant v.a0");
  EXPECT_EQ(lines[25], "constant v.c5");
  EXPECT_EQ(lines.back(), "constant v.d9");
}

TEST(Visit, TakesAListFromOutsideTheStruct) {
  EXPECT_EQ(visit(lib::Box()), (Lines{"tensor v.low", "tensor v.high"}));
  EXPECT_EQ(visit(lib::Nothing()), Lines{});
  const lib::TwoBoxes two;
  EXPECT_EQ(visit(two),
            (Lines{"tensor v.first.low", "tensor v.first.high", "tensor v.second.low", "tensor v.second.high"}));
}

TEST(Visit, EntersWhatIsPresentOnly) {
  EXPECT_EQ(visit(std::optional<at::Tensor>()), Lines{});
  EXPECT_EQ(visit(std::optional<at::Tensor>(at::Tensor())), Lines{"tensor v"});
  EXPECT_EQ(visit(std::shared_ptr<Block>()), Lines{});
  EXPECT_EQ(visit(std::make_shared<Block>()).size(), 2u);
  EXPECT_EQ(visit(std::make_unique<Block>()).size(), 2u);
  EXPECT_EQ(visit(std::variant<int, at::Tensor>(at::Tensor())), Lines{"tensor v"});
  EXPECT_EQ(visit(std::variant<int, at::Tensor>(3)), Lines{"constant v"});
}

TEST(Visit, TakesEveryKindOfConstant) {
  const auto constants = std::make_tuple(true, 'c', int8_t{1}, 2u, 3.0f, 4.0, std::string("s"), std::string_view("v"),
                                         "literal", Mode::kTest, at::kFloat, at::kStrided, at::MemoryFormat::Contiguous,
                                         at::Scalar(1), c10::Device("cpu"), c10::complex<double>(1, 2),
                                         std::complex<float>(1, 2), std::nullopt, nullptr, std::monostate());
  const auto lines = visit(constants);
  ASSERT_EQ(lines.size(), 20u);
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i], "constant v." + std::to_string(i));
}

TEST(Visit, GivesATuplesReferencesAsTheyAre) {
  Block block;
  const std::vector<at::Tensor> list(1);
  std::tuple<Block&, const std::vector<at::Tensor>&> arguments(block, list);
  EXPECT_EQ(visit(arguments), (Lines{"tensor v.0.weight", "constant v.0.heads", "tensor v.1.0"}));
}

TEST(Visit, ReportsStructureAndKeysBeforeValues) {
  struct Structures : LeafVisitor {
    std::vector<std::tuple<std::string, Structure, int64_t>> seen;
    std::vector<std::string> keys;
    void structure(const Path& path, Structure kind, int64_t number) { seen.emplace_back(path.str(), kind, number); }
    void key(const Path&, std::string_view key) { keys.emplace_back(key); }
    void key(const Path&, int64_t key) { keys.push_back(std::to_string(key)); }
  } visitor;
  std::map<std::string, std::map<int, std::optional<int>>> value{{"b", {{7, 1}}}, {"a", {}}};
  visit_leaves(value, Path("m"), visitor);
  EXPECT_EQ(visitor.keys, (std::vector<std::string>{"a", "b", "7"}));
  const decltype(visitor.seen) expected{{"m", Structure::kMap, 2},
                                        {"m.a", Structure::kMap, 0},
                                        {"m.b", Structure::kMap, 1},
                                        {"m.b.7", Structure::kOptional, 1}};
  EXPECT_EQ(visitor.seen, expected);
}

TEST(Visit, NamesArgumentsAndNumbersTheRest) {
  Log log;
  const Block block;
  const at::Tensor x, y;
  const std::vector<std::string> names{"params"};
  visit_arguments(names, log, block, x, y);
  EXPECT_EQ(log.lines, (Lines{"tensor params.weight", "constant params.heads", "tensor arg1", "tensor arg2"}));
}

struct FillWithOnes : LeafVisitor {
  [[maybe_unused]] static constexpr bool kReplacesTensors = true;
  void tensor(const Path&, at::Tensor& tensor) { tensor = at::ones({1}); }
};

TEST(Visit, LetsAVisitorReplaceTensorsInPlace) {
  FillWithOnes replace;
  std::tuple<at::Tensor, std::optional<at::Tensor>> value{at::Tensor(), at::Tensor()};
  visit_leaves(value, Path(), replace);
  EXPECT_TRUE(std::get<0>(value).defined());
  EXPECT_TRUE(std::get<1>(value)->defined());
}

TEST(Path, PrintsItsPartsWithDots) {
  const Path root("params"), blocks(root, "blocks"), third(blocks, int64_t{3}), weight(third, "weight");
  EXPECT_EQ(weight.str(), "params.blocks.3.weight");
  EXPECT_EQ(root.str(), "params");
}

TEST(Path, PrintsNoPrefixUnderARootWithoutAName) {
  const Path root, named_empty("");
  EXPECT_EQ(root.str(), "");
  EXPECT_EQ(Path(root, int64_t{0}).str(), "0");
  EXPECT_EQ(Path(named_empty, "w").str(), "w");
  EXPECT_EQ(Path::numbered("arg", 2).str(), "arg2");
}

}  // namespace
}  // namespace diptych
