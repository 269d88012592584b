#include "diptych/pair/pair.h"

#include <fmt/ranges.h>

#include "diptych/base/check.h"
#include "diptych/compile/check_slots.h"
#include "diptych/compile/output_aliases.h"
#include "diptych/graph/html.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/pair/absent_devices.h"
#include "diptych/scan_passes/pipeline.h"
#include "diptych/trace/transforms.h"

namespace diptych {

using namespace detail;
namespace {

// A pair returns the new elements of an input, but has no place for a new shape.
void check_shapes_stay(const ForwardPlan& plan, const Graph& forward, const std::vector<at::Tensor>& primals) {
  for (const auto& mutation : plan.mutations) {
    const at::Tensor& primal = primals[mutation.primal];
    const std::string& path = forward.input_slots()[mutation.primal].path;
    const auto& [sizes, strides, offset] =
        mutation.geometry.value_or(Geometry{primal.sizes().vec(), primal.strides().vec()});
    DIPTYCH_CHECK(primal.sizes().equals(sizes) && primal.strides().equals(strides) && offset == 0,
                  "[capture] the function changes the shape of '{}' in place, from [{}] to [{}], which the graphs of a "
                  "pair can't do to a caller's tensor; use an out-of-place operator, or aot_function()",
                  path, fmt::join(primal.sizes(), ","), fmt::join(sizes, ","));
  }
}

}  // namespace

Pair detail::capture_flat(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                          const std::vector<std::string>& paths, const AotOptions& options) {
  const WithoutCudnn without_cudnn(arguments);
  JointCapture capture(function, arguments, paths, {options.name, /*exact_outputs=*/true});
  Pair pair{Graph(),
            Graph(),
            {},
            {},
            split_joint(lower_joint(capture.take_joint(), options.decompositions),
                        options.partition.value_or(default_partition())),
            capture.host_reads(),
            LazyProgram(),
            LazyProgram()};
  pair.free_variables = capture.free_variables();
  // The graphs of a pair may be differentiated again by whoever has it.
  const LowerOptions keep{.simplify = {.keep_gradient_stops = true}};
  pair.forward = lower(Stage::kForward, pair.split.forward, keep);
  pair.backward = lower(Stage::kBackward, pair.split.backward, keep);
  std::vector<at::Tensor> primals = arguments;
  primals.insert(primals.end(), pair.free_variables.begin(), pair.free_variables.end());
  check_shapes_stay(capture.plan(), pair.forward, primals);
  pair.forward.set_name("forward");
  pair.backward.set_name("backward");
  pair.signature =
      Signature(pair.forward, pair.backward, detail::find_aliases(pair.split.forward, pair.split.layout.num_outputs));
  pair.forward_program = LazyProgram(pair.forward);
  pair.backward_program = LazyProgram(pair.backward);
  return pair;
}

Pair::ForwardResult Pair::forward_call(std::vector<at::Tensor> arguments) const {
  const size_t all = forward.inputs().size();
  const size_t without = all - free_variables.size();
  DIPTYCH_CHECK(arguments.size() == all || arguments.size() == without,
                "[forward_call] got {} tensors, expected the {} flattened arguments{}", arguments.size(), without,
                free_variables.empty() ? "" : fmt::format(", or {} with the free variables", all));
  if (arguments.size() == without) arguments.insert(arguments.end(), free_variables.begin(), free_variables.end());
  detail::check_plain("forward_call", arguments);
  detail::check_inputs_fit("forward_call", forward, arguments);
  const RunBelowAutograd guard;
  ForwardResult result;
  result.outputs = forward_program->run(std::move(arguments));
  const auto first_residual = result.outputs.begin() + static_cast<int64_t>(split.layout.num_forward_outputs());
  result.residuals.assign(std::make_move_iterator(first_residual), std::make_move_iterator(result.outputs.end()));
  result.outputs.erase(first_residual, result.outputs.end());
  return result;
}

std::vector<at::Tensor> Pair::backward_call(std::vector<at::Tensor> residuals,
                                            const std::vector<at::Tensor>& tangents) const {
  const size_t num_residuals = backward.inputs().size() - split.layout.num_tangents;
  DIPTYCH_CHECK(residuals.size() == num_residuals, "[backward_call] got {} residuals, expected the {} of forward_call",
                residuals.size(), num_residuals);
  DIPTYCH_CHECK(tangents.size() == split.layout.num_tangents,
                "[backward_call] got {} tangents, expected one per differentiable output, {}", tangents.size(),
                split.layout.num_tangents);
  for (size_t i = 0; i < tangents.size(); ++i) {
    DIPTYCH_CHECK(tangents[i].defined(),
                  "[backward_call] tangent {} ({}) is undefined; pass zeros where no gradient flows in", i,
                  backward.input_slots()[num_residuals + i].path);
    detail::check_fits("backward_call", "tangent", i, backward.input_slots()[num_residuals + i], tangents[i],
                       backward.meta(backward.inputs()[num_residuals + i]));
  }
  residuals.insert(residuals.end(), tangents.begin(), tangents.end());
  detail::check_plain("backward_call", residuals);
  const RunBelowAutograd guard;
  return backward_program->run(std::move(residuals));
}

std::string Pair::code() const { return forward.code() + "\n" + backward.code(); }
std::string Pair::table() const { return forward.table() + "\n" + backward.table(); }
std::string Pair::html() const { return diptych::html(forward, backward, split.forward.name()); }
std::string Pair::explain() const { return diptych::explain(split); }

}  // namespace diptych
