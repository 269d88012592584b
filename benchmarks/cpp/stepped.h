// Times a training step and measures its memory; the engines of the worker differ only in how the loss is called.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "checks.h"
#include "protocol.h"

namespace diptych::bench {

inline at::Tensor eager_loss(const Model& model) { return model.loss(model.params, model.buffers, model.data)[0]; }

/// A case: forward and backward into fresh gradients; no optimizer, which would be the same for everyone.
class Stepped {
 public:
  using Loss = std::function<at::Tensor(const Model&)>;
  /// Requires: made before anything large is allocated; memory is reported from here on.
  Stepped(std::string model, Loss loss) : name_(std::move(model)), loss_(std::move(loss)) {}

  Reply operator()(int repeat) {
    if (!model_) model_ = make_model(name_, Fill::kValues);
    auto times = timed(repeat, [&] { step(); });
    if (facts_.is_null()) {
      facts_ = memory_facts();
      check();  // after memory_facts(), since eager's step would raise the high-water mark
    }
    return {std::move(times), facts_};
  }

 private:
  void drop_gradients() {
    for (auto& param : model_->params) param.mutable_grad().reset();
  }
  void step() {
    drop_gradients();
    loss_(*model_).backward();
  }
  Tensors loss_and_gradients(const Loss& loss) {
    drop_gradients();
    Tensors results{loss(*model_)};
    results[0].backward();
    for (const auto& param : model_->params) results.push_back(param.grad());
    return results;
  }
  void check() { expect_close("a step of " + name_, loss_and_gradients(loss_), loss_and_gradients(eager_loss)); }
  nlohmann::json memory_facts() {
    const int64_t peak = memory_bytes("VmHWM");
    drop_gradients();
    return {{"peak_rss_bytes", peak},
            {"peak_rss_over_start_bytes", peak - start_rss_},
            {"peak_allocated_bytes", allocation_peak([&] { step(); })}};
  }

  std::string name_;
  Loss loss_;
  int64_t start_rss_ = memory_bytes("VmRSS");
  std::optional<Model> model_;
  nlohmann::json facts_;
};

}  // namespace diptych::bench
