#include "diptych/backends/xla/xla_backend.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "diptych/backends/xla/lower_graph.h"
#include "diptych/backends/xla/lowering.h"
#include "diptych/backends/xla/pjrt_client.h"
#include "diptych/base/error.h"
#include "diptych/base/switches.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/graph/print.h"
#include "diptych/graph/rewrite.h"
#include "diptych/interpreter/symbols.h"
#include "diptych/ops/decompositions.h"
#include "diptych/passes/decompose.h"

namespace diptych::detail {
namespace {

// Returns a tensor in the order of its memory, contiguous. A tensor that lies as the graph says is not copied.
at::Tensor in_memory_order(const at::Tensor& tensor, const HloSlot& slot) {
  return tensor.permute(slot.order).resolve_conj().resolve_neg().contiguous();
}

// Returns a result, which came in the order of its memory, with the dimensions of the graph's tensor.
at::Tensor from_memory_order(std::shared_ptr<PjrtBuffer> buffer, const HloSlot& slot) {
  std::vector<int64_t> sizes;
  for (const int64_t dim : slot.order) sizes.push_back(slot.sizes[dim]);
  const at::Tensor tensor = PjrtBuffer::to_tensor(std::move(buffer), sizes, slot.dtype);
  return tensor.as_strided(slot.sizes, slot.strides);
}

bool has_lowering(const Graph& graph, const Node& node) { return find_lowering(graph, node) != nullptr; }

// Returns the graph with composite operators as operators that have lowerings.
Graph in_lowered_operators(const Graph& graph) { return decompose(graph, has_lowering); }

// Returns one node as a graph of its own, for the sizes that it was traced with.
Graph alone(const Graph& graph, const Node& node) {
  std::vector<Value> inputs, outputs;
  for_each_operand_value(node, [&](Value value) {
    const bool is_new = std::find(inputs.begin(), inputs.end(), value) == inputs.end();
    if (is_new && graph.info(value).kind != ValueInfo::Kind::kConstant) inputs.push_back(value);
  });
  for (const Value value : node.outputs) {
    if (value) outputs.push_back(value);
  }
  const Graph extracted = extract(graph, "node", inputs, std::vector<Slot>(inputs.size()), outputs,
                                  std::vector<Slot>(outputs.size()));
  return instantiate(extracted, size_symbols(extracted));
}

// A graph without dynamic sizes, compiled.
class StaticProgram {
 public:
  // `graph` holds only operators that have lowerings.
  StaticProgram(const Graph& graph, const std::shared_ptr<const PjrtClient>& client)
      : name_(graph.name()), outputs_(graph.outputs().size()), module_(lower_graph(graph)), client_(client) {
    log(Log::kGraphs, "[xla] graph '{}':\n{}", name_, module_.text);
    program_ = std::make_unique<const PjrtProgram>(client, module_.text);
    module_.text.clear();
    for (const HloSlot& slot : module_.constants) {
      constants_.push_back(PjrtBuffer::from_tensor(client, in_memory_order(graph.constants()[slot.index], slot)));
    }
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i] = origin_of(graph, graph.outputs()[i]);
  }

  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const {
    std::vector<std::shared_ptr<PjrtBuffer>> arguments;
    arguments.reserve(module_.inputs.size() + constants_.size());
    for (const HloSlot& slot : module_.inputs) {
      DIPTYCH_CHECK(inputs[slot.index].defined(), "[xla] input {} of graph '{}' is undefined; pass a tensor", slot.index,
                    name_);
      arguments.push_back(PjrtBuffer::from_tensor(client_, in_memory_order(inputs[slot.index], slot)));
    }
    arguments.insert(arguments.end(), constants_.begin(), constants_.end());
    auto results = program_->run(arguments);
    std::vector<at::Tensor> outputs(outputs_.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs_[i].input >= 0) outputs[i] = inputs[outputs_[i].input];
      if (outputs_[i].constant.defined()) outputs[i] = outputs_[i].constant;
    }
    for (size_t i = 0; i < results.size(); ++i) {
      outputs[module_.outputs[i].index] = from_memory_order(std::move(results[i]), module_.outputs[i]);
    }
    return outputs;
  }

 private:
  // An output that no node makes.
  struct Origin {
    int32_t input = -1;
    at::Tensor constant;
  };
  static Origin origin_of(const Graph& graph, Value value) {
    if (!value) return {};
    const ValueInfo& info = graph.info(value);
    if (info.kind == ValueInfo::Kind::kInput) return {info.index, {}};
    if (info.kind == ValueInfo::Kind::kConstant) return {-1, graph.constants()[info.index]};
    return {};
  }

  std::string name_;
  std::vector<Origin> outputs_;
  HloModule module_;
  std::shared_ptr<const PjrtClient> client_;
  std::unique_ptr<const PjrtProgram> program_;
  std::vector<std::shared_ptr<PjrtBuffer>> constants_;
};

// One program for each set of dynamic sizes.
class XlaExecutable final : public Executable {
 public:
  XlaExecutable(Graph graph, std::shared_ptr<const PjrtClient> client)
      : graph_(std::move(graph)), binder_(graph_), client_(std::move(client)) {
    if (!binder_.has_symbols()) programs_.emplace(std::vector<int64_t>{}, make_program(graph_));
  }

  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    DIPTYCH_CHECK(inputs.size() == graph_.inputs().size(),
                  "[xla] graph '{}' got {} inputs, expected {}; pass one tensor per input slot", graph_.name(),
                  inputs.size(), graph_.inputs().size());
    return program_for(binder_.observe(inputs))->run(std::move(inputs));
  }

 private:
  std::shared_ptr<const StaticProgram> program_for(const std::vector<int64_t>& sizes) const {
    const std::lock_guard lock(mutex_);
    auto& program = programs_[sizes];
    if (program == nullptr) program = make_program(instantiate(graph_, binder_.solve(sizes)));
    return program;
  }

  std::shared_ptr<const StaticProgram> make_program(const Graph& graph) const {
    return std::make_shared<StaticProgram>(in_lowered_operators(graph), client_);
  }

  Graph graph_;
  SymbolBinder binder_;
  std::shared_ptr<const PjrtClient> client_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<int64_t>, std::shared_ptr<const StaticProgram>> programs_;
};

}  // namespace

bool XlaBackend::supports(const Graph& graph, const Node& node) const {
  if (has_lowering(graph, node)) return true;
  if (find_decomposition(node.op) == nullptr) return false;
  const Graph parts = in_lowered_operators(alone(graph, node));
  return std::all_of(parts.nodes().begin(), parts.nodes().end(), [&](const Node& part) { return has_lowering(parts, part); });
}

std::shared_ptr<const Executable> XlaBackend::compile(const Graph& graph) const {
  return std::make_shared<XlaExecutable>(graph, PjrtClient::shared());
}

}  // namespace diptych::detail
