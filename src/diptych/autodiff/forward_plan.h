// What must happen around a captured forward graph so that a caller sees what eager would show.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Where a tensor lies in a storage, in elements.
struct Geometry {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;  ///< from the first element of the tensor whose storage it is
  bool operator==(const Geometry&) const = default;
};

/// How one of the user's outputs is made from a run of the forward graph.
struct OutputPlan {
  enum class Kind : uint8_t {
    kSlot,         ///< it is the tensor in its own forward slot
    kPrimal,       ///< it is the primal number `index` itself
    kPrimalData,   ///< it shares the data of primal number `index` and nothing else (x.data())
    kOfPrimal,     ///< it is `geometry` of the storage of primal number `index`
    kOfSlot,       ///< it is `geometry` of the storage of forward slot number `index`
    kSame,         ///< it is the same tensor as output number `index`
    kRegenerated,  ///< it is a view, taken again outside the graph: output number `index` of the epilogue
  };
  Kind kind = Kind::kSlot;
  size_t index = 0;
  Geometry geometry = {};
  bool is_view = false;        ///< for kOfPrimal and kOfSlot: as autograd sees it
  bool under_no_grad = false;  ///< for the same: the view was taken where gradients were not recorded
  bool requires_grad = false;
  bool is_own_leaf =
      false;  ///< a view on which the function called requires_grad_(), and nothing before it requires grad
  bool retains_grad = false;
  std::string alias_text;  ///< "is x", "is a view of x"; empty for a tensor of its own
  bool operator==(const OutputPlan&) const = default;
};

/// What a call does to one primal.
struct MutationPlan {
  size_t primal = 0;
  bool data = false;  ///< its elements: the new value is in forward slot `slot`
  size_t slot = 0;
  bool under_no_grad = false;        ///< all of it happened where gradients were not recorded
  bool partly_unseen = false;        ///< some of it happened where autograd does not see it, and some did not
  bool counts = true;                ///< autograd's version of it goes up, as it does not by x.data
  std::optional<Geometry> geometry;  ///< its metadata (t_, transpose_, squeeze_ ...), in terms of what it was
  bool operator==(const MutationPlan&) const = default;
};

/// The part of a plan that is compared as a whole: captures of one function at several sizes can only share a graph if
/// it is the same in all. Primals are the arguments, then the free variables.
struct PlanStructure {
  std::vector<OutputPlan> outputs;
  std::vector<MutationPlan> mutations;
  std::vector<size_t> differentiable;  ///< forward slots that have a tangent, in order
  /// The stage of each tangent's gradient, first those of `differentiable`, then those of `hidden`: see Note [Stages of
  /// a backward].
  std::vector<size_t> stage_of_tangent;
  size_t num_stages = 1;
  /// A place where gradients leave a stage for something other than a primal.
  struct Crossing {
    enum class Kind : uint8_t {
      kSlot,    ///< the tensor in forward slot `index`, or the primal whose new value that is
      kOutput,  ///< output number `index`, which is made outside the graph
      kPrimal,  ///< primal number `index`, whose shape the call has changed
      kLeaf,    ///< a leaf that the function made, in forward slot `index`
      kHidden,  ///< tangent number `index`
    };
    Kind kind = Kind::kSlot;
    size_t index = 0;
    size_t stage = 0;  ///< stages before this one may hand gradients to it
    Value value;       ///< of the joint graph, that it stands for; none for kHidden
    bool operator==(const Crossing&) const = default;
  };
  std::vector<Crossing> crossings;
  /// Per stage, which primals, then which crossings, its gradients lead to.
  std::vector<std::vector<bool>> leads_to;
  size_t num_tangents() const { return stage_of_tangent.size(); }
  std::vector<size_t> fresh_leaves;  ///< forward slots that the function made and set requires_grad on
  /// An input of ForwardPlan::epilogue.
  struct EpilogueInput {
    bool is_primal = false;
    size_t index = 0;  ///< of the primal, or of the forward slot
    bool operator==(const EpilogueInput&) const = default;
  };
  std::vector<EpilogueInput> epilogue_inputs;
  std::vector<std::string> output_paths;
  /// A free variable that is not a captured tensor: in each call it is the tensor that autograd has as a primal's base.
  struct DerivedPrimal {
    size_t free_variable = 0;
    size_t base_of = 0;  ///< primal
    bool operator==(const DerivedPrimal&) const = default;
  };
  std::vector<DerivedPrimal> derived;
  std::vector<size_t> captured_arguments;  ///< those that the function captures as well
  /// A forward slot that a torch::autograd::Function has made as a view: autograd refuses to change it in place.
  struct FunctionView {
    size_t slot = 0;
    EpilogueInput base;
    bool operator==(const FunctionView&) const = default;
  };
  std::vector<FunctionView> function_views;
  /// A gradient that the function's own backward() gives a primal, a leaf: it is the last outputs, and no result of the
  /// function. Each call adds it to the primal's .grad. See Note [A backward inside].
  std::vector<size_t> accumulated;      ///< primals, in the order of these outputs
  std::vector<size_t> counted_offsets;  ///< primals on whose storage offset the graph depends
  std::vector<size_t> parts;            ///< primals whose gradient arrives at the primal that they are views of
  bool hides_history = false;           ///< see ViewLedger::hides_history()
  bool rewrites_history = false;     ///< see ViewLedger::rewrites_history(): no derivative by running the graph again
  bool writes = false;               ///< see ViewLedger::writes()
  bool has_custom_function = false;  ///< a torch::autograd::Function lies between outputs and primals
  bool has_hook = false;             ///< so does a hook that the function registers
  bool operator==(const PlanStructure&) const = default;
};

/// The plan of one captured forward. What it has besides its structure holds sizes, and may differ in another capture.
struct ForwardPlan : PlanStructure {
  std::vector<TensorMeta> hidden;  ///< tangents that arrive from an earlier stage and from nowhere else
  /// Views to take again outside the graph, with autograd on; its inputs are named by `epilogue_inputs`.
  Graph epilogue{"epilogue"};
  const PlanStructure& structure() const { return *this; }
};

}  // namespace diptych::detail
