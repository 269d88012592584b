// Times a value and all gradients of a model, and measures the memory that takes: for the suites on loops.
#pragma once
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "models.h"
#include "protocol.h"

namespace diptych::bench {

/// Returns the facts of a row of a memory table: the bytes that theory predicts, term by term. Units: bytes.
inline nlohmann::json predicted(const nlohmann::json& terms) {
  int64_t total = 0;
  for (const auto& [name, bytes] : terms.items()) total += bytes.get<int64_t>();
  return {{"predicted_bytes", total}, {"predicted_terms", terms}};
}

/// A case. The model is made by the first request and kept; the first call of the loss, which captures, is not timed.
class GradientCase {
 public:
  using Loss = std::function<at::Tensor(const Model&)>;
  struct Parts {
    std::string name;
    std::function<Model()> make;
    Loss loss;
    Loss eager = {};                             ///< results are compared with its results; no check if empty
    std::function<nlohmann::json()> facts = {};  ///< called once
    bool forward_share = false;                  ///< whether to report the forward's share of the time
    double tolerance = 1e-4;                     ///< of the check, relative to a tensor's largest number
    bool measures_memory = true;                 ///< whether LibTorch's allocator sees all that is allocated
  };
  explicit GradientCase(Parts parts) : parts_(std::move(parts)) {}

  Reply operator()(int repeat) {
    if (!model_) prepare();
    return {timed(repeat, [&] { value_and_gradients(parts_.loss); }), facts_};
  }

 private:
  Tensors value_and_gradients(const Loss& loss) const {
    Tensors results{loss(*model_)};
    for (auto& gradient : torch::autograd::grad({results[0]}, model_->params)) results.push_back(gradient);
    return results;
  }

  void prepare() {
    model_ = parts_.make();
    if (parts_.eager) check(value_and_gradients(parts_.loss), value_and_gradients(parts_.eager));
    value_and_gradients(parts_.loss);
    if (parts_.facts) facts_ = parts_.facts();
    if (parts_.measures_memory) {
      facts_["peak_allocated_bytes"] = allocation_peak([&] { value_and_gradients(parts_.loss); });
    }
    if (parts_.forward_share) add_forward_share();
  }

  void add_forward_share() {
    constexpr int kTimes = 3;
    std::vector<double> shares;
    for (int i = 0; i < kTimes; ++i) {
      at::Tensor loss;
      const double forward = time_ns([&] { loss = parts_.loss(*model_); });
      const double backward = time_ns([&] { torch::autograd::grad({loss}, model_->params); });
      shares.push_back(forward / (forward + backward));
    }
    std::sort(shares.begin(), shares.end());
    facts_["forward_share"] = shares[kTimes / 2];
  }

  /// Compares relative to a tensor's largest number: a sum of many steps rounds differently in another order.
  void check(const Tensors& actual, const Tensors& eager) const {
    for (size_t i = 0; i < eager.size(); ++i) {
      const double scale = eager[i].abs().max().item<double>();
      const double off = (actual[i] - eager[i]).abs().max().item<double>();
      if (!(off <= parts_.tolerance * scale + 1e-6)) {
        throw std::runtime_error(parts_.name + ": result " + std::to_string(i) + " is not what eager gives");
      }
    }
  }

  Parts parts_;
  std::optional<Model> model_;
  nlohmann::json facts_ = nlohmann::json::object();
};

}  // namespace diptych::bench
