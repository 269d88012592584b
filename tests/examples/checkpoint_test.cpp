// Checkpoints: written whole or not at all, damage noticed, the newest sound one read back exactly.
#include "common/checkpoint.h"

#include <ATen/Parallel.h>
#include <signal.h>
#include <sys/wait.h>
#include <torch/optim.h>
#include <unistd.h>

#include "examples/temporary_folder.h"
#include "testing/expect_error.h"

namespace examples {
namespace {

using diptych::testing::expect_error;
using diptych::testing::message_of;

// A small model with an optimizer that has made some steps.
struct Model {
  explicit Model(int64_t size, int64_t steps = 2) {
    weight = at::randn({size, 4}).requires_grad_();
    statistics = at::randn({4}, at::kDouble);
    optimizer = std::make_unique<torch::optim::AdamW>(std::vector<at::Tensor>{weight}, torch::optim::AdamWOptions(0.1));
    for (int64_t i = 0; i < steps; ++i) {
      weight.square().sum().backward();
      optimizer->step();
      optimizer->zero_grad();
    }
    state = {steps, {{"w", weight}}, {{"statistics", statistics}}, optimizer.get(), std::vector<float>(steps, 0.5f)};
  }
  at::Tensor weight, statistics;
  std::unique_ptr<torch::optim::AdamW> optimizer;
  TrainState state;
};

void spoil(const std::filesystem::path& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(offset);
  file.put(byte);
}

TEST(TensorFile, ReadsBackWhatWasWritten) {
  TemporaryFolder folder;
  const auto path = folder.path() / "t.safetensors";
  const TensorFile written{{{"a", at::randn({2, 3}).t()},
                            {"b", at::arange(5)},
                            {"none", at::empty({0, 4}, at::kDouble)},
                            {"one", at::ones({}, at::kBool)}},
                           {{"step", "7"}}};
  write_tensor_file(path, written);
  const TensorFile read = read_tensor_file(path);
  EXPECT_EQ(read.metadata, written.metadata);
  for (const auto& [name, tensor] : written.tensors) {
    EXPECT_EQ(read.tensor(name).sizes(), tensor.sizes());
    EXPECT_EQ(read.tensor(name).scalar_type(), tensor.scalar_type());
    EXPECT_TRUE(at::equal(read.tensor(name), tensor)) << name;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "no temporary file is left";
}

TEST(TensorFile, NoticesEveryKindOfDamage) {
  TemporaryFolder folder;
  const auto path = folder.path() / "t.safetensors";
  write_tensor_file(path, {{{"a", at::arange(100)}}, {}});
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  for (const int64_t offset : {int64_t{0}, int64_t{7}, int64_t{20}, size / 2, size - 1}) {
    spoil(path, offset);
    EXPECT_NE(message_of([&] { read_tensor_file(path); }).find("checksum does not match"), std::string::npos)
        << "byte " << offset;
    spoil(path, offset);
  }
  EXPECT_EQ(message_of([&] { read_tensor_file(path); }), "nothing was thrown");
  for (const int64_t kept : {size - 1, size / 2, int64_t{13}, int64_t{5}, int64_t{0}}) {
    std::filesystem::resize_file(path, kept);
    EXPECT_NE(message_of([&] { read_tensor_file(path); }), "nothing was thrown") << "cut to " << kept;
  }
}

TEST(TensorFile, LeavesTheOldFileWhenTheDiskRefuses) {
  TemporaryFolder folder;
  expect_error([&] { write_tensor_file(folder.path() / "no" / "t", {{{"a", at::ones(1)}}, {}}); }, "can't open");
  // /dev/full takes the file but no bytes.
  std::filesystem::create_symlink("/dev/full", folder.path() / "t.tmp");
  folder.file("t", "old");
  expect_error([&] { write_tensor_file(folder.path() / "t", {{{"a", at::ones(1)}}, {}}); }, "can't write");
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "t"), 3u);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "t.tmp"));
}

