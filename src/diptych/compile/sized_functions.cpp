#include "diptych/compile/sized_functions.h"

#include <fmt/ranges.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/variable.h>

#include "diptych/base/check.h"
#include "diptych/base/error_words.h"
#include "diptych/base/log.h"
#include "diptych/compile/value_path.h"
#include "diptych/graph/map_sizes.h"
#include "diptych/interpreter/evaluate.h"
#include "diptych/interpreter/sizes_input.h"
#include "diptych/interpreter/symbols.h"
#include "diptych/passes/remove_dead_nodes.h"
#include "diptych/trace/hollow_tensor.h"
#include "diptych/trace/memory_overlap.h"

namespace diptych::detail {
namespace {

// Returns a tensor of other sizes with which the function can be traced in place of an argument.
at::Tensor stand_in_for(const at::Tensor& argument, at::IntArrayRef sizes, at::IntArrayRef strides) {
  at::Tensor hollow = detail::hollow_like(argument, sizes, strides);
  if (argument.is_leaf()) return hollow;
  hollow = hollow.detach();
  const auto history = c10::make_intrusive<torch::autograd::Error>("a stand-in has no backward");
  torch::autograd::impl::set_gradient_edge(hollow, {history, history->add_input_metadata(hollow)});
  return hollow;
}

/// The arguments of a call as they would be at other sizes.
class SizedArguments {
 public:
  SizedArguments(const SizePattern& pattern, const TensorGuards& guards, const std::vector<at::Tensor>& arguments)
      : pattern_(pattern), guards_(guards), arguments_(arguments) {}

  /// Whether free variables keep their sizes, and arguments of changing sizes share their storage with no other.
  bool can_change(size_t num_tensors, std::string& why) const {
    for (size_t i = 0; i < num_tensors; ++i) {
      if (!changes(i)) continue;
      if (i >= arguments_.size()) why = fmt::format("free variable {} changes its sizes", i - arguments_.size());
      if (i < arguments_.size() && shares(i)) why = fmt::format("argument {} shares its storage with another", i);
    }
    return why.empty();
  }

  std::vector<at::Tensor> at(const SymbolValues& symbols) const {
    const auto geometry = pattern_.at(symbols);
    std::map<const c10::TensorImpl*, at::Tensor> made;
    std::vector<at::Tensor> sized = arguments_;
    for (size_t i = 0; i < sized.size(); ++i) {
      if (!changes(i)) continue;
      const auto dim = static_cast<size_t>(arguments_[i].dim());
      const int64_t* place = geometry.data() + guards_.place_of(i);
      at::Tensor& one = made[arguments_[i].unsafeGetTensorImpl()];
      if (!one.defined()) one = stand_in_for(arguments_[i], {place, dim}, {place + dim, dim});
      sized[i] = one;
    }
    return sized;
  }

 private:
  bool changes(size_t tensor) const {
    const size_t begin = guards_.place_of(tensor);
    const size_t end = tensor + 1 < guards_.size() ? guards_.place_of(tensor + 1) : guards_.geometry().size();
    for (size_t i = begin; i < end; ++i) {
      if (pattern_.is_dynamic(i)) return true;
    }
    return false;
  }

  bool shares(size_t index) const {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const bool is_other = !arguments_[i].is_same(arguments_[index]);
      if (is_other && detail::may_share_memory(arguments_[i], arguments_[index])) return true;
    }
    return false;
  }

  const SizePattern& pattern_;
  const TensorGuards& guards_;
  const std::vector<at::Tensor>& arguments_;
};

// But for graph and answer.
bool same_question(const ValueQuestion& a, const ValueQuestion& b) {
  return a.question == b.question && a.inputs == b.inputs;
}

bool same_questions(const std::vector<ValueQuestion>& a, const std::vector<ValueQuestion>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_question);
}

bool same_captures(const CapturedFunction& a, const CapturedFunction& b) {
  return a.plan().structure() == b.plan().structure() && a.traceable_tangents() == b.traceable_tangents() &&
         a.reads_same(b);
}

