// Note [One task for the whole backward]: for each node the engine saves and restores every thread-local setting, takes
// locks and asks for streams, which costs more than recording the node. So the engine is given one node that owns the
// whole graph below it. The engine finds out what is needed, sets the grad mode and calls that node, which walks the
// graph.
#include "diptych/autodiff/backward_walk.h"

#include <ATen/EmptyTensor.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "diptych/base/check.h"
#include "diptych/trace/custom_function.h"
#include "diptych/trace/node_hooks.h"
#include "diptych/trace/sparse_gradients.h"

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;
using ExecInfo = ag::GraphTask::ExecInfo;

struct ReadyNode {
  c10::intrusive_ptr<ag::Node> node;
  ag::variable_list gradients;
};

// The engine's order: what ran last in the forward comes first.
struct RanEarlier {
  bool operator()(const ReadyNode& a, const ReadyNode& b) const {
    return a.node->sequence_nr() < b.node->sequence_nr();
  }
};

// The engine runs a node whose gradients are on a device on that device's thread, where no trace runs. So what it hands
// to the walk is a tensor on the CPU that nobody reads, and the walk runs on this thread. No operator makes it, since a
// trace runs.
at::Tensor nothing_on_cpu() { return at::Tensor(at::detail::empty_cpu({0}, at::TensorOptions(at::kFloat))); }

/// The node that represents the whole backward.
class Walk final : public ag::Node {
 public:
  Walk(Recorder& recorder, ag::edge_list roots, ag::variable_list gradients, size_t num_wanted, const WalkPart& part)
      : recorder_(recorder),
        part_(part),
        roots_(std::move(roots)),
        gradients_(std::move(gradients)),
        found_(num_wanted) {
    set_next_edges(ag::edge_list(roots_));
    add_input_metadata(nothing_on_cpu());
  }

  ag::variable_list found() { return std::move(found_); }

 private:
  ag::variable_list apply(ag::variable_list&& inputs) override;
  void count_dependencies();
  void pass_on(const ag::edge_list& edges, ag::variable_list gradients);
  void evaluate(ReadyNode ready);
  const ExecInfo* find(const ag::Node* node) const;
  bool is_elsewhere(const ag::Node& node) const {
    return part_.stages.of(&node) > part_.stage || part_.outside.contains(&node);
  }
  bool reads_forward(size_t first_node, const ag::variable_list& results) const;
  void note_host_reads(ag::Node& node);

  Recorder& recorder_;
  const WalkPart& part_;
  ag::edge_list roots_;
  ag::variable_list gradients_;
  ag::variable_list found_;
  const std::unordered_map<ag::Node*, ExecInfo>* exec_info_ = nullptr;
  /// How many gradients a node still waits for, and the sums of those that have arrived.
  struct Waiting {
    size_t missing = 0;
    ag::variable_list gradients;
  };
  std::unordered_map<const ag::Node*, Waiting> waiting_;
  std::priority_queue<ReadyNode, std::vector<ReadyNode>, RanEarlier> ready_;
};

// Returns null for a node that leads to nothing wanted.
const ExecInfo* Walk::find(const ag::Node* node) const {
  const auto found = exec_info_->find(const_cast<ag::Node*>(node));
  return found == exec_info_->end() || !found->second.should_execute() ? nullptr : &found->second;
}

void Walk::count_dependencies() {
  std::vector<const ag::Node*> open;
  const auto count = [&](const ag::edge_list& edges) {
    for (const ag::Edge& edge : edges) {
      if (edge.is_valid() && waiting_[edge.function.get()].missing++ == 0) open.push_back(edge.function.get());
    }
  };
  count(roots_);
  while (!open.empty()) {
    const ag::Node* node = open.back();
    open.pop_back();
    const ExecInfo* info = find(node);
    if (info != nullptr && info->needed_ && !is_elsewhere(*node)) count(node->next_edges());
  }
}

void add(at::Tensor& sum, at::Tensor gradient) {
  if (!gradient.defined()) return;
  sum = sum.defined() ? add_gradients(sum, gradient) : std::move(gradient);
}

// Hands each gradient to the node that its edge leads to; the node is ready when its last one has come.
void Walk::pass_on(const ag::edge_list& edges, ag::variable_list gradients) {
  for (size_t i = 0; i < edges.size(); ++i) {
    const ag::Edge& next = edges[i];
    if (!next.is_valid()) continue;
    Waiting& waiting = waiting_.at(next.function.get());
    const bool is_ready = --waiting.missing == 0;
    if (find(next.function.get()) == nullptr) continue;
    if (waiting.gradients.empty()) waiting.gradients.resize(next.function->num_inputs());
    add(waiting.gradients.at(next.input_nr), std::move(gradients[i]));
    if (is_ready) ready_.push({next.function, std::move(waiting.gradients)});
  }
}

