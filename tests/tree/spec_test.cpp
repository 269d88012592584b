// Comparing structures: what is equal, what is not, and what the difference is called.
#include "diptych/tree/spec.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>

#include "diptych/base/error.h"
#include "diptych/tree/flatten.h"
#include "testing/expect_error.h"
#include "testing/tensors.h"

namespace diptych {

using namespace detail;
namespace {

using testing::message_of;

/// Checks that all ways to compare agree, and returns the text of the difference, or "".
template <class A, class B>
std::string difference(const A& expected, const B& got) {
  const TreeSpec a = flatten(expected, "x").spec;
  const TreeSpec b = flatten(got, "x").spec;
  const auto text = first_difference(a, b);
  EXPECT_EQ(a == b, !text);
  EXPECT_EQ(matches(a, got), !text);
  EXPECT_EQ(structure_hash(got), b.hash());
  EXPECT_EQ(a.hash() == b.hash(), !text);
  return text.value_or("");
}

using testing::Tensors;
enum class Stage : int8_t { kTrain = -1, kTest = 1 };

struct Batch {
  Tensors tokens;
  double scale = 1;
  DIPTYCH_FIELDS(tokens, scale)
};

TEST(FirstDifference, IsNothingForEqualStructures) {
  EXPECT_EQ(difference(Batch{Tensors(3)}, Batch{{at::ones({2}), at::Tensor(), at::ones({5})}}), "");
  EXPECT_EQ(difference(std::tuple<>(), std::tuple<>()), "");
  EXPECT_EQ(difference(Tensors(2), std::list<at::Tensor>(2)), "");
}

TEST(FirstDifference, NamesTheVectorWhoseLengthDiffers) {
  EXPECT_EQ(difference(Batch{Tensors(3)}, Batch{Tensors(4)}), "x.tokens: expected a vector of 3, got 4");
  EXPECT_EQ(difference(std::vector<Tensors>{Tensors(1), Tensors(1)}, std::vector<Tensors>{Tensors(1), Tensors()}),
            "x.1: expected a vector of 1, got 0");
  EXPECT_EQ(difference(std::vector<bool>{true}, std::vector<bool>{false}), "x.0: expected true, got false");
}

TEST(FirstDifference, NamesTheConstantThatDiffers) {
  EXPECT_EQ(difference(Batch{{}, 0.5}, Batch{{}, 0.25}), "x.scale: expected 0.5, got 0.25");
  EXPECT_EQ(difference(3, -4), "x: expected 3, got -4");
  EXPECT_EQ(difference(std::string("relu"), std::string("gelu")), "x: expected \"relu\", got \"gelu\"");
  EXPECT_EQ(difference(at::kFloat, at::kDouble), "x: expected Float, got Double");
  EXPECT_EQ(difference(c10::Device("cuda:0"), c10::Device("cuda:1")), "x: expected cuda:0, got cuda:1");
  EXPECT_EQ(difference(Stage::kTrain, Stage::kTest), "x: expected enum value -1, got enum value 1");
  EXPECT_EQ(difference(std::complex<double>(1, 2), std::complex<double>(1, -2)), "x: expected 1+2i, got 1-2i");
  EXPECT_EQ(difference(at::Scalar(3), at::Scalar(3.0)), "x: expected the integer 3, got the float 3");
  EXPECT_EQ(difference(UINT64_MAX, UINT64_MAX - 1), "x: expected 18446744073709551615, got 18446744073709551614");
}

TEST(FirstDifference, TellsAbsentFromPresent) {
  const std::optional<at::Tensor> none, some = at::Tensor();
  EXPECT_EQ(difference(some, none), "x: expected an optional with a value, got an optional without a value");
  EXPECT_EQ(difference(std::shared_ptr<int>(), std::make_shared<int>(3)),
            "x: expected a null pointer, got a pointer to an object");
  using Either = std::variant<at::Tensor, int>;
  EXPECT_EQ(difference(Either(at::Tensor()), Either(3)),
            "x: expected a variant that holds alternative 0, got a variant that holds alternative 1");
}

TEST(FirstDifference, ListsTheKeysThatDiffer) {
  using Map = std::map<std::string, at::Tensor>;
  using Numbers = std::unordered_map<int, at::Tensor>;
  EXPECT_EQ(difference(Map{{"w", {}}, {"b", {}}}, Map{{"w", {}}, {"c", {}}}),
            "x: expected the same keys, got none of 'b' and got 'c' besides");
  EXPECT_EQ(difference(Map{{"w", {}}}, Map{{"w", {}}, {"c", {}}}), "x: expected the same keys, got 'c' besides");
  EXPECT_EQ(difference(Numbers{{1, {}}, {-2, {}}}, Numbers{{1, {}}}), "x: expected the same keys, got none of '-2'");
}

TEST(FirstDifference, TellsLeavesOfAnotherKind) {
  EXPECT_EQ(difference(at::Tensor(), 3), "x: expected a tensor, got the integer 3");
  EXPECT_EQ(difference(std::make_tuple(at::Tensor()), std::make_tuple(at::Tensor(), at::Tensor())),
            "x: expected a tuple of 1, got 2");
  EXPECT_EQ(difference(std::make_tuple(1), Batch()), "x: expected a tuple of 1, got a struct with 2 fields");
  EXPECT_EQ(difference(std::make_tuple(true), std::make_tuple(1)), "x.0: expected true, got the integer 1");
  EXPECT_EQ(difference(nullptr, std::string("a")), "x: expected nothing, got the string \"a\"");
}

TEST(FirstDifference, NamesArgumentsThatAreMissingOrNew) {
  const auto record = [](const auto&... arguments) {
    TreeRecorder recorder;
    visit_arguments({}, recorder, arguments...);
    return recorder.take_spec();
  };
  EXPECT_EQ(first_difference(record(1), record(1, 2)), "arg1: expected no such argument");
  EXPECT_EQ(first_difference(record(1, 2), record(1)), "arg1: this argument is missing");
}

TEST(Constants, OfEqualValueAreEqualWhateverTheirWidth) {
  EXPECT_EQ(difference(int8_t{3}, uint64_t{3}), "");
  EXPECT_EQ(difference(int64_t{3}, at::Scalar(3)), "");
  EXPECT_EQ(difference(0.5f, 0.5), "");
  EXPECT_EQ(difference(std::string("a"), std::string_view("a")), "");
  EXPECT_EQ(difference(at::Scalar(true), true), "");
}

TEST(Constants, AreComparedByBitsWhereFloatsAre) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(difference(nan, nan), "");
  EXPECT_EQ(difference(0.0, -0.0), "x: expected 0, got -0");
}

TEST(Constants, RefuseASymbolicScalar) {
  struct Symbol : c10::SymNodeImpl {
    bool is_int() override { return true; }
  };
  const c10::SymInt symbol(c10::SymNode(c10::make_intrusive<Symbol>()));
  EXPECT_EQ(message_of([&] { flatten(at::Scalar(symbol)); }),
            "[constants] got an at::Scalar that holds a symbolic number, expected a plain one; pass the number as an "
            "int64_t or a double");
}

TEST(Spec, DoesNotDependOnTheNamesOfArguments) {
  EXPECT_EQ(flatten(Batch(), "a").spec, flatten(Batch(), "b").spec);
  EXPECT_EQ(flatten(Batch(), "a").spec.hash(), flatten(Batch(), "b").spec.hash());
}

TEST(Spec, PrintsOneLineForEachTensorAndConstant) {
  EXPECT_EQ(flatten(Batch{Tensors(2), 0.5}, "batch").spec.str(),
            "batch.tokens.0  tensor\n"
            "batch.tokens.1  tensor\n"
            "batch.scale     0.5\n");
}

TEST(FlattenIfMatches, CollectsTensorsOfAMatchOnly) {
  const Batch batch{{at::ones({1}), at::ones({2})}, 2};
  const TreeSpec spec = flatten(batch).spec;
  c10::SmallVector<at::Tensor, 4> tensors;
  c10::SmallVector<const at::Tensor*, 4> addresses;
  ASSERT_TRUE(flatten_if_matches(spec, batch, tensors));
  ASSERT_TRUE(flatten_if_matches(spec, batch, addresses));
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_TRUE(tensors[1].is_same(batch.tokens[1]));
  EXPECT_EQ(addresses[0], &batch.tokens[0]);
  // The scale comes after the tensors, which have been collected by then.
  EXPECT_FALSE(flatten_if_matches(spec, Batch{batch.tokens, 3}, tensors));
  EXPECT_FALSE(flatten_if_matches(spec, Batch{Tensors(3), 2}, addresses));
  EXPECT_EQ(tensors.size(), 2u);
  EXPECT_EQ(addresses.size(), 2u);
}

TEST(FlattenIfMatches, AgreesWithAnEmptySpec) {
  EXPECT_TRUE(matches(flatten(std::vector<int>()).spec, std::vector<int>()));
  EXPECT_FALSE(matches(TreeSpec(), 3));
  const TreeSpec nothing;
  const TreeMatcher matcher(nothing, [](const at::Tensor&) {});
  EXPECT_TRUE(matcher.matched());
}

TEST(FlattenIfMatches, RefusesAVisitThatEndsEarly) {
  const auto value = std::make_tuple(1, 2);
  const TreeSpec spec = flatten(value).spec;
  TreeMatcher matcher(spec, [](const at::Tensor&) {});
  EXPECT_FALSE(matcher.matched());
  visit_leaves(value, Path(), matcher);
  EXPECT_TRUE(matcher.matched());
}

}  // namespace
}  // namespace diptych
