// Programs over meshes of devices against the same programs on one device, and what a mesh or a sharding may not be.
#include "diptych/xla/hlo/mesh.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "diptych/graph/print.h"
#include "diptych/pair/pair.h"
#include "diptych/xla/hlo/lower_body.h"
#include "diptych/xla/pjrt/sharded_program.h"
#include "diptych/xla/slot_tensor.h"
#include "interpreter/graph_builder.h"
#include "testing/expect_error.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_error;
using xla::Mesh;
using xla::none;
using xla::Sharding;
using xla::ShardingRule;

const Mesh kMeshes[] = {
    {{"data"}, {1}}, {{"data"}, {2}}, {{"data"}, {4}}, {{"data", "model"}, {2, 2}}, {{"model"}, {8}}};
const Mesh kSquare{{"data", "model"}, {2, 2}};

std::shared_ptr<const PjrtClient> eight_devices() {
  static const auto client = std::make_shared<const PjrtClient>(PjrtApi::load(find_pjrt_plugin()), 8);
  return client;
}

at::Tensor whole(const std::shared_ptr<ShardedBuffer>& buffer) {
  at::Tensor tensor = at::empty(buffer->sizes(), at::dtype(buffer->dtype()));
  buffer->copy_to(tensor);
  return tensor;
}

// A graph as a program over a mesh, with what is passed to it.
struct OverMesh {
  OverMesh(const Graph& graph, const std::vector<at::Tensor>& inputs, const HloAttributes& attributes)
      : module(lower_graph(graph, attributes)), program(eight_devices(), module, attributes.mesh) {
    const auto add = [&](const std::vector<HloSlot>& slots, const auto& tensors) {
      for (const HloSlot& slot : slots) {
        buffers.push_back(ShardedBuffer::copy_from(eight_devices(), as_passed(tensors[slot.index], slot),
                                                   attributes.mesh, slot.sharding));
      }
    };
    add(module.inputs, inputs);
    add(module.constants, graph.constants());
  }
  // The results that nodes make, in the order of memory.
  std::vector<at::Tensor> run() const {
    std::vector<at::Tensor> results;
    for (const auto& buffer : program.run(buffers)) results.push_back(whole(buffer));
    return results;
  }

  HloModule module;
  ShardedProgram program;
  ShardedProgram::Buffers buffers;
};

// Splits as many dimensions as the axes divide, the last dimensions first.
Sharding split_all(const Mesh& mesh, at::IntArrayRef sizes) {
  Sharding sharding(sizes.size());
  auto dim = static_cast<int64_t>(sizes.size()) - 1;
  for (size_t axis = 0; axis < mesh.names.size() && dim >= 0; --dim) {
    if (sizes[dim] % mesh.sizes[axis] == 0) sharding[dim] = mesh.names[axis++];
  }
  return sharding;
}

HloAttributes split_all(const Graph& graph, const Mesh& mesh) {
  HloAttributes attributes{.donated = {}, .mesh = mesh, .inputs = {}, .outputs = {}};
  for (const Value value : graph.inputs()) {
    attributes.inputs.push_back(split_all(mesh, graph.meta(value).size_hints()));
  }
  for (const Value value : graph.outputs()) {
    attributes.outputs.push_back(value ? split_all(mesh, graph.meta(value).size_hints()) : Sharding());
  }
  return attributes;
}

// Expects that a graph computes on every mesh, with everything split, what it computes on one device.
void expect_as_on_one_device(const Graph& captured, const std::vector<at::Tensor>& inputs) {
  const Graph graph = in_lowered_operators(captured);
  for (const Node& node : graph.nodes()) ASSERT_TRUE(is_lowered(graph, node)) << node_line(graph, node);
  const auto expected = OverMesh(graph, inputs, {}).run();
  ASSERT_FALSE(expected.empty());
  for (const Mesh& mesh : kMeshes) {
    const auto got = OverMesh(graph, inputs, split_all(graph, mesh)).run();
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(at::allclose(got[i], expected[i], 1e-4, 1e-5)) << "output " << i << "\n" << got[i] << expected[i];
    }
  }
}

