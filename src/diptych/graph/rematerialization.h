// What a checkpoint decides about a node: whether its values are saved for the backward or computed again there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "diptych/base/interned_string.h"

namespace diptych {

/// What happens to a node's values between the forward and the backward.
enum class Rematerialize : uint8_t {
  kAuto,       ///< the partitioner decides
  kSave,       ///< those that the backward needs are saved, and never computed again
  kRecompute,  ///< they are computed again, and never saved
};

/// Note [Checkpoint regions]
/// A region is a stretch of a traced function; its path names the regions around it too, outermost first:
/// "checkpoint.0/checkpoint.3". Each region on the path has decided about the node, and the marks hold these decisions
/// in the order of the path. The outermost region that is not indifferent decides about the forward: what it does not
/// save, no inner region can save. The decisions of an inner region hold while the outer region is recomputed: values
/// that the inner region marks kRecompute are dropped once the code after that region has used them, and computed a
/// third time for its own backward, so that nested regions need the memory of one inner region at a time. PyTorch's
/// nested checkpoints do the same. Random draws are never repeated: a node that draws is marked kSave whatever the
/// region's policy says, so that one mask serves the forward and the backward and the generator moves as in eager.
/// Values that leave their region are not its own: one that anything outside, usually a following region, needs for the
/// backward is saved.
class RegionMarks {
 public:
  /// Regions nest no deeper than this.
  static constexpr size_t kMaxDepth = 16;

  /// The decision of the region at `depth` on the path, 0 for the outermost.
  Rematerialize at(size_t depth) const { return static_cast<Rematerialize>(bits_ >> (2 * depth) & 3U); }
  /// Requires: depth < kMaxDepth.
  void set(size_t depth, Rematerialize decision);
  /// The depth of the outermost region that is not indifferent; nullopt if all are.
  std::optional<size_t> deciding_depth() const;
  /// That region's decision; kAuto if all are indifferent.
  Rematerialize decision() const;
  /// The least number of regions on a path that these marks fit.
  size_t depth() const;
  bool empty() const { return bits_ == 0; }
  bool operator==(const RegionMarks&) const = default;

  /// "recompute/save" for a path of two regions.
  std::string str(size_t depth) const;
  /// The inverse of str(); nullopt for text that str() does not return.
  static std::optional<RegionMarks> parse(std::string_view text);

 private:
  uint32_t bits_ = 0;
};

namespace detail {
/// How many regions a path names; 0 for the empty path.
size_t region_depth(InternedString path);
/// The path of the outermost `depth` regions of `path`.
InternedString outer_region(InternedString path, size_t depth);
/// How many regions two paths share, from the outermost on.
size_t common_region_depth(InternedString left, InternedString right);

/// Whether `names`, a node's residual names separated by commas, holds `name`.
bool has_residual_name(InternedString names, std::string_view name);
}  // namespace detail

}  // namespace diptych
