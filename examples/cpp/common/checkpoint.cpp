// What goes into a checkpoint, and which one is read.
#include "common/checkpoint.h"
#include "diptych/base/check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <diptych/base/error.h>
#include <fmt/ranges.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace examples {
namespace {

constexpr size_t kKept = 2;
constexpr const char* kPrefix = "checkpoint-";
constexpr const char* kEnding = ".safetensors";

using AdamWState = torch::optim::AdamWParamState;

// The optimizer's state of one parameter, made empty if the parameter has none yet.
AdamWState& optimizer_state(torch::optim::AdamW& optimizer, const at::Tensor& parameter) {
  auto& slot = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!slot) {
    auto fresh = std::make_unique<AdamWState>();
    fresh->step(0);
    fresh->exp_avg(at::zeros_like(parameter));
    fresh->exp_avg_sq(at::zeros_like(parameter));
    slot = std::move(fresh);
  }
  return static_cast<AdamWState&>(*slot);
}

void copy_into(const at::Tensor& target, const TensorFile& contents, const std::string& name) {
  const at::Tensor& source = contents.tensor(name);
  DIPTYCH_CHECK(source.sizes() == target.sizes() && source.scalar_type() == target.scalar_type(),
                "[checkpoint] {} has shape [{}] in the checkpoint and [{}] in this model; use the options that it was "
                "trained with",
                name, fmt::join(source.sizes(), ", "), fmt::join(target.sizes(), ", "));
  torch::NoGradGuard no_grad;
  target.copy_(source);
}

at::Generator default_generator() { return at::detail::getDefaultCPUGenerator(); }

at::Tensor random_state() {
  auto generator = default_generator();
  std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

}  // namespace

CheckpointFolder::CheckpointFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  DIPTYCH_CHECK(!error && std::filesystem::is_directory(folder_),
                "[checkpoint] the folder '{}' can't be made: {}; choose another --out", folder_.string(),
                error ? error.message() : "something else has that name");
  DIPTYCH_CHECK(::access(folder_.c_str(), W_OK | X_OK) == 0,
                "[checkpoint] the folder '{}' can't be written to; choose another --out", folder_.string());
}

std::vector<std::filesystem::path> CheckpointFolder::files() const {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kEnding)) found.push_back(entry.path());
  }
  std::sort(found.rbegin(), found.rend());  // steps are zero-padded, so names sort as steps do
  return found;
}

std::filesystem::path CheckpointFolder::save(const TrainState& state, const RunOptions& options) const {
  TensorFile contents;
  for (const auto& [name, tensor] : state.parameters) {
    const auto& moments = optimizer_state(*state.optimizer, tensor);
    contents.tensors.emplace_back("parameters." + name, tensor);
    contents.tensors.emplace_back("exp_avg." + name, moments.exp_avg());
    contents.tensors.emplace_back("exp_avg_sq." + name, moments.exp_avg_sq());
    contents.tensors.emplace_back("optimizer_step." + name, torch::tensor(moments.step(), at::kLong));
  }
  for (const auto& [name, tensor] : state.buffers) contents.tensors.emplace_back("buffers." + name, tensor);
  contents.tensors.emplace_back("losses", torch::tensor(state.losses));
  contents.tensors.emplace_back("rates", torch::tensor(state.rates, at::kDouble));
  contents.tensors.emplace_back("random_state", random_state());
  contents.metadata = {{"step", std::to_string(state.step)}, {"options", nlohmann::json(options).dump()}};
  const auto path = folder_ / fmt::format("{}{:08}{}", kPrefix, state.step, kEnding);
  write_tensor_file(path, contents);
  const auto all = files();
  for (size_t i = kKept; i < all.size(); ++i) std::filesystem::remove(all[i]);
  return path;
}

std::optional<CheckpointFolder::Found> CheckpointFolder::newest() const {
  std::vector<std::string> skipped;
  for (const auto& path : files()) {
    try {
      TensorFile contents = read_tensor_file(path);
      RunOptions options = nlohmann::json::parse(contents.metadata.at("options"));
      return Found{path, std::move(contents), std::move(options), std::move(skipped)};
    } catch (const std::exception& error) {
      skipped.emplace_back(error.what());
    }
  }
  DIPTYCH_CHECK(
      skipped.empty(),
      "[checkpoint] every checkpoint in '{}' is damaged ({}); start over with --fresh or choose another --out",
      folder_.string(), skipped.front());
  return std::nullopt;
}

void CheckpointFolder::clear() const {
  for (const auto& path : files()) std::filesystem::remove(path);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kTemporaryEnding)) std::filesystem::remove(entry.path());
  }
}

void restore(const CheckpointFolder::Found& found, TrainState& state) {
  const TensorFile& contents = found.contents;
  for (auto& [name, tensor] : state.parameters) {
    copy_into(tensor, contents, "parameters." + name);
    auto& moments = optimizer_state(*state.optimizer, tensor);
    copy_into(moments.exp_avg(), contents, "exp_avg." + name);
    copy_into(moments.exp_avg_sq(), contents, "exp_avg_sq." + name);
    moments.step(contents.tensor("optimizer_step." + name).item<int64_t>());
  }
  for (auto& [name, tensor] : state.buffers) copy_into(tensor, contents, "buffers." + name);
  const at::Tensor losses = contents.tensor("losses");
  state.losses.assign(losses.const_data_ptr<float>(), losses.const_data_ptr<float>() + losses.numel());
  const at::Tensor rates = contents.tensor("rates");
  state.rates.assign(rates.const_data_ptr<double>(), rates.const_data_ptr<double>() + rates.numel());
  state.step = losses.numel();
  auto generator = default_generator();
  std::lock_guard lock(generator.mutex());
  generator.set_state(contents.tensor("random_state"));
}

}  // namespace examples
