// A higher-order operator: its rules, and one use of it.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "diptych/graph/hop_attributes.h"
#include "diptych/hops/body.h"
#include "diptych/trace/levels.h"

namespace diptych {

class Hop;
using HopPtr = std::shared_ptr<const Hop>;

/// Runs a hop on real tensors below autograd: operands in order, results in order. Operands may be moved from.
using HopFunction = std::function<std::vector<at::Tensor>(std::vector<at::Tensor>&& operands)>;

/// The tensors that a backward may read of the call that it differentiates. Reading one that has been changed in place
/// since the call throws eager's error.
class SavedCall {
 public:
  virtual ~SavedCall() = default;
  virtual at::Tensor operand(size_t index) const = 0;
  /// Output number hop.num_results() + index of Derivative::forward.
  virtual at::Tensor residual(size_t index) const = 0;
};

/// The derivative of a hop for one choice of operands that require grad. Note [Differentiating a hop]: the forward that
/// is run, or recorded, returns residuals after the results; they carry no history. The backward is written in calls of
/// hops and operators, which autograd sees. When a backward is itself differentiated (create_graph), another derivative
/// is made. Its forward is *called* again, so that the residuals have a history, and its backward is run under
/// autograd. This works to any order.
class Derivative {
 public:
  Derivative() = default;
  virtual ~Derivative() = default;
  Derivative(const Derivative&) = delete;
  Derivative& operator=(const Derivative&) = delete;

  /// A hop that takes the operands and returns the results, then residuals.
  virtual const HopPtr& forward() const = 0;
  /// How many of forward()'s outputs precede the residuals. A forward that is only called again may lack results.
  virtual size_t first_residual(const Hop& hop) const;
  /// One flag per result.
  virtual const std::vector<bool>& requires_grad() const = 0;
  /// Returns one gradient per operand, undefined where nothing flows. `tangents`: one per result, undefined where none
  /// is given; at least one is defined. Threads: any.
  virtual std::vector<at::Tensor> backward(const SavedCall& saved, const std::vector<at::Tensor>& tangents) const = 0;
};

/// A tensor below a vmap. Elements of a batch are counted by its first dimension.
struct Batched {
  at::Tensor value;
  bool is_batched = false;  ///< if not, it is the same for every element
};

/// A tensor and its forward-mode tangent, which is undefined where it has none.
struct Dual {
  at::Tensor primal;
  at::Tensor tangent = {};
};

/// The rules of one higher-order operator. Implement it, make one instance that is never destroyed, and register_hop()
/// it; everything else (autograd to any order, capture, the interpreter, draws) follows. Threads: members from any.
class HigherOrderOperator {
 public:
  /// `declaration` and `bodies`: as HopSchema's, "fori_loop(Tensor[] init, Tensor[] free, int begin, int count)".
  /// Errors: UserError for a declaration that can't be read, or that differs from one of the same name.
  HigherOrderOperator(std::string_view declaration, std::vector<std::string> bodies);
  explicit HigherOrderOperator(const HopSchema& schema) : schema_(&schema) {}
  virtual ~HigherOrderOperator() = default;
  const HopSchema& schema() const { return *schema_; }

  /// Returns the metadata of each result; its requires_grad is ignored.
  virtual std::vector<TensorMeta> infer(const Hop& hop) const = 0;
  /// Makes the kernel. Its results must share no memory with operands or each other: see own_results().
  virtual HopFunction compile(const Hop& hop) const = 0;
  /// Returns the derivative for the case that the operands marked in `requires_grad` require it. Requires: `hop` draws
  /// nothing. The default refuses, which is right for an operator whose call_with_grad() calls others. Errors:
  /// UserError where it can't be differentiated.
  virtual std::unique_ptr<Derivative> differentiate(const Hop& hop, const std::vector<bool>& requires_grad,
                                                    bool create_graph) const;

  /// A hop taken apart into one that only draws and one that takes the drawn numbers as further operands.
  struct LiftedDraws {
    HopPtr draws;  ///< operands as the hop's; results: what is drawn, from number `first` on
    HopPtr rest;   ///< draws nothing; the drawn tensors follow the operands of group `group`
    size_t group = 0;
    size_t first = 0;
  };
  /// Note [Lifted draws]: a hop whose body draws random numbers is taken apart before it is differentiated, so that
  /// what is drawn is an operand like any other: nothing that is recomputed or differentiated again draws twice, and
  /// the generator is read in eager's order. The default refuses.
  virtual LiftedDraws lift_draws(const Hop& hop) const;

  /// Calls a hop where gradients are recorded. The default runs differentiate()'s forward and attaches a node to its
  /// results.
  virtual std::vector<at::Tensor> call_with_grad(const HopPtr& hop, std::vector<at::Tensor>&& operands) const;

