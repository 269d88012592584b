#include "diptych/hops/hop.h"

#include <ATen/ops/clone.h>

#include <algorithm>
#include <numeric>

#include "diptych/base/check.h"
#include "diptych/base/list.h"
#include "diptych/hops/call.h"
#include "diptych/hops/strides.h"
#include "diptych/interpreter/hop_rules.h"
#include "diptych/ops/hop_schemas.h"
#include "diptych/scan_passes/pipeline.h"
#include "diptych/scan_passes/scan_edit.h"

namespace diptych {

using namespace detail;
namespace {

// The operators by schema; a program has a handful.
struct Registry {
  std::mutex mutex;
  std::vector<const HigherOrderOperator*> operators;
};

Registry& registry() {
  static auto* const kept = new Registry;
  return *kept;
}

const HigherOrderOperator& operator_of(const HopSchema& schema) {
  const std::lock_guard lock(registry().mutex);
  for (const auto* op : registry().operators) {
    if (&op->schema() == &schema) return *op;
  }
  throw UserError(
      fmt::format("[hops] hop.{} has no registered rules; call register_hop() with its operator first", schema.name()));
}

std::vector<at::Tensor> tensors_of(std::vector<c10::IValue>&& operands) {
  std::vector<at::Tensor> tensors;
  for (auto& operand : operands) {
    if (operand.isTensor()) {
      tensors.push_back(std::move(operand).toTensor());
    } else if (operand.isTensorList()) {
      for (const at::Tensor& tensor : operand.toTensorList()) tensors.push_back(tensor);
    } else {
      continue;
    }
    operand = c10::IValue();  // a kernel may write over a tensor that nobody else holds
  }
  return tensors;
}

// The interpreter's rule of every higher-order operator.
HopKernel make_kernel(const Node& node) {
  return [hop = Hop::of(node)](std::vector<c10::IValue>&& operands, const RunOptions& options) {
    auto tensors = tensors_of(std::move(operands));
    return options.differentiable ? call(hop, std::move(tensors)) : hop->kernel()(std::move(tensors));
  };
}

Graph one_node_graph(const Hop& hop, const std::vector<TensorMeta>& operands, size_t num_returned) {
  Graph graph("hop");
  std::vector<Value> inputs;
  for (const TensorMeta& operand : operands) {
    inputs.push_back(graph.add_input(operand, {SlotKind::kArgument, fmt::format("operand.{}", inputs.size())}));
  }
  Node node = hop.node(inputs);
  node.returns.assign(hop.num_results(), -1);
  graph.add_node(std::move(node), {hop.results().begin(), hop.results().end()});
  std::vector<Slot> slots;
  for (size_t i = 0; i < hop.num_results(); ++i) {
    const auto kind = i < num_returned ? SlotKind::kOutput : SlotKind::kResidual;
    slots.push_back({kind, fmt::format("result.{}", i)});
  }
  const auto& outputs = graph.nodes().back().outputs;
  graph.set_outputs({outputs.begin(), outputs.end()}, std::move(slots));
  return graph;
}

bool shares_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.has_storage() && b.has_storage() && a.storage().is_alias_of(b.storage());
}

// Makes a residual share the version counter of the owner whose memory it shares: writing to one then counts as writing
// to the other, and a backward that reads it reports the change.
void share_versions(const std::vector<at::Tensor>& owners, size_t num_owners, const at::Tensor& residual) {
  for (size_t i = 0; i < num_owners; ++i) {
    if (!shares_memory(owners[i], residual) || owners[i].is_inference() || residual.is_inference()) continue;
    residual.unsafeGetTensorImpl()->set_version_counter(owners[i].unsafeGetTensorImpl()->version_counter());
    return;
  }
}

}  // namespace

size_t Derivative::first_residual(const Hop& hop) const { return hop.num_results(); }

HigherOrderOperator::HigherOrderOperator(std::string_view declaration, std::vector<std::string> bodies)
    : schema_(add_hop_schema(declaration, std::move(bodies))) {}

std::unique_ptr<Derivative> HigherOrderOperator::differentiate(const Hop&, const std::vector<bool>&, bool) const {
  throw UserError(fmt::format("[{}] hop.{} has no derivative; implement its operator's differentiate()",
                              schema_->name(), schema_->name()));
}

HigherOrderOperator::LiftedDraws HigherOrderOperator::lift_draws(const Hop& hop) const {
  throw UserError(
      fmt::format("[{}] the body draws random numbers and gradients flow through it, which hop.{} does not support; "
                  "draw outside and pass the numbers in",
                  schema_->name(), schema_->name()));
}

void register_hop(const HigherOrderOperator& op) {
  {
    const std::lock_guard lock(registry().mutex);
    auto& known = registry().operators;
    if (std::find(known.begin(), known.end(), &op) != known.end()) return;
    known.push_back(&op);
  }
  register_interpreter_rule(op.schema(), make_kernel);
}

std::vector<at::Tensor> HigherOrderOperator::call_with_grad(const HopPtr& hop,
                                                            std::vector<at::Tensor>&& operands) const {
  return detail::call_by_derivative(hop, std::move(operands));
}

Hop::Hop(const HigherOrderOperator& op, std::vector<std::shared_ptr<const Body>> bodies, std::vector<size_t> groups,
         HopAttributes attributes)
    : op_(op), bodies_(std::move(bodies)), groups_(std::move(groups)), attributes_(std::move(attributes)) {
  register_hop(op);
  DIPTYCH_ASSERT(groups_.size() == op.schema().num_groups(), "hop.{} got {} groups, expected {}", op.schema().name(),
                 groups_.size(), op.schema().num_groups());
  results_ = op.infer(*this);
}

