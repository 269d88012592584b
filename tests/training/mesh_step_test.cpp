// Training steps over meshes of devices beside one device.
#include <cstdlib>

#include "training/step_check.h"

namespace diptych {
namespace {

using namespace testing;

// Before the first program of this process opens the devices.
const int kDevices = setenv("DIPTYCH_XLA_CPU_DEVICES", "8", /*overwrite=*/1);

struct MeshCase {
  std::string name;
  xla::Mesh mesh;
  std::vector<xla::ShardingRule> shardings;
  std::string optimizer_axis;
};
std::vector<MeshCase> mesh_cases() {
  const std::vector<xla::ShardingRule> data{{"x", {"data"}}};
  const std::vector<xla::ShardingRule> both{
      {"x", {"data"}}, {"model.w1", {xla::none, "model"}}, {"model.b1", {"model"}}, {"model.w2", {"model"}}};
  return {{"Data2", {{"data"}, {2}}, data, ""},
          {"Data4Optimizer", {{"data"}, {4}}, data, "data"},
          {"Model4", {{"model"}, {4}}, {both.begin() + 1, both.end()}, ""},
          {"Data2Model2", {{"data", "model"}, {2, 2}}, both, ""},
          {"Data4Model2Optimizer", {{"data", "model"}, {4, 2}}, both, "data"}};
}

class StepOnMesh : public ::testing::TestWithParam<MeshCase> {};

TEST_P(StepOnMesh, TrainsAsOneDevice) {
  ASSERT_EQ(kDevices, 0);
  const auto& [name, mesh, shardings, optimizer_axis] = GetParam();
  const Mlp model = make_mlp(16), expected = make_mlp(16);
  torch::optim::AdamW optimizer(model.parameters(), 0.05), eager(expected.parameters(), 0.05);
  const auto step = xla::capture_step(optimizer, mlp_loss,
                                      {.max_gradient_norm = 1.0,
                                       .argument_names = {"model", "x"},
                                       .mesh = mesh,
                                       .shardings = shardings,
                                       .optimizer_axis = optimizer_axis});
  const auto alone = xla::capture_step(eager, mlp_loss, {.max_gradient_norm = 1.0});
  for (int64_t i = 0; i < 3; ++i) {
    const auto batch = make_batch(8, i);
    EXPECT_NEAR(step(model, batch).loss.item(), alone(expected, batch).loss.item(), 1e-10);
  }
  const bool splits_state = !optimizer_axis.empty() || shardings.size() > 1;
  EXPECT_EQ(step.state_bytes(0) < alone.state_bytes(0), splits_state);
  step.sync();
  alone.sync();
  expect_near(model.parameters(), expected.parameters());
}

INSTANTIATE_TEST_SUITE_P(All, StepOnMesh, ::testing::ValuesIn(mesh_cases()),
                         [](const auto& info) { return info.param.name; });

// The numbers follow from the seed alone, however their users are split.
TEST(StepOnMesh, DrawsAsOneDevice) {
  const auto loss = [](const Mlp& model, const at::Tensor& x) {
    return mlp_loss(model, at::dropout(x, 0.5, /*train=*/true) + at::randn_like(x));
  };
  const Mlp model = make_mlp(16), expected = make_mlp(16);
  torch::optim::SGD optimizer(model.parameters(), 0.1), eager(expected.parameters(), 0.1);
  const auto step = xla::capture_step(optimizer, loss,
                                      {.argument_names = {"model", "x"},
                                       .mesh = {{"data", "model"}, {4, 2}},
                                       .shardings = {{"x", {"data"}}, {"model.w1", {xla::none, "model"}}},
                                       .draws = "device"});
  const auto alone = xla::capture_step(eager, loss, {.draws = "device"});
  for (int64_t i = 0; i < 3; ++i) {
    const auto batch = make_batch(8, i);
    at::manual_seed(i);
    const double on_mesh = step(model, batch).loss.item();
    at::manual_seed(i);
    EXPECT_NEAR(on_mesh, alone(expected, batch).loss.item(), 1e-10);
  }
}

TEST(StepOnMesh, RefusesMeshesThatDoNotFit) {
  const Mlp model = make_mlp();
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  const auto refuses = [&](const char* why, const xla::Mesh& mesh, const xla::Sharding& sharding,
                           const std::string& axis = "") {
    expect_error(
        [&] {
          xla::capture_step(
              optimizer, mlp_loss,
              {.argument_names = {"model", "x"}, .mesh = mesh, .shardings = {{"x", sharding}}, .optimizer_axis = axis})(
              model, make_batch(6, 0));
        },
        why);
  };
  refuses("DIPTYCH_XLA_CPU_DEVICES=16", {{"data"}, {16}}, {});
  refuses("x", {{"data"}, {4}}, {"data"});  // six rows
  refuses("model", {{"data"}, {2}}, {"model"});
  refuses("optimizer_axis is 'other'", {{"data"}, {2}}, {"data"}, "other");
  refuses("mesh", {{"data"}, {0}}, {});
  setenv("WORLD_SIZE", "2", /*overwrite=*/1);
  refuses("16 devices in one of 2 processes", {{"data"}, {16}}, {});
  unsetenv("WORLD_SIZE");
}

}  // namespace
}  // namespace diptych
