// The optimizers that a graph can hold: what each keeps for a parameter, and the kernel that does its update.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

namespace diptych::detail {

/// The positions of options among a rule's.
enum SgdOption : size_t { kMomentum, kDampening, kSgdWeightDecay, kNesterov };
enum AdamOption : size_t { kBeta1, kBeta2, kEps, kWeightDecay, kAmsgrad };

/// Parameters of one dtype that are updated alike; tensors of one parameter have one dense layout.
struct UpdateBatch {
  std::vector<at::Tensor> parameters, gradients;
  std::vector<std::vector<at::Tensor>> states;  ///< per kind of state, one tensor per parameter
  int64_t step = 1;                             ///< the number of this update, from 1
  bool is_first = false;                        ///< the states hold nothing yet
  double learning_rate = 0;
  const std::vector<double>* options = nullptr;  ///< by the rule's names
};

struct UpdateRule {
  std::string_view name;
  std::vector<std::string_view> option_names;
  std::vector<std::string_view> state_names;
  size_t (*num_states)(const std::vector<double>& options);
  void (*update)(const UpdateBatch& batch, const std::vector<double>& options);
};

/// Returns the rule of that name. Errors: InternalError if there is none.
const UpdateRule& find_update_rule(std::string_view name);

/// Updates all parameters in one parallel region, each thread an equal share of their elements: the kernels themselves
/// would begin a region per tensor, however small, and wait for all threads at its end.
void update_in_parallel(const UpdateRule& rule, const std::vector<UpdateBatch>& batches);

}  // namespace diptych::detail
