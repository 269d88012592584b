// C++ eager: the cost of a call, the memory that autograd keeps, and a training step.
#include <torch/csrc/autograd/autograd.h>

#include <optional>
#include <string>

#include "models.h"
#include "protocol.h"

namespace diptych::bench {
namespace {

/// Forward and backward into fresh gradients; no optimizer, which would be the same for everyone.
void step(Model& model) {
  for (auto& param : model.params) param.mutable_grad().reset();
  model.loss(model.params, model.buffers, model.data)[0].backward();
}

/// A model that is stepped, and its memory, which is taken once: counting allocations costs a further step.
class Stepped {
 public:
  explicit Stepped(std::string name) : name_(std::move(name)) {}

  Reply operator()(int repeat) {
    if (!model_) model_ = make_model(name_, Fill::kValues);
    auto times = timed(repeat, [&] { step(*model_); });
    if (facts_.is_null()) facts_ = memory_facts();
    return {std::move(times), facts_};
  }

 private:
  nlohmann::json memory_facts() {
    const int64_t peak = memory_bytes("VmHWM");
    for (auto& param : model_->params) param.mutable_grad().reset();
    return {{"peak_rss_bytes", peak},
            {"peak_rss_over_start_bytes", peak - start_rss_},
            {"peak_allocated_bytes", allocation_peak([&] { step(*model_); })}};
  }

  std::string name_;
  int64_t start_rss_ = memory_bytes("VmRSS");
  std::optional<Model> model_;
  nlohmann::json facts_;
};

}  // namespace

Cases eager_cases() {
  Cases cases;
  cases["call/forward"] = [](int repeat) {
    const auto inputs = two_element_inputs();
    return Reply{timed_in_batches(repeat, [&] { two_elements(inputs[0], inputs[1]); })};
  };
  cases["call/forward_backward"] = [](int repeat) {
    const auto inputs = two_element_inputs();
    return Reply{timed_in_batches(
        repeat, [&] { torch::autograd::grad({two_elements(inputs[0], inputs[1])}, {inputs[0], inputs[1]}); })};
  };
  cases["step/gpt"] = Stepped("gpt");
  return cases;
}

}  // namespace diptych::bench