template <class Function>
void expect_pair_as_on_one_device(const Function& function, const std::vector<at::Tensor>& leaves) {
  const Pair pair = capture(function, leaves);
  std::vector<at::Tensor> inputs = leaves;
  inputs.insert(inputs.end(), pair.free_variables.begin(), pair.free_variables.end());
  for (auto& input : inputs) input = input.detach();
  expect_as_on_one_device(pair.forward, inputs);
  auto residuals = pair.forward_call(inputs).residuals;
  residuals.push_back(at::ones({}));  // the tangent of a scalar
  expect_as_on_one_device(pair.backward, residuals);
}

Graph product_graph(const at::Tensor& x, const at::Tensor& w) {
  test::GraphBuilder builder;
  return builder.finish({builder.node("aten.mm", {builder.input(x), builder.input(w)})});
}

using Tensors = std::vector<at::Tensor>;

TEST(MeshPrograms, Products) {
  at::manual_seed(0);
  const at::Tensor x = at::randn({16, 24}), w = at::randn({24, 8});
  expect_as_on_one_device(product_graph(x, w), {x, w});
  expect_as_on_one_device(product_graph(x, at::randn({8, 24}).t()), {x, w});
}

TEST(MeshPrograms, AnMlpWithItsGradients) {
  at::manual_seed(0);
  const auto loss = [](const Tensors& in) {
    const at::Tensor hidden = at::gelu(at::linear(in[0], in[1], in[2]));
    return (at::linear(hidden, in[3], in[4]) - in[5]).square().mean();
  };
  const auto leaf = [](at::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(); };
  expect_pair_as_on_one_device(
      loss, {at::randn({16, 8}), leaf({32, 8}), leaf({32}), leaf({8, 32}), leaf({8}), at::randn({16, 8})});
}

TEST(MeshPrograms, ATransformerBlockWithItsGradients) {
  at::manual_seed(0);
  const auto loss = [](const Tensors& in) {
    const at::Tensor& x = in[0];
    const at::Tensor normalized = at::layer_norm(x, {16}, in[1], in[2]);
    const auto heads = [](const at::Tensor& t) { return t.reshape({4, 8, 4, 4}).transpose(1, 2); };
    const auto qkv = at::linear(normalized, in[3]).chunk(3, -1);
    const at::Tensor scores = heads(qkv[0]).matmul(heads(qkv[1]).transpose(-2, -1)) / 2.0;
    const at::Tensor mask = at::ones({8, 8}, at::kBool).tril();
    const at::Tensor weights = scores.masked_fill(mask.logical_not(), -1e9).softmax(-1);
    const at::Tensor attended = weights.matmul(heads(qkv[2])).transpose(1, 2).reshape({4, 8, 16});
    const at::Tensor y = x + at::linear(attended, in[4]);
    return (y + at::linear(at::gelu(at::linear(y, in[5])), in[6])).square().mean();
  };
  const auto leaf = [](at::IntArrayRef sizes) { return (at::randn(sizes) / 3).requires_grad_(); };
  expect_pair_as_on_one_device(
      loss, {leaf({4, 8, 16}), leaf({16}), leaf({16}), leaf({48, 16}), leaf({16, 16}), leaf({32, 16}), leaf({16, 32})});
}

