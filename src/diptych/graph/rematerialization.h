// What a checkpoint decides about a node: whether its values are saved for the backward or computed again there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "diptych/base/interned_string.h"

namespace diptych {

/// What becomes of a node's values between the forward and the backward.
enum class Rematerialize : uint8_t {
  kAuto,       ///< the partitioner decides
  kSave,       ///< what the backward needs of them is saved, and never computed again
  kRecompute,  ///< they are computed again, and never saved
};

/// Note [Checkpoint regions]
/// A region is a stretch of a traced function; its path names the regions around it too, outermost first:
/// "checkpoint.0/checkpoint.3". Each region on the path has decided about the node, and the marks hold these decisions
/// in the order of the path. The outermost region that is not indifferent decides about the forward: what it does not
/// save, no inner region can. What an inner region decides holds while the outer one is computed again: its
/// kRecompute'd values are dropped once they have been used for what comes after it, and made a third time for its own
/// backward, so that nested regions need the memory of one inner region at a time. PyTorch's nested checkpoints do the
/// same. Random draws are never repeated: a node that draws is marked kSave whatever the region's policy says, so that
/// one mask serves the forward and the backward and the generator moves as in eager. Values that leave their region
/// are not its own: where something outside needs one for the backward, a following region above all, it is saved.
class RegionMarks {
 public:
  /// Regions nest no deeper than this.
  static constexpr size_t kMaxDepth = 16;

  /// The decision of the region at `depth` on the path, 0 for the outermost.
  Rematerialize at(size_t depth) const { return static_cast<Rematerialize>(bits_ >> (2 * depth) & 3U); }
  /// Requires: depth < kMaxDepth.
  void set(size_t depth, Rematerialize decision);
  /// The depth of the outermost region that is not indifferent; nothing if all are.
  std::optional<size_t> deciding_depth() const;
  /// That region's decision; kAuto if all are indifferent.
  Rematerialize decision() const;
  /// How many regions there must be at least for these marks.
  size_t depth() const;
  bool empty() const { return bits_ == 0; }
  bool operator==(const RegionMarks&) const = default;

  /// "recompute/save" for a path of two regions.
  std::string str(size_t depth) const;
  /// The inverse; nothing for text that is none.
  static std::optional<RegionMarks> parse(std::string_view text);

 private:
  uint32_t bits_ = 0;
};

/// How many regions a path names; 0 for the empty path.
size_t region_depth(InternedString path);
/// The path of the outermost `depth` regions of `path`.
InternedString outer_region(InternedString path, size_t depth);
/// How many regions two paths share, from the outermost on.
size_t common_region_depth(InternedString left, InternedString right);

/// Whether `names`, a node's residual names set apart by commas, holds `name`.
bool has_residual_name(InternedString names, std::string_view name);

}  // namespace diptych
