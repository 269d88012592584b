// What a trace must know of single operators: each row of the tables names an operator of this LibTorch.
#include "diptych/ops/trace_traits.h"

#include <gtest/gtest.h>

#include "diptych/ops/tags.h"

namespace diptych {

using namespace detail;
namespace {

bool tagged(const char* name, Tag tag) { return has_tag(Op::find(name), tag); }

TEST(TraceTraits, EachIsOfOneOverload) {
  EXPECT_EQ(trace_trait(Op::find("aten._efficientzerotensor")), TraceTrait::kHasNoMemory);
  EXPECT_EQ(trace_trait(Op::find("aten._to_copy")), TraceTrait::kCasts);
  for (const char* name : {"aten.as_strided", "aten.as_strided_copy", "aten.as_strided_scatter"}) {
    EXPECT_EQ(trace_trait(Op::find(name)), TraceTrait::kCountsInStorage) << name;
  }
  EXPECT_EQ(trace_trait(Op::find("aten.bernoulli.p")), TraceTrait::kDrawsByIndex);
  EXPECT_EQ(trace_trait(Op::find("aten.bernoulli")), TraceTrait::kNone);
  EXPECT_EQ(trace_trait(Op::find("aten.copy")), TraceTrait::kCopiesInto);
  EXPECT_EQ(trace_trait(Op::find("aten.copy_")), TraceTrait::kCopiesInto);
  EXPECT_EQ(trace_trait(Op::find("aten.copy.out")), TraceTrait::kNone);
  EXPECT_EQ(trace_trait(Op::find("aten.lift_fresh")), TraceTrait::kLiftsLiteral);
  EXPECT_EQ(trace_trait(Op::find("aten.normal_")), TraceTrait::kDrawsInBlocks);
  EXPECT_EQ(trace_trait(Op::find("aten.view_as_real")), TraceTrait::kReadsResolved);
}

TEST(TraceTraits, MostViewsAreWrittenBackByElement) {
  EXPECT_EQ(write_back(Op::find("aten.as_strided")), WriteBack::kInStorage);
  EXPECT_EQ(write_back(Op::find("aten.expand")), WriteBack::kByDifference);
  EXPECT_EQ(write_back(Op::find("aten.unfold")), WriteBack::kBySum);
  EXPECT_EQ(write_back(Op::find("aten.select.int")), WriteBack::kByElement);
}

TEST(TraceTraits, BatchNormWritesToItsStatisticsWithoutSayingSo) {
  const auto hidden = hidden_mutation(Op::find("aten.native_batch_norm"));
  ASSERT_TRUE(hidden.has_value());
  EXPECT_EQ(hidden->declared.name(), "aten._native_batch_norm_legit");
  const auto& arguments = Op::find("aten.native_batch_norm").schema().arguments();
  EXPECT_EQ(arguments.at(hidden->mutated_argument).name(), "running_mean");
  EXPECT_EQ(arguments.at(hidden->condition_argument).name(), "training");
  EXPECT_FALSE(hidden_mutation(hidden->declared).has_value());
}

TEST(TraceTraits, FactsOfFewOperatorsAreTags) {
  EXPECT_TRUE(tagged("aten._conj", Tag::kConjugates) && !tagged("aten._conj", Tag::kNegates));
  EXPECT_TRUE(tagged("aten._neg_view", Tag::kNegates) && !tagged("aten._neg_view", Tag::kConjugates));
  for (const char* name : {"aten._conj", "aten._neg_view", "aten.view.dtype", "aten.view_as_real"}) {
    EXPECT_TRUE(tagged(name, Tag::kReinterprets)) << name;
  }
  EXPECT_FALSE(tagged("aten.view", Tag::kReinterprets));
  EXPECT_TRUE(tagged("aten.resize_", Tag::kChangesStorage) && tagged("aten.set_.source_Tensor", Tag::kChangesStorage));
  EXPECT_TRUE(tagged("aten.fill_.Scalar", Tag::kFills) && tagged("aten.zero_", Tag::kFills));
  EXPECT_FALSE(tagged("aten.masked_fill_.Scalar", Tag::kFills));
  EXPECT_TRUE(tagged("aten.addmm_", Tag::kMixesElements) && !tagged("aten.add_.Tensor", Tag::kMixesElements));
  EXPECT_TRUE(tagged("aten.slice_scatter", Tag::kInverseView) && !tagged("aten.scatter.src", Tag::kInverseView));
  EXPECT_TRUE(tagged("aten.add.Tensor", Tag::kAddition) && !tagged("aten.add.Scalar", Tag::kAddition));
  EXPECT_TRUE(tagged("aten.mm", Tag::kMatrixProduct) && !tagged("aten.mm.dtype", Tag::kMatrixProduct));
  EXPECT_TRUE(tagged("aten.new_zeros", Tag::kZeros) && !tagged("aten.new_ones", Tag::kZeros));
}

}  // namespace
}  // namespace diptych