TEST(MeshPrograms, BuffersStayOnTheirDevices) {
  const at::Tensor w = at::ones({8, 8}), update = at::full({8, 8}, 0.5);
  test::GraphBuilder builder;
  const Value before = builder.input(w), by = builder.input(update);
  const Graph graph = builder.finish({builder.node("aten.add.Tensor", {before, by})});
  const OverMesh over(
      graph, {w, update},
      {.donated = {{0, 0}}, .mesh = kSquare, .inputs = {{"data", "model"}}, .outputs = {{"data", "model"}}});
  EXPECT_EQ(over.module.donated, std::vector<size_t>{0});
  auto state = over.buffers;
  const auto first = state[0];
  std::vector<uintptr_t> addresses;
  for (size_t device = 0; device < 4; ++device) {
    addresses.push_back(first->shard(device)->address());
    EXPECT_EQ(first->bytes_on_device(device), 4 * 4 * sizeof(float));
    EXPECT_EQ(state[1]->bytes_on_device(device), 8 * 8 * sizeof(float));
  }
  for (int run = 0; run < 10; ++run) state[0] = over.program.run(state).at(0);
  for (size_t device = 0; device < 4; ++device) EXPECT_EQ(state[0]->shard(device)->address(), addresses[device]);
  EXPECT_TRUE(at::equal(whole(state[0]).squeeze(0), at::full({8, 8}, 6.0)));
  EXPECT_TRUE(first->is_donated());
  expect_error([&] { whole(first); }, "was donated");
  expect_error([&] { (void)over.program.run({first, state[1]}); }, "input 0 of a program was donated");
}

TEST(MeshPrograms, SeveralThreadsRunThem) {
  at::manual_seed(0);
  const at::Tensor x = at::randn({16, 16}), w = at::randn({16, 16}) / 4;
  const Graph graph = product_graph(x, w);
  const OverMesh one(graph, {x, w}, split_all(graph, kSquare)),
      other(graph, {x, w}, split_all(graph, Mesh{{"model"}, {8}}));
  std::vector<std::thread> threads;
  std::vector<at::Tensor> results(2);
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      for (int run = 0; run < 30; ++run) results[i] = (i == 0 ? one : other).run().at(0);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_TRUE(at::allclose(result, at::mm(x, w), 1e-4, 1e-5));
}

TEST(ShardedBuffers, ShardsAreWhatTheShardingSays) {
  const at::Tensor tensor = at::arange(24).reshape({4, 6});
  for (const auto& make : {&ShardedBuffer::from_tensor, &ShardedBuffer::copy_from}) {
    for (const Sharding& sharding : {Sharding{}, {"data"}, {none, "data"}, {"model", "data"}}) {
      const auto buffer = make(eight_devices(), tensor, kSquare, sharding);
      EXPECT_EQ(buffer->sizes(), tensor.sizes().vec());
      EXPECT_EQ(buffer->dtype(), at::kLong);
      EXPECT_TRUE(at::equal(whole(buffer), tensor));
      buffer->wait();
      EXPECT_TRUE(buffer->is_ready());
    }
  }
  // Device 1 is number 0 along "data" and number 1 along "model".
  const auto buffer = ShardedBuffer::copy_from(eight_devices(), tensor, kSquare, {"model", "data"});
  at::Tensor shard = at::empty({2, 3}, at::kLong);
  buffer->shard(1)->copy_to(shard);
  EXPECT_TRUE(at::equal(shard, tensor.slice(0, 2, 4).slice(1, 0, 3)));
}

TEST(ShardedBuffers, AContiguousShardIsReadInPlace) {
  const at::Tensor tensor = at::ones({4, 1024});
  const auto buffer = ShardedBuffer::from_tensor(eight_devices(), tensor, {{"data"}, {4}}, {"data"});
  for (int64_t device = 0; device < 4; ++device) {
    EXPECT_EQ(buffer->shard(device)->address(), reinterpret_cast<uintptr_t>(tensor[device].data_ptr()));
  }
}