// The questions come last.
std::vector<Graph> graphs_of(const CapturedFunction& function) {
  std::vector<Graph> graphs{function.forward(), function.epilogue(), function.traced_graph(), function.handed_on()};
  if (function.is_differentiable()) {
    graphs.push_back(function.backward(function.traceable_tangents(), function.simplify()));
  }
  for (const ValueQuestion& asked : function.questions()) graphs.push_back(asked.graph);
  return graphs;
}

}  // namespace

std::shared_ptr<const SizedFunctions> SizedFunctions::make(const SizePattern& pattern, const TensorGuards& guards,
                                                           const std::vector<at::Tensor>& arguments,
                                                           const CaptureAt& capture,
                                                           std::shared_ptr<CapturedFunction> own, SizeTrust trust,
                                                           std::string& why) {
  const SizedArguments sized(pattern, guards, arguments);
  if (!sized.can_change(guards.size(), why)) return nullptr;
  std::map<SymbolValues, std::shared_ptr<CapturedFunction>> captured;
  const SymbolValues actual = *pattern.match(guards.geometry());
  CaptureMode mode = CaptureExtent::kGraphs;
  if (own) mode.answers = &own->answers();
  if (own) captured.emplace(actual, own);
  const TraceAt trace = [&](const SymbolValues& symbols) -> std::optional<std::vector<Graph>> {
    try {
      auto& known = captured[symbols];
      if (!known) known = capture(sized.at(symbols), mode);
      if (!known || !same_captures(*known, *captured.at(actual))) return std::nullopt;
      if (!same_questions(known->questions(), captured.at(actual)->questions())) return std::nullopt;
      return graphs_of(*known);
    } catch (const std::exception& error) {
      log(Log::kCache, "no capture at {}: {}", fmt::join(symbols, ", "), detail::words_of(error));
      return std::nullopt;
    }
  };
  auto general = generalize_sizes(pattern, actual, trace, trust, why);
  if (!general) return nullptr;
  auto functions = std::make_shared<SizedFunctions>();
  functions->pattern_ = std::move(general->pattern);
  functions->points_ = std::move(general->points);
  for (const SymbolValues& point : functions->points_) functions->members_.push_back(captured.at(point));
  for (size_t i = 0; i < functions->points_.size(); ++i) functions->keep(functions->members_[i], functions->points_[i]);
  functions->forward_ = functions->with_sizes(std::move(general->graphs[0]));
  functions->epilogue_ = std::move(general->graphs[1]);
  functions->traced_ = std::move(general->graphs[2]);
  functions->handed_on_ = std::move(general->graphs[3]);
  functions->questions_ = functions->captured().questions();
  const size_t num_others = general->graphs.size() - functions->questions_.size();
  for (size_t i = 0; i < functions->questions_.size(); ++i)
    functions->questions_[i].graph = std::move(general->graphs[num_others + i]);
  if (num_others > 4) {
    // These are the last tangents of the backward.
    const Graph& backward = general->graphs[4];
    const size_t num_hidden = functions->captured().plan().hidden.size();
    for (size_t i = backward.inputs().size() - num_hidden; i < backward.inputs().size(); ++i) {
      functions->hidden_metas_.push_back(backward.meta(backward.inputs()[i]));
    }
  }
  std::vector<const Graph*> run{&functions->forward_, &functions->epilogue_, &functions->handed_on_};
  for (const ValueQuestion& asked : functions->questions_) run.push_back(&asked.graph);
  for (const Graph* graph : run) {
    if (const auto open = SymbolBinder(*graph).open_symbol()) {
      why = fmt::format("{} does not follow from the sizes of the inputs of graph '{}'", *open, graph->name());
      return nullptr;
    }
  }
  return functions;
}

