#include "diptych/xla/shared_results.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>

#include "diptych/base/error.h"
#include "diptych/graph/rewrite.h"
#include "diptych/interpreter/program.h"
#include "diptych/passes/storage_roots.h"

namespace diptych::detail {
namespace {

bool is_input(const Graph& graph, Value value) { return graph.info(value).kind == ValueInfo::Kind::kInput; }

// By output, the base of which it is taken after the program; none for what the program returns.
std::vector<Value> find_bases(const Graph& graph) {
  const auto roots = storage_roots(graph);
  std::map<Value, size_t> uses;
  for (const Value output : graph.outputs()) {
    if (output) ++uses[roots[output.id]];
  }
  std::vector<Value> bases;
  for (const Value output : graph.outputs()) {
    const Value root = output ? roots[output.id] : Value{};
    const bool is_made = output && graph.info(output).kind == ValueInfo::Kind::kNode;
    const bool is_shared = is_made && (uses[root] > 1 || !(root == output)) &&
                           (uses[root] > 1 || graph.info(root).kind != ValueInfo::Kind::kNode);
    bases.push_back(is_shared ? root : Value{});
  }
  return bases;
}

class SharedResults final : public Executable {
 public:
  SharedResults(const Graph& graph, const std::vector<Value>& bases,
                const std::function<std::shared_ptr<const Executable>(const Graph&)>& compile)
      : num_outputs_(graph.outputs().size()) {
    Graph program = graph;
    std::vector<Value> returned, taken;
    std::vector<Slot> slots, base_slots, view_slots;
    for (size_t i = 0; i < num_outputs_; ++i) {
      if (bases[i]) {
        views_.push_back(i);
        taken.push_back(graph.outputs()[i]);
        view_slots.push_back(graph.output_slots()[i]);
      } else {
        plain_.push_back(i);
        returned.push_back(graph.outputs()[i]);
        slots.push_back(graph.output_slots()[i]);
      }
    }
    const auto distinct = add_bases(graph, bases, returned, slots);
    base_slots.resize(distinct.size(), {SlotKind::kArgument, "base"});
    taken_ = std::make_unique<const Program>(
        extract(graph, graph.name() + ".views", distinct, std::move(base_slots), taken, std::move(view_slots)));
    program.set_outputs(std::move(returned), std::move(slots));
    std::vector<Slot> input_slots = program.input_slots();
    program_ = compile(extract(program, graph.name(), program.inputs(), std::move(input_slots), program.outputs(),
                               program.output_slots()));
  }

  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    std::vector<at::Tensor> bases;
    for (const Base& base : bases_) bases.push_back(base.is_input ? inputs[base.index] : at::Tensor());
    auto results = program_->run(std::move(inputs));
    for (size_t i = 0; i < bases_.size(); ++i) {
      if (!bases_[i].is_input) bases[i] = results[bases_[i].index];
    }
    auto taken = taken_->run(std::move(bases));
    std::vector<at::Tensor> outputs(num_outputs_);
    for (size_t i = 0; i < plain_.size(); ++i) outputs[plain_[i]] = std::move(results[i]);
    for (size_t i = 0; i < views_.size(); ++i) outputs[views_[i]] = std::move(taken[i]);
    return outputs;
  }

 private:
  struct Base {
    bool is_input = false;
    size_t index = 0;  // of the input, or of the program's result
  };

  // Has the program return the bases that it makes; returns all bases, each once.
  std::vector<Value> add_bases(const Graph& graph, const std::vector<Value>& bases, std::vector<Value>& returned,
                               std::vector<Slot>& slots) {
    std::vector<Value> distinct;
    for (const Value base : bases) {
      if (!base || std::find(distinct.begin(), distinct.end(), base) != distinct.end()) continue;
      const ValueInfo& info = graph.info(base);
      if (info.kind == ValueInfo::Kind::kConstant) continue;  // part of the views' graph
      distinct.push_back(base);
      if (is_input(graph, base)) {
        bases_.push_back({true, static_cast<size_t>(info.index)});
        continue;
      }
      bases_.push_back({false, returned.size()});
      returned.push_back(base);
      slots.push_back({SlotKind::kOutput, fmt::format("base.{}", base.id)});
    }
    return distinct;
  }

  size_t num_outputs_;
  std::vector<size_t> plain_, views_;  // outputs by number
  std::vector<Base> bases_;
  std::shared_ptr<const Executable> program_;
  std::unique_ptr<const Program> taken_;
};

}  // namespace

std::shared_ptr<const Executable> compile_shared_results(
    const Graph& graph, const std::function<std::shared_ptr<const Executable>(const Graph&)>& compile) {
  const auto bases = find_bases(graph);
  const bool any = std::any_of(bases.begin(), bases.end(), [](Value base) { return static_cast<bool>(base); });
  return any ? std::make_shared<SharedResults>(graph, bases, compile) : compile(graph);
}

}  // namespace diptych::detail
