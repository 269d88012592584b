#include "diptych/hops/hop.h"

#include <ATen/ops/clone.h>

#include <numeric>

#include "diptych/base/error.h"
#include "diptych/hops/strides.h"
#include "diptych/interpreter/hop_rules.h"
#include "diptych/ops/hop_schemas.h"

namespace diptych {
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
      fmt::format("[hops] hop.{} has no rules here; call register_hop() with its operator first", schema.name));
}

std::vector<at::Tensor> tensors_of(std::vector<c10::IValue>&& operands) {
  std::vector<at::Tensor> tensors;
  for (auto& operand : operands) {
    if (!operand.isTensorList()) continue;
    for (const at::Tensor& tensor : operand.toTensorList()) tensors.push_back(tensor);
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

}  // namespace

size_t Derivative::first_residual(const Hop& hop) const { return hop.num_results(); }

HigherOrderOperator::HigherOrderOperator(std::string_view name, int num_bodies)
    : schema_(add_hop_schema({name, num_bodies})) {}

std::unique_ptr<Derivative> HigherOrderOperator::differentiate(const Hop&, const std::vector<bool>&, bool) const {
  throw UserError(fmt::format("[{}] hop.{} has no derivative; give its operator one (differentiate)", schema_->name,
                              schema_->name));
}

HigherOrderOperator::LiftedDraws HigherOrderOperator::lift_draws(const Hop& hop) const {
  throw UserError(fmt::format(
      "[{}] the body draws random numbers, and gradients are to flow through it, which hop.{} does not support; draw "
      "outside and pass the numbers in",
      schema_->name, schema_->name));
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

Hop::Hop(const HigherOrderOperator& op, std::vector<std::shared_ptr<const Body>> bodies, std::vector<size_t> groups,
         std::vector<c10::IValue> constants)
    : op_(op), bodies_(std::move(bodies)), groups_(std::move(groups)), constants_(std::move(constants)) {
  register_hop(op);
  results_ = op.infer(*this);
}

HopPtr Hop::of(const Node& node) {
  std::vector<std::shared_ptr<const Body>> bodies;
  for (const auto& graph : node.subgraphs) bodies.push_back(std::make_shared<const Body>(graph));
  std::vector<size_t> groups;
  std::vector<c10::IValue> constants;
  for (const auto& operand : node.operands) {
    if (const auto* list = std::get_if<ValueList>(&operand)) {
      groups.push_back(list->size());
    } else {
      constants.push_back(std::get<c10::IValue>(operand));
    }
  }
  return std::make_shared<const Hop>(operator_of(node.op.hop()), std::move(bodies), std::move(groups),
                                     std::move(constants));
}

size_t Hop::begin(size_t group) const {
  return std::accumulate(groups_.begin(), groups_.begin() + static_cast<int64_t>(group), size_t{0});
}

bool Hop::draws() const {
  return std::any_of(bodies_.begin(), bodies_.end(), [](const auto& body) { return body->draws(); });
}

Node Hop::node(const std::vector<Value>& operands) const {
  Node node{Op(&op_.schema()), {}, {}, {}, {}, {}};
  auto next = operands.begin();
  for (const size_t count : groups_) {
    node.operands.push_back(ValueList(next, next + static_cast<int64_t>(count)));
    next += static_cast<int64_t>(count);
  }
  for (const auto& constant : constants_) node.operands.push_back(constant);
  for (const auto& body : bodies_) node.subgraphs.push_back(body->graph());
  return node;
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

void own_results(const std::vector<TensorMeta>& metas, c10::ArrayRef<at::Tensor> operands,
                 std::vector<at::Tensor>& results) {
  const auto shares = [](const at::Tensor& a, const at::Tensor& b) {
    return a.has_storage() && b.has_storage() && a.storage().is_alias_of(b.storage());
  };
  for (size_t i = 0; i < results.size(); ++i) {
    const auto is_shared = [&](const at::Tensor& other) { return shares(results[i], other); };
    const auto own_end = results.begin() + static_cast<int64_t>(i);
    const bool copies =
        std::any_of(operands.begin(), operands.end(), is_shared) || std::any_of(results.begin(), own_end, is_shared);
    const at::Tensor laid_out = with_strides(results[i], metas[i]);
    results[i] = copies && laid_out.is_same(results[i]) ? results[i].clone() : laid_out;
  }
}

}  // namespace diptych