HopPtr Hop::of(const Node& node) {
  std::vector<std::shared_ptr<const Body>> bodies;
  for (const auto& graph : node.subgraphs) bodies.push_back(std::make_shared<const Body>(graph));
  std::vector<size_t> groups;
  for (size_t i = 0; i < node.op.hop().num_groups(); ++i) {
    const auto* list = std::get_if<ValueList>(&node.operands[i]);
    groups.push_back(list != nullptr ? list->size() : 1);
  }
  return std::make_shared<const Hop>(operator_of(node.op.hop()), std::move(bodies), std::move(groups),
                                     HopAttributes::of(node));
}

HopPtr make_hop(const HigherOrderOperator& op, std::vector<std::shared_ptr<const Body>> bodies,
                std::vector<size_t> groups, const std::vector<HopAttribute>& attributes) {
  return std::make_shared<const Hop>(op, std::move(bodies), std::move(groups), HopAttributes(op.schema(), attributes));
}

size_t Hop::group(std::string_view name) const {
  const auto index = op_.schema().schema().argumentIndexWithName(name);
  DIPTYCH_ASSERT(index && static_cast<size_t>(*index) < groups_.size(), "hop.{} has no group '{}'", op_.schema().name(),
                 name);
  return groups_[static_cast<size_t>(*index)];
}

size_t Hop::begin(size_t group) const {
  return std::accumulate(groups_.begin(), groups_.begin() + static_cast<int64_t>(group), size_t{0});
}

bool Hop::draws() const {
  return std::any_of(bodies_.begin(), bodies_.end(), [](const auto& body) { return body->draws(); });
}

Node Hop::node(const std::vector<Value>& operands) const {
  std::vector<ValueList> groups;
  for (size_t i = 0; i < groups_.size(); ++i) groups.push_back(detail::part(operands, begin(i), groups_[i]));
  std::vector<std::shared_ptr<const Graph>> graphs;
  for (const auto& body : bodies_) graphs.push_back(body->graph());
  return make_hop_node(op_.schema(), groups, attributes_, std::move(graphs));
}

const HopFunction& Hop::kernel() const {
  const std::lock_guard lock(mutex_);
  if (!kernel_) kernel_ = op_.compile(*this);
  return kernel_;
}

std::shared_ptr<const Derivative> Hop::derivative(const std::vector<bool>& requires_grad, bool create_graph) const {
  const std::lock_guard lock(mutex_);
  for (const auto& known : derivatives_) {
    if (known.requires_grad == requires_grad && known.create_graph == create_graph) return known.derivative;
  }
  std::shared_ptr<const Derivative> made = op_.differentiate(*this, requires_grad, create_graph);
  derivatives_.push_back({requires_grad, create_graph, made});
  return made;
}

const HigherOrderOperator::LiftedDraws& Hop::lifted_draws() const {
  const std::lock_guard lock(mutex_);
  if (!lifted_) lifted_ = op_.lift_draws(*this);
  return *lifted_;
}

std::shared_ptr<const Hop::Transformed> Hop::transformed(const std::vector<int64_t>& key,
                                                         const std::function<Transformed()>& make) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = transformed_.find(key); known != transformed_.end()) return known->second;
  }
  auto made = std::make_shared<const Transformed>(make());  // it captures bodies, which takes a while
  const std::lock_guard lock(mutex_);
  return transformed_.emplace(key, std::move(made)).first->second;
}

const Hop::OptimizedRun& Hop::optimized(const std::vector<at::Tensor>& operands, size_t num_returned) const {
  const std::lock_guard lock(mutex_);
  for (const auto& known : runs_) {
    if (known.num_returned == num_returned) return known;
  }
  std::vector<TensorMeta> metas;
  for (const at::Tensor& operand : operands) {
    const bool is_dense = operand.is_non_overlapping_and_dense();
    metas.push_back(is_dense ? TensorMeta::of(operand) : contiguous(TensorMeta::of(operand)));
  }
  Graph graph = one_node_graph(*this, metas, num_returned);
  std::shared_ptr<const Program> program;
  if (detail::has_scan(graph)) {
    program = std::make_shared<const Program>(lower(Stage::kHop, graph));
  }
  return runs_.emplace_back(OptimizedRun{num_returned, std::move(metas), std::move(program)});
}

std::vector<at::Tensor> Hop::run(std::vector<at::Tensor>&& operands, size_t num_returned) const {
  const OptimizedRun& found = optimized(operands, num_returned);
  if (!found.program) return kernel()(std::move(operands));
  const std::vector<at::Tensor> owners = operands;
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = with_strides(operands[i], found.operands[i]);
  auto results = found.program->run(std::move(operands));
  for (size_t i = num_returned; i < results.size(); ++i) {
    share_versions(owners, owners.size(), results[i]);
    share_versions(results, num_returned, results[i]);
  }
  return results;
}

void own_results(const std::vector<TensorMeta>& metas, c10::ArrayRef<at::Tensor> operands,
                 std::vector<at::Tensor>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const auto is_shared = [&](const at::Tensor& other) { return shares_memory(results[i], other); };
    const auto own_end = results.begin() + static_cast<int64_t>(i);
    const bool copies =
        std::any_of(operands.begin(), operands.end(), is_shared) || std::any_of(results.begin(), own_end, is_shared);
    const at::Tensor laid_out = with_strides(results[i], metas[i]);
    results[i] = copies && laid_out.is_same(results[i]) ? results[i].clone() : laid_out;
  }
}

}  // namespace diptych
