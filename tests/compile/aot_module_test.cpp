// dp::aot_module in the place of the module: registered, in containers, saved, cloned, moved.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "diptych/diptych.h"
#include "diptych/pair/module.h"

namespace diptych {
namespace {

struct EncoderImpl : torch::nn::Cloneable<EncoderImpl> {
  EncoderImpl() { EncoderImpl::reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(4, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    scale = register_buffer("scale", torch::full({1}, 2.0));
  }
  at::Tensor forward(const at::Tensor& x) { return norm(first(x)).tanh() * scale; }

  torch::nn::Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor scale;
};
TORCH_MODULE(Encoder);

/// A model with an encoder that is `E`.
template <class E>
struct Model : torch::nn::Module {
  explicit Model(E given) : encoder(register_module("encoder", std::move(given))) {}
  at::Tensor forward(const at::Tensor& x) { return head(encoder(x)); }

  E encoder{nullptr};
  torch::nn::Linear head{register_module("head", torch::nn::Linear(8, 2))};
};

template <class Map>
std::vector<std::string> keys_of(const Map& tensors) {
  return tensors.keys();
}

template <class Net>
std::vector<at::Tensor> trained(Net& model) {
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  std::vector<at::Tensor> state;
  for (int step = 0; step < 3; ++step) {
    torch::manual_seed(step);
    optimizer.zero_grad();
    const auto loss = model.forward(torch::randn({5, 4}, torch::kDouble)).square().mean();
    loss.backward();
    optimizer.step();
    state.push_back(loss.detach());
  }
  for (const at::Tensor& tensor : model.parameters()) state.push_back(tensor.detach());
  for (const at::Tensor& tensor : model.buffers()) state.push_back(tensor);
  return state;
}

void expect_same(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(torch::allclose(got[i], expected[i], 1e-10, 1e-12)) << i;
}

TEST(AotModule, IsRegisteredWithParametersBuffersAndState) {
  torch::manual_seed(0);
  Model<Encoder> eager{Encoder()};
  torch::manual_seed(0);
  const Encoder encoder;
  Model<AotModule<Encoder>> ours(aot_module(encoder));
  EXPECT_EQ(keys_of(ours.named_parameters()), keys_of(eager.named_parameters()));
  EXPECT_EQ(keys_of(ours.named_buffers()), keys_of(eager.named_buffers()));
  EXPECT_EQ(keys_of(ours.named_modules("", false)), keys_of(eager.named_modules("", false)));
  eager.to(torch::kDouble);
  ours.to(torch::kDouble);
  EXPECT_EQ(encoder->first->weight.scalar_type(), torch::kDouble);
  expect_same(trained(ours), trained(eager));
  EXPECT_EQ(ours.encoder.stats().misses, 1U);
  EXPECT_EQ(ours.encoder.stats().hits, 2U);
  EXPECT_TRUE(ours.encoder.module()->first->weight.is_same(ours.named_parameters()["encoder.first.weight"]));
  ours.eval();
  EXPECT_FALSE(encoder->is_training() || encoder->norm->is_training() || ours.encoder->is_training());
  eager.eval();
  const auto x = torch::ones({5, 4}, torch::kDouble);
  expect_same({ours.forward(x)}, {eager.forward(x)});
}

TEST(AotModule, IsSavedLoadedClonedAndPrintedAsTheModule) {
  const Encoder encoder;
  auto compiled = aot_module(encoder);
  const auto x = torch::ones({5, 4});
  compiled->eval();
  const auto expected = compiled(x);
  std::stringstream file, printed, printed_encoder;
  torch::save(compiled, file);
  Encoder other;
  torch::load(other, file);
  other->eval();
  expect_same({other(x)}, {expected});
  file.seekg(0);
  auto loaded = aot_module(Encoder());
  torch::load(loaded, file);
  loaded->eval();
  expect_same({loaded(x)}, {expected});
  printed << *compiled;
  printed_encoder << *encoder;
  EXPECT_EQ(printed.str(), printed_encoder.str());
  const auto copy = std::dynamic_pointer_cast<AotModuleImpl<Encoder>>(compiled->clone());
  ASSERT_TRUE(copy);
  {
    const torch::NoGradGuard guard;
    encoder->first->weight.zero_();
  }
  expect_same({copy->call(x)}, {expected});
  EXPECT_EQ(copy->aot().stats().misses, 1U);
}

TEST(AotModule, StandsInSequentialAndInAnotherCompiledModule) {
  torch::manual_seed(0);
  const Encoder encoder;
  const torch::nn::Linear last(8, 2);
  torch::nn::Sequential eager(encoder, last);
  auto inner = aot_module(encoder);
  torch::nn::Sequential ours(inner, aot_module(last));
  eager->eval();
  const auto x = torch::linspace(-1, 1, 20).reshape({5, 4});
  expect_same({ours->forward(x)}, {eager->forward(x)});
  EXPECT_EQ(keys_of(ours->named_parameters()), keys_of(eager->named_parameters()));
  EXPECT_EQ(inner.stats().misses, 1U);
  auto outer = aot_module(std::make_shared<Model<AotModule<Encoder>>>(inner));
  outer->train();
  outer(x);
  EXPECT_EQ(outer.captures().at(0)->forward_graph().input_slots().at(0).path, "module.encoder.first.weight");
  EXPECT_EQ(inner.stats().misses, 1U);
}

}  // namespace
}  // namespace diptych
