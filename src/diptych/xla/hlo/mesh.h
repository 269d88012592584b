// A mesh of devices, and how tensors are split over it.
//
//   const dp::xla::Mesh mesh{{"data", "model"}, {2, 4}};
//   const std::vector<dp::xla::ShardingRule> rules{{"*.mlp.w1", {dp::xla::none, "model"}}, {"x", {"data"}}};
#pragma once
#include <c10/util/ArrayRef.h>

#include <string>
#include <string_view>
#include <vector>

namespace diptych::xla {

/// Devices in a grid with named axes. Devices are numbered along the last axis first.
struct Mesh {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;

  /// The product of the sizes; 1 for a mesh without axes.
  int64_t num_devices() const;
  bool operator==(const Mesh&) const = default;
};

/// No axis: every device has all of this dimension.
inline constexpr const char* none = "";

/// For each dimension of a tensor, from the first, the axis of the mesh that splits it, or none. Dimensions past the
/// end are not split, so {} is a tensor of which each device has a whole copy.
using Sharding = std::vector<std::string>;

/// The sharding of tensors whose names fit a pattern, where `*` stands for any text.
struct ShardingRule {
  std::string pattern;
  Sharding sharding;
};

/// Checks that a mesh has a name and a positive size for each axis, and no name twice. Errors: UserError.
void check_mesh(const Mesh& mesh);

/// Returns the sharding with an entry for each dimension of the tensor `name` of these sizes.
/// Errors: UserError for an axis that the mesh does not have or that splits two dimensions, for more entries than
/// dimensions, and for a dimension that the axis's size does not divide.
Sharding complete_sharding(const Mesh& mesh, const Sharding& sharding, std::string_view name, c10::IntArrayRef sizes);

/// Returns the sharding of the first rule whose pattern `name` fits, completed, or one that splits nothing.
/// Errors: as complete_sharding().
Sharding find_sharding(const Mesh& mesh, const std::vector<ShardingRule>& rules, std::string_view name,
                       c10::IntArrayRef sizes);

/// Returns where the shard of a device lies: along each dimension its start, and its size in `shard_sizes`.
/// Requires: a complete sharding.
std::vector<int64_t> shard_starts(const Mesh& mesh, const Sharding& sharding, c10::IntArrayRef sizes, int64_t device);
std::vector<int64_t> shard_sizes(const Mesh& mesh, const Sharding& sharding, c10::IntArrayRef sizes);

}  // namespace diptych::xla
