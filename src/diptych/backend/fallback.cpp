#include "diptych/backend/fallback.h"

#include <algorithm>

#include "diptych/backend/interpreter_backend.h"
#include "diptych/base/check.h"
#include "diptych/base/log.h"
#include "diptych/graph/print.h"
#include "diptych/graph/rewrite.h"

namespace diptych::detail {
namespace {

// Nodes [begin, end) of a graph, all taken by the backend or all not.
struct Part {
  size_t begin, end;
  bool is_supported;
};

bool has_operands(const Node& node) {
  bool any = false;
  for_each_operand_value(node, [&](Value) { any = true; });
  return any;
}

// Returns by node whether the backend runs it. A tensor that is made of nothing, for the interpreter's nodes alone, is
// made by the interpreter: it would be a program of its own.
std::vector<bool> find_supported(const Backend& backend, const Graph& graph) {
  std::vector<bool> is_supported(graph.nodes().size()), is_read(graph.num_values()), is_needed(graph.num_values());
  for (const Value output : graph.outputs()) {
    if (output) is_needed[output.id] = true;
  }
  for (size_t i = is_supported.size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    is_supported[i] = backend.supports(graph, node);
    const auto is_marked = [&](const std::vector<bool>& marks) {
      return std::any_of(node.outputs.begin(), node.outputs.end(),
                         [&](Value output) { return output && marks[output.id]; });
    };
    if (is_marked(is_read) && !is_marked(is_needed) && !has_operands(node)) is_supported[i] = false;
    for_each_operand_value(node, [&](Value value) { (is_supported[i] ? is_needed : is_read)[value.id] = true; });
  }
  return is_supported;
}

std::vector<Part> split(const Backend& backend, const Graph& graph) {
  std::vector<Part> parts;
  const auto supported = find_supported(backend, graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const bool is_supported = supported[i];
    if (parts.empty() || parts.back().is_supported != is_supported) parts.push_back({i, i, is_supported});
    parts.back().end = i + 1;
  }
  return parts;
}

// One part made ready, with the values that it takes and returns by their number in the whole graph.
struct Stage {
  std::shared_ptr<const Executable> executable;
  std::vector<int32_t> inputs;
  std::vector<bool> is_last;  // by input: whether it is moved
  std::vector<int32_t> outputs;
};

class StagedExecutable final : public Executable {
 public:
  StagedExecutable(const Graph& graph, std::vector<Stage> stages, std::vector<FallbackNode> fallback)
      : graph_name_(graph.name()),
        num_values_(graph.num_values()),
        inputs_(graph.inputs()),
        outputs_(graph.outputs()),
        stages_(std::move(stages)),
        fallback_(std::move(fallback)) {
    for (size_t id = 0; id < num_values_; ++id) {
      const auto& info = graph.info(Value{static_cast<int32_t>(id)});
      if (info.kind == ValueInfo::Kind::kConstant) constants_.emplace_back(id, graph.constants()[info.index]);
    }
    drop_unused_inputs();
  }

  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    DIPTYCH_CHECK(inputs.size() == inputs_.size(),
                  "[backend] graph '{}' got {} inputs, expected {}; pass one tensor per input slot", graph_name_,
                  inputs.size(), inputs_.size());
    std::vector<at::Tensor> values(num_values_);
    for (const auto& [id, constant] : constants_) values[id] = constant;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (is_used_input_[i]) values[inputs_[i].id] = std::move(inputs[i]);
    }
    inputs.clear();
    for (const Stage& stage : stages_) run_stage(stage, values);
    std::vector<at::Tensor> outputs;
    outputs.reserve(outputs_.size());
    for (const Value value : outputs_) outputs.push_back(value ? values[value.id] : at::Tensor());
    return outputs;
  }

  std::vector<std::shared_ptr<const Executable>> parts() const override {
    std::vector<std::shared_ptr<const Executable>> parts;
    for (const Stage& stage : stages_) parts.push_back(stage.executable);
    return parts;
  }

  const std::vector<FallbackNode>& fallback() const { return fallback_; }

 private:
  static void run_stage(const Stage& stage, std::vector<at::Tensor>& values) {
    std::vector<at::Tensor> arguments;
    arguments.reserve(stage.inputs.size());
    for (size_t i = 0; i < stage.inputs.size(); ++i) {
      auto& value = values[stage.inputs[i]];
      arguments.push_back(stage.is_last[i] ? std::move(value) : value);
    }
    auto results = stage.executable->run(std::move(arguments));
    DIPTYCH_CHECK(results.size() == stage.outputs.size(),
                  "[backend] a part returned {} outputs, expected {}; a compiler must return what the graph says",
                  results.size(), stage.outputs.size());
    for (size_t i = 0; i < results.size(); ++i) values[stage.outputs[i]] = std::move(results[i]);
  }

  void drop_unused_inputs() {
    is_used_input_.assign(inputs_.size(), false);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const auto uses = [&](const Stage& stage) {
        return std::find(stage.inputs.begin(), stage.inputs.end(), inputs_[i].id) != stage.inputs.end();
      };
      const bool is_output = std::find(outputs_.begin(), outputs_.end(), inputs_[i]) != outputs_.end();
      is_used_input_[i] = is_output || std::any_of(stages_.begin(), stages_.end(), uses);
    }
  }

  std::string graph_name_;
  size_t num_values_;
  std::vector<Value> inputs_, outputs_;
  std::vector<std::pair<size_t, at::Tensor>> constants_;
  std::vector<bool> is_used_input_;
  std::vector<Stage> stages_;
  std::vector<FallbackNode> fallback_;
};