TEST(Shardings, TheFirstRuleThatFits) {
  const std::vector<ShardingRule> rules{
      {"blocks.0.*", {}}, {"blocks.*.mlp.w1", {none, "model"}}, {"*.w*", {"model"}}, {"x", {"data"}}};
  const auto found = [&](std::string_view name) { return xla::find_sharding(kSquare, rules, name, {4, 8}); };
  EXPECT_EQ(found("blocks.3.mlp.w1"), (Sharding{none, "model"}));
  EXPECT_EQ(found("blocks.0.mlp.w1"), (Sharding{none, none}));
  EXPECT_EQ(found("blocks.3.mlp.w2"), (Sharding{"model", none}));
  EXPECT_EQ(found("blocks.3.mlp.w1.more"), (Sharding{"model", none}));
  EXPECT_EQ(found("x"), (Sharding{"data", none}));
  EXPECT_EQ(found("xx"), (Sharding{none, none}));
}

TEST(Shardings, ThatDoNotFitTheirTensor) {
  const auto find = [](const Sharding& sharding) {
    return [=] { (void)xla::find_sharding(kSquare, {{"w*", sharding}}, "w1", {4, 3}); };
  };
  expect_error(find({"rows"}), {"sharding of 'w1'", "axis 'rows', which the mesh does not have", "[data, model]"});
  expect_error(find({none, "model"}), {"dimension 1 of 'w1' with sizes [4, 3]", "axis 'model' of size 2"});
  expect_error(find({"data", none, "model"}), {"sharding of 'w1' has 3 entries", "at most 2"});
  expect_error(find({"data", "data"}), "splits two dimensions by the axis 'data'");
  const at::Tensor x = at::randn({3, 4}), w = at::randn({4, 4});
  expect_error(
      [&] {
        (void)lower_graph(product_graph(x, w), {.donated = {}, .mesh = kSquare, .inputs = {{"data"}}, .outputs = {}});
      },
      "dimension 0 of 'input 0 of graph 'graph'' with sizes [3, 4]");
}

TEST(Meshes, ThatAreNone) {
  const at::Tensor tensor = at::ones({16});
  const auto place = [&](const Mesh& mesh) {
    return [=] { (void)ShardedBuffer::copy_from(eight_devices(), tensor, mesh, {}); };
  };
  expect_error(place({{"data"}, {2, 2}}), "axes [data] and the sizes [2, 2]");
  expect_error(place({{"data", "data"}, {2, 2}}), "axis 1 of a mesh got the name 'data'");
  expect_error(place({{"data"}, {0}}), "axis 'data' of a mesh got size 0");
  expect_error(place({{"data", "model"}, {2, 8}}),
               {"a mesh got 16 devices and the PJRT plugin has 8", "set DIPTYCH_XLA_CPU_DEVICES=16"});
}

TEST(Meshes, OfSeveralProcesses) {
  const at::Tensor tensor = at::ones({16});
  const auto place = [&](int64_t size) {
    return [=] { (void)ShardedBuffer::copy_from(eight_devices(), tensor, {{"data"}, {size}}, {{"data"}}); };
  };
  setenv("WORLD_SIZE", "2", /*overwrite=*/1);
  expect_error(place(16), {"a mesh got 16 devices in one of 2 processes", "has 8, all of this process",
                           "use a mesh within a process", "DIPTYCH_XLA_CPU_DEVICES=16"});
  place(8)();
  setenv("WORLD_SIZE", "1", /*overwrite=*/1);
  expect_error(place(16), "a mesh got 16 devices and the PJRT plugin has 8");
  unsetenv("WORLD_SIZE");
}

TEST(Meshes, AnInputThatIsSplitInAnotherWay) {
  const at::Tensor x = at::randn({4, 4}), w = at::randn({4, 4});
  const OverMesh over(product_graph(x, w), {x, w},
                      {.donated = {}, .mesh = kSquare, .inputs = {{"data"}}, .outputs = {}});
  auto inputs = over.buffers;
  std::swap(inputs[0], inputs[1]);
  expect_error([&] { (void)over.program.run(inputs); }, {"input 0 of a program", "expected [, data, ]"});
  inputs.pop_back();
  expect_error([&] { (void)over.program.run(inputs); }, "got 1 inputs, expected 2");
}

}  // namespace
}  // namespace diptych