TEST(Checkpoint, BringsEverythingBackExactly) {
  TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path() / "run" / "one");
  Model trained(8);
  checkpoints.save(trained.state, {{"--lr", "0.1"}});
  const at::Tensor next_draw = at::randn({3});
  Model other(8, /*steps=*/0);
  const auto found = checkpoints.newest();
  ASSERT_TRUE(found);
  restore(*found, other.state);
  EXPECT_EQ(other.state.step, 2);
  EXPECT_EQ(other.state.losses, trained.state.losses);
  EXPECT_EQ(found->options.at("--lr"), "0.1");
  EXPECT_TRUE(at::equal(other.weight, trained.weight));
  EXPECT_TRUE(at::equal(other.statistics, trained.statistics));
  EXPECT_TRUE(at::equal(at::randn({3}), next_draw)) << "the random state came back";
  for (Model* model : {&trained, &other}) {
    model->weight.square().sum().backward();
    model->optimizer->step();
  }
  EXPECT_TRUE(at::equal(other.weight, trained.weight)) << "the optimizer's state came back";
}

TEST(Checkpoint, KeepsTheNewestTwo) {
  TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  Model model(2);
  for (const int64_t step : {9, 10, 100}) {
    model.state.step = step;
    checkpoints.save(model.state, {});
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "checkpoint-00000009.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "checkpoint-00000010.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "checkpoint-00000100.safetensors"));
}

TEST(Checkpoint, PassesOverADamagedOneAndSaysSo) {
  TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  Model model(2);
  EXPECT_FALSE(checkpoints.newest());
  model.state.step = 1;
  const auto older = checkpoints.save(model.state, {});
  model.state.step = 2;
  const auto newer = checkpoints.save(model.state, {});
  spoil(newer, 100);
  const auto found = checkpoints.newest();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, older);
  ASSERT_EQ(found->skipped.size(), 1u);
  EXPECT_NE(found->skipped[0].find(newer.string()), std::string::npos);
  spoil(older, 100);
  expect_error([&] { checkpoints.newest(); }, "every checkpoint in");
  checkpoints.clear();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Checkpoint, RefusesAModelOfOtherSizes) {
  TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  Model trained(8), other(9);
  checkpoints.save(trained.state, {});
  expect_error([&] { restore(*checkpoints.newest(), other.state); },
               "parameters.w has shape [8, 4] in the checkpoint and [9, 4] in this model");
}

TEST(Checkpoint, RefusesAFolderThatCannotBeMade) {
  TemporaryFolder folder;
  const auto file = folder.file("taken", "x");
  expect_error([&] { CheckpointFolder("/proc/none/run"); }, "can't be made");
  expect_error([&] { CheckpointFolder{file}; }, "choose another --out");
}

// Writes checkpoints whose tensors all hold the step, until it is killed.
[[noreturn]] void write_until_killed(const std::filesystem::path& folder, int64_t first_step) {
  const CheckpointFolder checkpoints(folder);
  Model model(1 << 15, /*steps=*/0);
  torch::NoGradGuard no_grad;
  for (int64_t step = first_step;; ++step) {
    model.weight.fill_(static_cast<double>(step));
    model.state.step = step;
    model.state.losses.assign(static_cast<size_t>(step), 0.0f);
    checkpoints.save(model.state, {});
  }
}

TEST(Checkpoint, SurvivesBeingKilledMidWrite) {
  at::set_num_threads(1);  // a forked child has no other threads
  TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  int64_t killed_mid_write = 0, last_step = 0;
  for (int round = 0; round < 40; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_until_killed(folder.path(), last_step + 1);
    ::usleep(15'000 + 1'700 * round);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      killed_mid_write += entry.path().extension() == ".tmp";
    const auto found = checkpoints.newest();
    if (!found) continue;  // killed before its first checkpoint was whole
    EXPECT_TRUE(found->skipped.empty()) << found->skipped[0];
    Model model(1 << 15, /*steps=*/0);
    restore(*found, model.state);
    EXPECT_GE(model.state.step, last_step) << "a checkpoint that was whole before has gone";
    EXPECT_TRUE((model.weight == static_cast<double>(model.state.step)).all().item<bool>());
    last_step = model.state.step;
  }
  EXPECT_GT(last_step, 0) << "no checkpoint was ever written";
  EXPECT_GT(killed_mid_write, 0) << "no kill came in the middle of a write, so nothing was tested";
}

}  // namespace
}  // namespace examples