// Which values cross the borders of the parts.
class Borders {
 public:
  explicit Borders(const Graph& graph) : graph_(graph), last_use_(graph.num_values(), -1) {
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      for_each_operand_value(graph.nodes()[i], [&](Value value) { last_use_[value.id] = static_cast<int64_t>(i); });
    }
    for (const Value value : graph.outputs()) {
      if (value) last_use_[value.id] = static_cast<int64_t>(graph.nodes().size());
    }
  }

  // Values that the part reads and does not make; constants go into the part's own graph.
  std::vector<Value> inputs(const Part& part) const {
    std::vector<bool> seen(graph_.num_values(), false);
    std::vector<Value> inputs;
    for (size_t i = part.begin; i < part.end; ++i) {
      for_each_operand_value(graph_.nodes()[i], [&](Value value) {
        if (!seen[value.id] && graph_.info(value).kind != ValueInfo::Kind::kConstant) inputs.push_back(value);
        seen[value.id] = true;
      });
      for (const Value value : graph_.nodes()[i].outputs) {
        if (value) seen[value.id] = true;
      }
    }
    return inputs;
  }

  // Values that the part makes and something after it reads.
  std::vector<Value> outputs(const Part& part) const {
    std::vector<Value> outputs;
    for (size_t i = part.begin; i < part.end; ++i) {
      for (const Value value : graph_.nodes()[i].outputs) {
        if (value && last_use_[value.id] >= static_cast<int64_t>(part.end)) outputs.push_back(value);
      }
    }
    return outputs;
  }

  bool is_last(Value value, const Part& part) const {
    return last_use_[value.id] >= 0 && last_use_[value.id] < static_cast<int64_t>(part.end);
  }

 private:
  const Graph& graph_;
  std::vector<int64_t> last_use_;
};

std::vector<Slot> name_slots(const std::vector<Value>& values, SlotKind kind) {
  std::vector<Slot> slots;
  for (const Value value : values) slots.push_back({kind, fmt::format("%{}", value.id)});
  return slots;
}

Graph cut_out(const Graph& graph, const Part& part, const std::vector<Value>& inputs,
              const std::vector<Value>& outputs) {
  std::vector<size_t> nodes;
  for (size_t i = part.begin; i < part.end; ++i) nodes.push_back(i);
  return extract(graph, fmt::format("{}.nodes_{}_to_{}", graph.name(), part.begin, part.end - 1), inputs,
                 name_slots(inputs, SlotKind::kArgument), outputs, name_slots(outputs, SlotKind::kOutput), nodes);
}

Stage make_stage(const Backend& backend, const Graph& graph, const Borders& borders, const Part& part) {
  const auto inputs = borders.inputs(part);
  const auto outputs = borders.outputs(part);
  const Graph piece = cut_out(graph, part, inputs, outputs);
  Stage stage;
  stage.executable = part.is_supported ? backend.compile(piece) : InterpreterBackend().compile(piece);
  DIPTYCH_CHECK(stage.executable != nullptr,
                "[backend {}] returned no executable for graph '{}'; a compiler must return one", backend.name(),
                piece.name());
  for (const Value value : inputs) {
    stage.inputs.push_back(value.id);
    stage.is_last.push_back(borders.is_last(value, part));
  }
  for (const Value value : outputs) stage.outputs.push_back(value.id);
  return stage;
}

std::vector<FallbackNode> report(const Backend& backend, const Graph& graph, const std::vector<Part>& parts) {
  std::vector<FallbackNode> fallback;
  for (const Part& part : parts) {
    if (part.is_supported) continue;
    for (size_t i = part.begin; i < part.end; ++i) {
      if (backend.supports(graph, graph.nodes()[i])) continue;
      fallback.push_back({i, node_line(graph, graph.nodes()[i])});
      log(Log::kGraphs, "[backend {}] the interpreter runs node {} of graph '{}': {}", backend.name(), i, graph.name(),
          fallback.back().text);
    }
  }
  return fallback;
}

std::shared_ptr<const Executable> compile_whole(const Backend& backend, const Graph& graph) {
  auto executable = backend.compile(graph);
  DIPTYCH_CHECK(executable != nullptr, "[backend {}] returned no executable for graph '{}'; a compiler must return one",
                backend.name(), graph.name());
  return executable;
}

}  // namespace

std::shared_ptr<const Executable> compile_with_fallback(const Backend& backend, const Graph& original) {
  if (backend.takes_whole(original)) return compile_whole(backend, original);
  const Graph graph = backend.prepare(original);
  const auto parts = split(backend, graph);
  const bool is_whole = std::all_of(parts.begin(), parts.end(), [](const Part& part) { return part.is_supported; });
  if (is_whole) return compile_whole(backend, graph);
  const Borders borders(graph);
  std::vector<Stage> stages;
  for (const Part& part : parts) stages.push_back(make_stage(backend, graph, borders, part));
  return std::make_shared<StagedExecutable>(graph, std::move(stages), report(backend, graph, parts));
}

std::vector<FallbackNode> fallback_nodes(const Executable& executable) {
  const auto* staged = dynamic_cast<const StagedExecutable*>(&executable);
  return staged == nullptr ? std::vector<FallbackNode>{} : staged->fallback();
}

}  // namespace diptych::detail