// Gives an eigendecomposition zeros for gradients that are undefined. Eigenvectors are known up to a phase, and the
// derivative of one part of a loss alone may depend on it. LibTorch's formula replaces that part of the vectors'
// gradient by the eigenvalues' gradient if there is one: with zeros for a missing one, the gradients of parts add up to
// that of the whole. The engine adds gradients before the formula; in a backward that is differentiated again, parts
// arrive by different ways.
void complete_gradients(const ag::Node& node, ag::variable_list& gradients) {
  const std::string name = node.name();
  if (name != "LinalgEigBackward0" && name != "LinalgEighBackward0") return;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = node.input_metadata(i).zeros_like();
  }
}

// Whether the nodes from `first_node` on read a value of the forward, or one of `results` is such a value.
bool Walk::reads_forward(size_t first_node, const ag::variable_list& results) const {
  const Graph& graph = recorder_.graph();
  const auto is_forwards = [&](Value value) {
    if (!value) return false;
    const auto& info = graph.info(value);
    if (info.kind == ValueInfo::Kind::kInput) return graph.input_slots()[info.index].kind != SlotKind::kTangent;
    return info.kind == ValueInfo::Kind::kNode &&
           graph.nodes()[static_cast<size_t>(info.node)].provenance.phase == Phase::kForward;
  };
  bool reads = false;
  for (size_t i = first_node; i < graph.nodes().size() && !reads; ++i) {
    for_each_operand_value(graph.nodes()[i], [&](Value value) { reads = reads || is_forwards(value); });
  }
  return reads || std::any_of(results.begin(), results.end(), [&](const at::Tensor& result) {
           const FakeTensorImpl* fake = result.defined() ? as_fake(result) : nullptr;
           return fake != nullptr && recorder_.owns(result) && is_forwards(fake->value);
         });
}

void Walk::note_host_reads(ag::Node& node) {
  if (host_reads_of == nullptr || part_.host_reads.contains(node.sequence_nr())) return;
  if (!has_hooks(node) && !is_python_function(node)) return;
  if (auto reads = host_reads_of(node)) part_.host_reads.emplace(node.sequence_nr(), std::move(reads));
}

void Walk::evaluate(ReadyNode ready) {
  ag::Node& node = *ready.node;
  const ExecInfo& info = *find(&node);
  const bool runs = !is_elsewhere(node);
  auto inputs = runs ? hooked(node.tensor_pre_hooks(), std::move(ready.gradients)) : std::move(ready.gradients);
  if (runs) {
    for (const auto& [output, hook] : node.retains_grad_hooks()) inputs = (*hook)(inputs);
    note_host_reads(node);
  }
  if (info.captures_) {
    for (const auto& capture : *info.captures_) found_[capture.output_idx_] = inputs[capture.input_idx_];
  }
  if (!info.needed_ || !runs) return;
  inputs = hooked(node.pre_hooks(), std::move(inputs));
  recorder_.provenance().set_backward_of(node.sequence_nr());
  const ag::variable_list kept = node.post_hooks().empty() ? ag::variable_list() : inputs;
  complete_gradients(node, inputs);
  const size_t first_node = recorder_.graph().nodes().size();
  ag::variable_list outputs = node(std::move(inputs));
  if (reads_forward(first_node, outputs)) part_.saving.insert(&node);
  validate_outputs_of(node, node.next_edges(), outputs);
  for (const auto& hook : node.post_hooks()) outputs = (*hook)(outputs, kept);
  pass_on(node.next_edges(), std::move(outputs));
}

ag::variable_list Walk::apply(ag::variable_list&& /*inputs*/) {
  exec_info_ = ag::get_current_graph_task_exec_info();
  DIPTYCH_ASSERT(exec_info_ != nullptr, "autograd's engine does not report what a backward needs");
  count_dependencies();
  pass_on(roots_, std::move(gradients_));
  while (!ready_.empty()) {
    ReadyNode next = std::move(const_cast<ReadyNode&>(ready_.top()));
    ready_.pop();
    evaluate(std::move(next));
  }
  // The engine has nothing left to do.
  set_next_edges({});
  return {};
}

}  // namespace

ag::variable_list walk_backward(Recorder& recorder, const ag::edge_list& roots, ag::variable_list gradients,
                                bool create_graph, const ag::edge_list& wanted, const WalkPart& part) {
  ag::validate_outputs(roots, gradients, [](const std::string& problem) { return problem; });
  const auto walk = c10::make_intrusive<Walk>(recorder, roots, std::move(gradients), wanted.size(), part);
  ag::Engine::get_default_engine().execute({ag::Edge(walk, 0)}, {nothing_on_cpu()}, /*keep_graph=*/true, create_graph,
                                           /*accumulate_grad=*/false, wanted);
  return walk->found();
}

}  // namespace diptych::detail