  /// Note [Transformed hops]: a hop inside of vmap, grad or jvp, of torch.func or this library, is called level by
  /// level, the innermost first: a vmap or a jvp makes it another hop, on batches or on tensors with tangents, which is
  /// called on what the level wraps, below it; a grad differentiates it as autograd does. What is left below all levels
  /// is a hop on plain tensors, which runs, or is recorded.
  ///
  /// Calls the hop for each element of a batch. The default is a loop over the elements. Errors: UserError for a hop
  /// that draws random numbers, from the default; torch's, for draws inside of a vmap with randomness="error".
  virtual std::vector<Batched> call_batched(const HopPtr& hop, std::vector<Batched>&& operands,
                                            const detail::Batch& batch) const;
  /// Calls the hop on tensors of which some have tangents. The default differentiates the hop's derivative, which is
  /// linear in its tangents. Errors: UserError where the hop can't be differentiated twice.
  virtual std::vector<Dual> call_dual(const HopPtr& hop, std::vector<Dual>&& operands) const;

 private:
  const HopSchema* schema_;
};

/// Makes `op` known to the interpreter and to graph files. Call it before the operator is used; a second call does
/// nothing.
void register_hop(const HigherOrderOperator& op);

/// One use of a higher-order operator, without its operands: bodies, how many operands each group has, and attributes.
/// Threads: any.
class Hop : public std::enable_shared_from_this<Hop> {
 public:
  Hop(const HigherOrderOperator& op, std::vector<std::shared_ptr<const Body>> bodies, std::vector<size_t> groups,
      HopAttributes attributes);
  /// Returns the use that a node of a graph represents. Requires: the operator is registered.
  static HopPtr of(const Node& node);

  const HigherOrderOperator& op() const { return op_; }
  const Body& body(size_t index) const { return *bodies_[index]; }
  const std::vector<std::shared_ptr<const Body>>& bodies() const { return bodies_; }
  /// How many operands each group has, in the schema's order.
  const std::vector<size_t>& groups() const { return groups_; }
  /// Returns how many operands the group of that name has. Requires: the schema has it.
  size_t group(std::string_view name) const;
  /// Returns the position of the first operand of a group.
  size_t begin(size_t group) const;
  size_t num_operands() const { return begin(groups_.size()); }
  const HopAttributes& attributes() const { return attributes_; }
  const std::vector<TensorMeta>& results() const { return results_; }
  size_t num_results() const { return results_.size(); }
  bool draws() const;
  /// Returns the node for these operands.
  Node node(const std::vector<Value>& operands) const;

  const HopFunction& kernel() const;  ///< compiled at the first call
  /// Runs it on real tensors below autograd, with the scans in it optimized. The first `num_returned` results have
  /// memory of their own; the later ones, which are residuals, may share memory with operands and results, and then
  /// share their version counters too.
  std::vector<at::Tensor> run(std::vector<at::Tensor>&& operands, size_t num_returned) const;
  std::shared_ptr<const Derivative> derivative(const std::vector<bool>& requires_grad, bool create_graph) const;
  const HigherOrderOperator::LiftedDraws& lifted_draws() const;

  /// What a rule of Note [Transformed hops] makes of this hop for operands of one kind.
  struct Transformed {
    HopPtr hop;
    std::vector<bool> results = {};  ///< per result, whether it is batched, or has a tangent
  };
  /// Returns what `make` returned for this key, which it is called for once.
  std::shared_ptr<const Transformed> transformed(const std::vector<int64_t>& key,
                                                 const std::function<Transformed()>& make) const;

 private:
  struct KeyedDerivative {
    std::vector<bool> requires_grad;
    bool create_graph;
    std::shared_ptr<const Derivative> derivative;
  };
  struct OptimizedRun {
    size_t num_returned;
    std::vector<TensorMeta> operands;
    std::shared_ptr<const Program> program;  ///< null where there was nothing to optimize
  };
  const OptimizedRun& optimized(const std::vector<at::Tensor>& operands, size_t num_returned) const;

  const HigherOrderOperator& op_;
  std::vector<std::shared_ptr<const Body>> bodies_;
  std::vector<size_t> groups_;
  HopAttributes attributes_;
  std::vector<TensorMeta> results_;
  mutable std::mutex mutex_;
  mutable std::deque<OptimizedRun> runs_;  ///< entries keep their addresses
  mutable HopFunction kernel_;
  mutable std::vector<KeyedDerivative> derivatives_;
  mutable std::optional<HigherOrderOperator::LiftedDraws> lifted_;
  mutable std::map<std::vector<int64_t>, std::shared_ptr<const Transformed>> transformed_;
};

/// Makes one use of `op`. `groups`: how many operands each group has, in the schema's order. Requires: `attributes`
/// holds every attribute without a default.
HopPtr make_hop(const HigherOrderOperator& op, std::vector<std::shared_ptr<const Body>> bodies,
                std::vector<size_t> groups, const std::vector<HopAttribute>& attributes = {});

/// Replaces each result that shares its storage with an operand, or with an earlier result, by a copy, and lays each
/// result out with the strides of `metas` where these are dense.
void own_results(const std::vector<TensorMeta>& metas, c10::ArrayRef<at::Tensor> operands,
                 std::vector<at::Tensor>& results);

}  // namespace diptych
