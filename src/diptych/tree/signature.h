// The signature of a pair of graphs: what each input and output slot of the forward and the backward graph holds. Slots
// never move, so a path or an index that a program has looked up stays valid for the pair.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych {

/// Says that a user's output is an input or an earlier output, or shares the storage of one.
struct OutputAlias {
  enum class Kind : uint8_t { kIsInput, kViewOfInput, kIsOutput, kViewOfOutput };
  Kind kind = Kind::kIsInput;
  size_t output = 0;  ///< index of the user's output
  size_t target = 0;  ///< index of the forward input, or of the earlier output, that it aliases
};

/// One slot with the metadata of its value; an empty slot has none, such as that for the gradient of an input that no
/// gradient reaches.
struct SlotInfo {
  Slot slot;
  std::optional<TensorMeta> meta;
};

/// The four lists of slots of a pair. Mutated outputs and gradients have the paths of their inputs, tangents have the
/// paths of their outputs, and residuals have the same paths in both graphs.
class Signature {
 public:
  Signature() = default;
  /// Makes the signature of a function without a backward.
  explicit Signature(const Graph& forward, std::vector<OutputAlias> aliases = {});
  /// Errors: InternalError if the two graphs do not fit each other, naming the slot.
  Signature(const Graph& forward, const Graph& backward, std::vector<OutputAlias> aliases = {});

  const std::vector<SlotInfo>& forward_inputs() const { return forward_inputs_; }
  const std::vector<SlotInfo>& forward_outputs() const { return forward_outputs_; }
  const std::vector<SlotInfo>& backward_inputs() const { return backward_inputs_; }
  const std::vector<SlotInfo>& backward_outputs() const { return backward_outputs_; }

  size_t num_arguments() const { return count(forward_inputs_, SlotKind::kArgument); }
  size_t num_outputs() const { return count(forward_outputs_, SlotKind::kOutput); }
  /// Paths of the captured tensors, in the order of their slots.
  std::vector<std::string> free_variables() const { return paths(forward_inputs_, SlotKind::kFreeVariable); }
  std::vector<std::string> residuals() const { return paths(forward_outputs_, SlotKind::kResidual); }
  /// Paths of the inputs that a call changes in place.
  std::vector<std::string> mutated() const { return paths(forward_outputs_, SlotKind::kMutated); }
  /// Indices of the forward outputs, mutated inputs included, that have a tangent slot.
  std::vector<size_t> differentiable_outputs() const;

  /// Returns the index of the forward input called `path`. Errors: UserError names the nearest paths.
  size_t index_of_input(std::string_view path) const;
  /// Returns the index of the user's output called `path`. Errors: UserError names the nearest paths.
  size_t index_of_output(std::string_view path) const;
  /// Returns the index of the backward output that holds the gradient of the forward input `path`. A captured pair has
  /// a slot for each input; it is empty if no gradient reaches the input, see has_gradient().
  /// Errors: UserError if there is no such input (names the nearest), or if the backward has no slot for it (says why).
  size_t gradient_of(std::string_view path) const;
  /// Whether a gradient reaches the forward input `path`; if not, its gradient is undefined. Errors: as gradient_of().
  bool has_gradient(std::string_view path) const;

  const std::vector<OutputAlias>& aliases() const { return aliases_; }
  /// Returns what the user's output aliases, if anything. Errors: UserError if there is no such output.
  std::optional<OutputAlias> alias_of(size_t output) const;
  /// "output 2 is a view of x", "output 1 is x"; empty for an output that aliases nothing. Errors: as alias_of().
  std::string alias_text(size_t output) const;

  /// The four lists as one aligned table.
  std::string str() const;

 private:
  static size_t count(const std::vector<SlotInfo>& slots, SlotKind kind);
  static std::vector<std::string> paths(const std::vector<SlotInfo>& slots, SlotKind kind);
  void check_forward() const;
  void check_pair() const;

  std::vector<SlotInfo> forward_inputs_;
  std::vector<SlotInfo> forward_outputs_;
  std::vector<SlotInfo> backward_inputs_;
  std::vector<SlotInfo> backward_outputs_;
  std::vector<OutputAlias> aliases_;
};

std::ostream& operator<<(std::ostream& stream, const Signature& signature);

/// Returns where and how two signatures first differ: "forward input 3 'params.w': expected f32[4,4], got f32[4,8]";
/// nullopt if they are equal.
std::optional<std::string> mismatch(const Signature& expected, const Signature& got);

}  // namespace diptych
