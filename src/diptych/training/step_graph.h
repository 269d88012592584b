// A whole training step as one graph: forward, backward, clipping and the optimizer's update.
#pragma once
#include <string>
#include <vector>

#include "diptych/autodiff/host_reads.h"
#include "diptych/backward/optimizer_state.h"
#include "diptych/pair/pair.h"
#include "diptych/training/step_options.h"

namespace diptych::detail {

/// What an input of a step's graph holds.
struct StepInput {
  enum class Kind : uint8_t {
    kKept,            ///< tensor number `index`, which steps change: a parameter, or a buffer that the function changes
    kOptimizerState,  ///< state `part` of the optimizer's parameter number `index`
    kGiven,           ///< tensor number `index`, as the call gives it
    kNumbers,         ///< float64 [parameters of the optimizer]: the number of this update of each, from 1
    kLearningRates,   ///< float64 [groups]
    kDrawn,           ///< random numbers that the host draws, result `index`
  };
  Kind kind = Kind::kGiven;
  size_t index = 0, part = 0;
  std::string name;  ///< "model.w", "exp_avg.model.w"; shardings go by it
};

/// What an output of a step's graph holds.
struct StepOutput {
  enum class Kind : uint8_t {
    kResult,    ///< result number `index` of the function
    kNorm,      ///< the norm of the gradients before clipping
    kNewValue,  ///< what becomes of input number `index`
  };
  Kind kind = Kind::kResult;
  size_t index = 0;
};

/// A step of a function on tensors: first its arguments, then the tensors that it captures.
struct StepGraph {
  Graph graph;
  std::vector<StepInput> inputs;
  std::vector<StepOutput> outputs;
  std::vector<at::Tensor> free_variables;
  std::vector<size_t> updated;  ///< parameters of the optimizer that the step updates, by number
  HostState host_state;         ///< what backwards that the user has written read when they were traced
};

/// Captures a step. The function's first result is the loss; what else it returns is computed without gradients.
/// Nothing is run.
/// Errors: UserError for a loss that is no differentiable scalar, for an argument that requires grad and is not a
/// parameter of the optimizer, for tensors that share memory with one that a step changes, and as capture().
StepGraph capture_step_graph(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                             const std::vector<std::string>& paths, const OptimizerState& optimizer,
                             const xla::DeviceStepOptions& options);

}  // namespace diptych::detail
