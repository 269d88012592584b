// Diptych's side of the comparisons, through its public interface.
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "diptych/diptych.h"
#include "diptych/passes/joint_analysis.h"
#include "flat_model.h"
#include "protocol.h"
#include "stepped.h"

namespace diptych::bench {
namespace {

Pair pair_of(const Model& model, const Partitioner& partitioner) {
  return capture_with({.partition = partitioner, .name = "bench"}, model.loss, model.params, model.buffers, model.data);
}

/// Both graphs, split by the default partition, signature and programs included.
Reply run_capture(const std::string& name, int repeat) {
  const Model model = make_model(name, Fill::kUntouched);
  size_t nodes = 0;
  auto times = timed(repeat, [&] {
    const Pair pair = pair_of(model, default_partition());
    nodes = pair.forward.nodes().size() + pair.backward.nodes().size();
  });
  return {std::move(times), {{"joint_nodes", nodes}}};
}

/// The joint graph alone.
Reply run_joint_capture(const std::string& name, int repeat) {
  const FlatModel model(make_model(name, Fill::kUntouched));
  size_t nodes = 0;
  auto times = timed(repeat, [&] {
    JointCapture capture(model.function, model.arguments, model.paths);
    nodes = capture.joint().graph.nodes().size();
  });
  return {std::move(times), {{"joint_nodes", nodes}}};
}

/// Counts what the forward graph saves as python/peer_functorch.py does: each storage once and whole.
nlohmann::json residual_facts(const Split& split) {
  const Graph& forward = split.forward;
  const auto roots = detail::storage_roots(forward);
  std::vector<Value> kept;
  for (size_t i = split.layout.num_forward_outputs(); i < forward.outputs().size(); ++i) {
    kept.push_back(roots[forward.outputs()[i].id]);
  }
  int64_t all = 0, fresh = 0;
  for (const Value root : detail::sorted_unique(kept)) {
    const int64_t bytes = forward.meta(root).nbytes();
    all += bytes;
    if (forward.info(root).kind == ValueInfo::Kind::kNode) fresh += bytes;
  }
  return {{"saved", kept.size()}, {"bytes_with_inputs", all}, {"bytes_without_inputs", fresh}};
}

Reply run_residuals(const std::string& name, const Partitioner& partitioner) {
  const Model model = make_model(name, Fill::kUntouched);
  Reply reply;
  reply.times_ns.push_back(time_ns([&] {
    const Pair pair = pair_of(model, partitioner);
    reply.facts = residual_facts(pair.split);
    reply.facts["backward_nodes"] = pair.backward.nodes().size();
  }));
  return reply;
}

Stepped step_of_gpt(const Partitioner& partitioner) {
  const auto loss = [](const Tensors& params, const Tensors& data) { return gpt_loss(kGpt, params, data); };
  return {"gpt", [compiled = aot_function(loss, {.partition = partitioner, .name = "gpt"})](const Model& model) {
            return compiled(model.params, model.data);
          }};
}

}  // namespace

Cases diptych_cases() {
  Cases cases;
  for (const std::string name : {"gpt", "gpt2", "resnet18"}) {
    cases["capture/" + name] = [name](int repeat) { return run_capture(name, repeat); };
  }
  for (const std::string name : {"gpt", "gpt2", "resnet18", "mlp", "lstm_cell"}) {
    for (const auto& partitioner : {default_partition(), min_cut()}) {
      cases["residuals/" + name + "/" + partitioner.name] = [=](int) { return run_residuals(name, partitioner); };
    }
  }
  const auto compiled = aot_function(two_elements, {.name = "two_elements"});
  cases["call/forward"] = [compiled](int repeat) {
    const auto inputs = two_element_inputs();
    return Reply{timed_in_batches(repeat, [&] { compiled(inputs[0], inputs[1]); })};
  };
  cases["call/forward_backward"] = [compiled](int repeat) {
    const auto inputs = two_element_inputs();
    return Reply{timed_in_batches(repeat, [&] {
      torch::autograd::grad({compiled(inputs[0], inputs[1])}, {inputs[0], inputs[1]});
    })};
  };
  cases["step/gpt"] = step_of_gpt(default_partition());
  return cases;
}

Cases diptych_joint_cases() {
  Cases cases;
  for (const std::string name : {"gpt", "gpt2", "resnet18"}) {
    cases["capture/" + name] = [name](int repeat) { return run_joint_capture(name, repeat); };
  }
  return cases;
}

Cases diptych_min_cut_cases() { return {{"step/gpt", step_of_gpt(min_cut())}}; }

}  // namespace diptych::bench
