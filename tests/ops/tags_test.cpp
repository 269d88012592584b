// Tags of operators, checked against what LibTorch's own schemas and kernels say.
#include "diptych/ops/tags.h"

#include <torch/types.h>

#include <thread>

#include "diptych/base/error.h"
#include "diptych/ops/hop_schemas.h"

namespace diptych {

using namespace detail;
namespace {

bool has(const char* name, Tag tag) { return has_tag(Op::find(name), tag); }

Node node_of(const char* name, std::vector<Operand> operands) {
  Node node{Op::find(name), {}, {}, {}, {}, {}};
  for (auto& operand : operands) node.operands.push_back(std::move(operand));
  return node;
}

TEST(Tags, PointwiseIsTakenPerOverload) {
  EXPECT_TRUE(has("aten.max.other", Tag::kPointwise));
  EXPECT_FALSE(has("aten.max.dim", Tag::kPointwise));
  EXPECT_TRUE(has("aten.max.dim", Tag::kReduction));
  EXPECT_FALSE(has("aten.equal", Tag::kPointwise));
}

TEST(Tags, GradientsOfPointwiseFunctionsArePointwise) {
  for (const char* name : {"aten.tanh_backward", "aten.gelu_backward", "aten.hardsigmoid_backward",
                           "aten.threshold_backward", "aten.elu_backward", "aten.mse_loss_backward"}) {
    EXPECT_TRUE(has(name, Tag::kPointwise)) << name;
  }
}

TEST(Tags, ViewsComeFromAliasInfo) {
  for (const char* name : {"aten.view", "aten.t", "aten.transpose.int", "aten.select.int", "aten.split.Tensor"}) {
    EXPECT_TRUE(has(name, Tag::kView)) << name;
  }
  EXPECT_FALSE(has("aten.add.Tensor", Tag::kView));
  EXPECT_FALSE(has("aten.add_.Tensor", Tag::kView));
  EXPECT_FALSE(has("aten._unsafe_view", Tag::kView));
  EXPECT_TRUE(has("aten.split.Tensor", Tag::kMultiOutputView));
  EXPECT_TRUE(has("aten.unbind.int", Tag::kMultiOutputView));
  EXPECT_FALSE(has("aten.select.int", Tag::kMultiOutputView));
  EXPECT_TRUE(has("aten.detach", Tag::kIdentityView));
}

TEST(Tags, UnsafeViewSharesStorageThoughItsSchemaDoesNotSay) {
  const auto x = torch::rand({4, 6});
  EXPECT_EQ(at::_unsafe_view(x, {24}).data_ptr(), x.data_ptr());
  EXPECT_TRUE(has("aten._unsafe_view", Tag::kSharesStorage));
  EXPECT_TRUE(has("aten.view", Tag::kSharesStorage));
  EXPECT_FALSE(has("aten.clone", Tag::kSharesStorage));
}

TEST(Tags, MutationIsSeenInTheSchema) {
  EXPECT_TRUE(has("aten.add_.Tensor", Tag::kMutating));
  EXPECT_TRUE(has("aten.add.out", Tag::kMutating));
  EXPECT_FALSE(has("aten.add.Tensor", Tag::kMutating));
}

TEST(Tags, FactoriesTakeNoElements) {
  for (const char* name : {"aten.zeros", "aten.arange", "aten.full", "aten.zeros_like", "aten.new_zeros"}) {
    EXPECT_TRUE(has(name, Tag::kFactory)) << name;
  }
  EXPECT_FALSE(has("aten.clone", Tag::kFactory));
  EXPECT_FALSE(has("aten.cat", Tag::kFactory));
}

TEST(Tags, DataDependentOperatorsAreKnown) {
  for (const char* name : {"aten.nonzero", "aten._local_scalar_dense", "aten.item", "aten.masked_select"}) {
    EXPECT_TRUE(has(name, Tag::kDataDependent)) << name;
  }
  EXPECT_FALSE(has("aten.index.Tensor", Tag::kDataDependent));
}

// Each operator that is tagged random draws from the generator when asked to, and no other one here does.
TEST(Tags, RandomOperatorsMoveTheGenerator) {
  const auto draws = [](const std::function<void()>& run) {
    const auto before = at::detail::getDefaultCPUGenerator().get_state().clone();
    run();
    return !at::equal(before, at::detail::getDefaultCPUGenerator().get_state());
  };
  const auto x = torch::rand({8, 8});
  EXPECT_TRUE(draws([&] { at::bernoulli(x, 0.5); }) && has("aten.bernoulli.p", Tag::kRandom));
  EXPECT_TRUE(draws([&] { at::native_dropout(x, 0.0, true); }) && has("aten.native_dropout", Tag::kRandom));
  EXPECT_TRUE(draws([&] { at::multinomial(x, 1); }) && has("aten.multinomial", Tag::kRandom));
  const auto q = torch::rand({1, 2, 8, 8});
  EXPECT_FALSE(draws([&] { at::_scaled_dot_product_flash_attention_for_cpu(q, q, q); }));
  EXPECT_FALSE(has("aten._scaled_dot_product_flash_attention_for_cpu", Tag::kRandom));
}

TEST(Tags, DropoutOutsideTrainingDrawsNothingAndWithProbabilityZeroDoes) {
  const auto dropout = [](double p, c10::IValue train) {
    return node_of("aten.native_dropout", {Value{0}, c10::IValue(p), std::move(train)});
  };
  EXPECT_TRUE(draws_random(dropout(0.5, true)));
  EXPECT_TRUE(draws_random(dropout(0.0, true)));
  EXPECT_TRUE(draws_random(dropout(0.5, c10::IValue())));
  EXPECT_FALSE(draws_random(dropout(0.5, false)));
  EXPECT_FALSE(has_effect(dropout(0.5, false)));
}

TEST(Tags, AssertionsAndMutationsAreEffects) {
  EXPECT_TRUE(has_effect(node_of("aten.add_.Tensor", {Value{0}, Value{1}, c10::IValue(1)})));
  EXPECT_TRUE(has_effect(node_of("aten._assert_async", {Value{0}})));
  EXPECT_FALSE(has_effect(node_of("aten.add.Tensor", {Value{0}, Value{1}, c10::IValue(1)})));
}

TEST(Tags, CollectivesAreEffects) {
  EXPECT_TRUE(has_effect(node_of("_c10d_functional.all_reduce", {Value{0}, c10::IValue("sum"), c10::IValue("group")})));
  EXPECT_TRUE(has_effect(node_of("_c10d_functional.wait_tensor", {Value{0}})));
  EXPECT_TRUE(has_tag(Op::find("_c10d_functional.wait_tensor"), Tag::kSharesStorage));
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const bool writes = c10::Dispatcher::singleton()
                            .findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str())
                            .schema()
                            .is_mutable();
    if (!name.name.starts_with("_c10d_functional::") || writes) continue;
    EXPECT_TRUE(has_tag(Op(c10::Dispatcher::singleton().findSchemaOrThrow(name.name.c_str(), "")), Tag::kCollective))
        << name.name;
  }
}

