// Diptych's side of the comparisons, through its public interface.
#include <algorithm>
#include <string>
#include <vector>

#include "calls.h"
#include "diptych/diptych.h"
#include "diptych/passes/joint_analysis.h"
#include "diptych/passes/storage_roots.h"
#include "flat_model.h"
#include "protocol.h"
#include "stepped.h"
#include "suites.h"

namespace diptych::bench {
namespace {

Pair pair_of(const Model& model, const AotOptions& options) {
  return capture_with(options, model.loss, model.params, model.buffers, model.data);
}

/// Both graphs, split by the default partition, signature and programs included.
Reply run_capture(const std::string& name, int repeat) {
  const Model model = make_model(name, Fill::kUntouched);
  size_t nodes = 0;
  auto times = timed(repeat, [&] {
    const Pair pair = pair_of(model, {});
    check_gradients(c10::ArrayRef<Value>(pair.backward.outputs()).slice(0, model.params.size()));
    nodes = pair.forward.nodes().size() + pair.backward.nodes().size();
  });
  return {std::move(times), {{"joint_nodes", nodes}}};
}

/// The joint graph alone.
Reply run_joint_capture(const std::string& name, int repeat) {
  const FlatModel model(make_model(name, Fill::kUntouched));
  size_t nodes = 0;
  auto times = timed(repeat, [&] { nodes = joint_of(model).graph.nodes().size(); });
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
  int64_t all = 0;
  for (const Value root : detail::sorted_unique(kept)) all += forward.meta(root).nbytes();
  return {{"saved", kept.size()}, {"bytes_with_inputs", all}, {"new_bytes", residual_bytes(split)}};
}

Reply run_residuals(const std::string& name, const AotOptions& options) {
  const Model model = make_model(name, Fill::kUntouched);
  Reply reply;
  reply.times_ns.push_back(time_ns([&] {
    const Pair pair = pair_of(model, options);
    reply.facts = residual_facts(pair.split);
    reply.facts["backward_nodes"] = pair.backward.nodes().size();
  }));
  return reply;
}

/// The rows of the table of residuals by name.
std::map<std::string, AotOptions> ways_to_save() {
  return {{"default", {}},
          {"min_cut", {.partition = min_cut()}},
          {"min_cut_decomposed", {.partition = min_cut(), .decompositions = {"all"}}},
          {"memory_budget(0.5)", {.partition = memory_budget(0.5)}}};
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
    for (const auto& [way, options] : ways_to_save()) {
      cases["residuals/" + name + "/" + way] = [name, options = options](int) { return run_residuals(name, options); };
    }
  }
  add_call_cases(cases, aot_function(two_elements, {.name = "two_elements"}));
  cases["step/gpt"] = step_of_gpt(default_partition());
  add_scan_cases(cases);
  add_layer_cases(cases, LayerWay::kScan);
  add_checkpoint_cases(cases);
  add_xla_steps(cases);
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