std::optional<bool> SizedFunctions::agrees(const CapturedFunction& trace, const SymbolValues& symbols) const {
  const auto named = pattern_.named(symbols);
  const auto& asked = trace.questions();
  for (size_t i = 0; i < std::min(asked.size(), questions_.size()); ++i) {
    if (!same_question(asked[i], questions_[i])) return false;
    if (!is_instance(questions_[i].graph, named, asked[i].graph)) return false;
    if (!same_answer(asked[i].question, asked[i].answer, questions_[i].answer)) return std::nullopt;
  }
  return asked.size() == questions_.size() && same_captures(trace, captured()) &&
         is_instance(traced_, named, trace.traced_graph()) && is_instance(epilogue_, named, trace.plan().epilogue);
}

void SizedFunctions::keep(std::shared_ptr<const CapturedFunction> trace, const SymbolValues& symbols) const {
  constexpr size_t kMost = 64;
  const auto& plan = trace->plan();
  if (!trace->is_differentiable() || !(plan.has_custom_function || plan.hides_history)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  kept_.push_back({symbols, std::move(trace)});
  if (kept_.size() > kMost) kept_.pop_front();
}

std::shared_ptr<const GraphSource> SizedFunctions::at(c10::IntArrayRef sizes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Kept& one : kept_) {
    if (std::equal(sizes.begin(), sizes.end(), one.symbols.begin())) return one.trace;
  }
  return nullptr;
}

// Makes the forward return the sizes after its other residuals.
Graph SizedFunctions::with_sizes(Graph forward) const {
  const auto fold = [](const Graph& graph) { return remove_dead_nodes(fold_constants(graph, evaluate)); };
  if (!captured().is_differentiable()) return fold(forward);
  TensorMeta meta = detail::sizes_meta(pattern_.num_symbols(), points_[0]);
  const c10::IValue none;
  Node node{Op::find("aten.empty.memory_format"), {}, {}, {-1}, {}, {}};
  node.operands = {meta.sizes, c10::IValue(meta.dtype), none, c10::IValue(meta.device), none, none};
  auto outputs = forward.outputs();
  auto slots = forward.output_slots();
  const size_t index = forward.add_node(std::move(node), {meta});
  outputs.push_back(forward.nodes()[index].outputs[0]);
  slots.push_back({SlotKind::kResidual, "sizes"});
  forward.set_outputs(std::move(outputs), std::move(slots));
  return fold(forward);
}

Graph SizedFunctions::unify(const std::function<Graph(CapturedFunction&)>& graph_of, const char* what) const {
  std::vector<Graph> graphs;
  for (const auto& member : members_) graphs.push_back(graph_of(*member));
  std::string why;
  auto unified = unify_sizes(graphs, points_, pattern_.num_symbols(), &why);
  DIPTYCH_CHECK(unified.has_value(),
                "[{}] the graphs of its {} differ with its sizes ({}), though those of its forward do not; set "
                "AotOptions::dynamic to false",
                captured().options().name, what, why);
  return std::move(*unified);
}

std::optional<Value> SizedFunctions::add_sizes(Graph& graph, SlotKind kind) const {
  return graph.add_input(detail::sizes_meta(pattern_.num_symbols(), points_[0]), {kind, "sizes"});
}

Graph SizedFunctions::backward(const std::vector<bool>& defined, const SimplifyOptions& simplify) const {
  Graph graph =
      unify([&](CapturedFunction& member) { return member.backward(defined, member.simplify()); }, "backward");
  add_sizes(graph, SlotKind::kResidual);
  std::vector<size_t> order;
  for (const auto kind : {SlotKind::kResidual, SlotKind::kTangent}) {
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      if (graph.input_slots()[i].kind == kind) order.push_back(i);
    }
  }
  graph.order_inputs(order);
  return simplify.fold_constants ? remove_dead_nodes(fold_constants(graph, evaluate)) : graph;
}

Joint SizedFunctions::joint(const std::vector<bool>& defined) const {
  // Each member is asked once, since its trace grows with each joint graph.
  JointLayout layout;
  Graph graph = unify(
      [&](CapturedFunction& member) {
        Joint joint = member.joint(defined);
        layout = joint.layout;
        return std::move(joint.graph);
      },
      "second derivative");
  return {std::move(graph), layout};
}

}  // namespace diptych::detail