TEST(Tags, AHigherOrderOperatorIsAsRandomAsItsBody) {
  auto body = std::make_shared<Graph>("body");
  body->add_input(TensorMeta{}, {SlotKind::kArgument, "x"});
  Node outer{Op(add_hop_schema("tags_test()", {"body"})), {}, {}, {}, {body}, {}};
  EXPECT_FALSE(draws_random(outer));
  auto random_body = std::make_shared<Graph>(*body);
  random_body->add_node(node_of("aten.bernoulli.p", {Value{0}, c10::IValue(0.5), c10::IValue()}), {TensorMeta{}});
  outer.subgraphs = {random_body};
  EXPECT_TRUE(draws_random(outer));
  EXPECT_EQ(tags(outer.op), 0U);
}

TEST(Tags, InplaceVariantNeedsTheSameArguments) {
  const auto variant = [](const char* name) {
    const auto found = inplace_variant(Op::find(name));
    return found ? found->name() : "none";
  };
  EXPECT_EQ(variant("aten.add.Tensor"), "aten.add_.Tensor");
  EXPECT_EQ(variant("aten.tanh"), "aten.tanh_");
  EXPECT_EQ(variant("aten.addmm"), "aten.addmm_");
  EXPECT_EQ(variant("aten.mm"), "none");
  EXPECT_EQ(variant("aten.t"), "none");
  EXPECT_EQ(variant("aten.squeeze.dim"), "none");
  EXPECT_EQ(variant("aten.resize"), "none");
  EXPECT_EQ(variant("aten.add_.Tensor"), "none");
  EXPECT_EQ(variant("aten.bernoulli.p"), "none");
}

TEST(Tags, AreTheSameOnEveryThread) {
  const Op add = Op::find("aten.add.Tensor");
  const uint32_t here = tags(add);
  std::vector<std::thread> threads;
  std::vector<uint32_t> seen(4);
  for (auto& slot : seen) threads.emplace_back([&slot, &add] { slot = tags(add); });
  for (auto& thread : threads) thread.join();
  for (const uint32_t there : seen) EXPECT_EQ(there, here);
}

TEST(HopSchemas, AreFoundByNameAndKeepTheirAddress) {
  const auto* added = add_hop_schema(std::string("hop_schemas_") + "test(Tensor[] xs, int count=2)", {"a", "b"});
  EXPECT_EQ(find_hop_schema("hop_schemas_test"), added);
  EXPECT_EQ(add_hop_schema("hop_schemas_test(Tensor[] xs, int count=2)", {"a", "b"}), added);
  EXPECT_EQ(find_hop_schema("hop_schemas_missing"), nullptr);
  EXPECT_EQ(Op(added).name(), "hop.hop_schemas_test");
  EXPECT_THROW(add_hop_schema("hop_schemas_test(Tensor[] xs, int count=2)", {"a"}), UserError);
  EXPECT_THROW(add_hop_schema("hop_schemas_test(Tensor[] xs, int count=3)", {"a", "b"}), UserError);
  EXPECT_THROW(add_hop_schema("hop_schemas_test(Tensor[] ys, int count=2)", {"a", "b"}), UserError);
}

}  // namespace
}  // namespace diptych
