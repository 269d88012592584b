#include "diptych/pair/pair_call.h"

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/compile/check_slots.h"
#include "diptych/hops/custom_vjp/custom_vjp.h"
#include "diptych/trace/recorder.h"

namespace diptych {

using namespace detail;
namespace {

using Tensors = std::vector<at::Tensor>;

void check_arguments(const Pair& pair, const Tensors& arguments) {
  DIPTYCH_CHECK(arguments.size() == pair.signature.num_arguments(),
                "[call_pair] got {} tensors, expected the {} flattened arguments; see pair.signature", arguments.size(),
                pair.signature.num_arguments());
  detail::check_plain("call_pair", arguments);
  detail::check_inputs_fit("call_pair", pair.forward, arguments);
}

/// The pair's graphs as the rules of a custom_vjp, for one call. Requires: the forward is traced before the backward.
class Rules {
 public:
  explicit Rules(const Pair& pair) : pair_(pair) {}

  FlatResult forward(const Tensors& inputs) {
    FlatResult result{pair_.forward_program->run(Tensors(inputs), {.differentiable = true}), {}};
    for (const Slot& slot : pair_.forward.output_slots()) result.paths.push_back(slot.path);
    is_differentiable_.clear();
    for (const at::Tensor& tensor : result.tensors) is_differentiable_.push_back(tensor.requires_grad());
    return result;
  }
  /// `given`: the residuals, then one tangent for each result of the forward, differentiable or not.
  FlatResult backward(const Tensors& given) const {
    const size_t num_results = pair_.split.layout.num_forward_outputs();
    const size_t num_residuals = given.size() - num_results;
    Tensors inputs;
    for (size_t i = 0; i < num_residuals; ++i) {
      // Some operators without a derivative for an input refuse one that requires grad.
      inputs.push_back(is_differentiable_[num_results + i] ? given[i] : given[i].detach());
    }
    for (const size_t output : pair_.signature.differentiable_outputs()) {
      inputs.push_back(given[num_residuals + output]);
    }
    FlatResult result{pair_.backward_program->run(std::move(inputs), {.differentiable = true}), {}};
    for (const Slot& slot : pair_.backward.output_slots()) result.paths.push_back(slot.path);
    return result;
  }

 private:
  const Pair& pair_;
  std::vector<bool> is_differentiable_;  ///< per output of the forward graph
};

// Copies results that are views, so that none shares memory with an input or another output, as with custom_vjp.
void own_views(const Signature& signature, Tensors& results) {
  using Kind = OutputAlias::Kind;
  for (const OutputAlias& alias : signature.aliases()) {
    const bool is_view = alias.kind == Kind::kViewOfInput || alias.kind == Kind::kViewOfOutput;
    if (is_view) results[alias.output] = results[alias.output].clone();
  }
}

// Returns the outputs, then the new values of changed inputs.
Tensors results_of(const Pair& pair, const Tensors& inputs) {
  const size_t num_results = pair.split.layout.num_forward_outputs();
  Rules rules(pair);
  if (detail::is_differentiated(inputs) && !pair.signature.differentiable_outputs().empty()) {
    const Tensors all = detail::custom_vjp_flat(
        {[&](const Tensors& given) { return rules.forward(given); },
         [&](const Tensors& given) { return rules.backward(given); }, [&] { return num_results; }},
        flatten(inputs));
    Tensors results;
    for (const at::Tensor& result : all) results.push_back(result.detach());
    for (const size_t output : pair.signature.differentiable_outputs()) results[output] = all[output];
    return results;
  }
  // Nothing flows to inputs that require grad now but did not at the capture.
  const at::AutoGradMode mode(c10::GradMode::is_enabled() && !detail::is_differentiated(inputs));
  Tensors results =
      detail::Recorder::current() == nullptr ? pair.forward_call(inputs).outputs : rules.forward(inputs).tensors;
  results.resize(num_results);
  own_views(pair.signature, results);
  return results;
}

}  // namespace

Tensors call_pair(const Pair& pair, Tensors arguments) {
  check_arguments(pair, arguments);
  arguments.insert(arguments.end(), pair.free_variables.begin(), pair.free_variables.end());
  Tensors results = results_of(pair, arguments);
  const Signature& signature = pair.signature;
  const std::vector<std::string> mutated = signature.mutated();
  const std::vector<size_t> differentiable = signature.differentiable_outputs();
  for (size_t i = 0; i < mutated.size(); ++i) {
    const size_t slot = signature.num_outputs() + i;
    const bool has_tangent = std::find(differentiable.begin(), differentiable.end(), slot) != differentiable.end();
    // An input that was changed under no_grad keeps its present history, as in eager.
    const at::AutoGradMode mode(has_tangent && c10::GradMode::is_enabled());
    arguments[signature.index_of_input(mutated[i])].copy_(results[slot]);
  }
  results.resize(signature.num_outputs());
  for (const OutputAlias& alias : signature.aliases()) {
    if (alias.kind == OutputAlias::Kind::kIsInput) results[alias.output] = arguments[alias.target];
    if (alias.kind == OutputAlias::Kind::kIsOutput) results[alias.output] = results[alias.target];
  }
  return results;
}

}  // namespace diptych
