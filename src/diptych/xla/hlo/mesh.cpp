#include "diptych/xla/hlo/mesh.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "diptych/base/check.h"

namespace diptych::xla {
namespace {

// The position of an axis in the mesh, or the number of axes if there is none of that name.
size_t axis_position(const Mesh& mesh, const std::string& axis) {
  return std::find(mesh.names.begin(), mesh.names.end(), axis) - mesh.names.begin();
}

int64_t axis_size(const Mesh& mesh, const std::string& axis) {
  return axis.empty() ? 1 : mesh.sizes.at(axis_position(mesh, axis));
}

// How far along an axis a device stands.
int64_t axis_coordinate(const Mesh& mesh, const std::string& axis, int64_t device) {
  if (axis.empty()) return 0;
  const auto position = static_cast<int64_t>(axis_position(mesh, axis));
  const int64_t inner =
      std::accumulate(mesh.sizes.begin() + position + 1, mesh.sizes.end(), int64_t{1}, std::multiplies<>());
  return device / inner % mesh.sizes[position];
}

bool fits(std::string_view name, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  for (size_t end = star; end <= name.size(); ++end) {
    if (fits(name.substr(end), pattern.substr(star + 1))) return true;
  }
  return false;
}

}  // namespace

int64_t Mesh::num_devices() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

void check_mesh(const Mesh& mesh) {
  DIPTYCH_CHECK(mesh.names.size() == mesh.sizes.size(),
                "[xla] a mesh got the axes [{}] and the sizes [{}]; name each axis and give it a size",
                fmt::join(mesh.names, ", "), fmt::join(mesh.sizes, ", "));
  for (size_t i = 0; i < mesh.names.size(); ++i) {
    const std::string& name = mesh.names[i];
    DIPTYCH_CHECK(!name.empty() && name.find_first_of("\"\\") == name.npos && axis_position(mesh, name) == i,
                  "[xla] axis {} of a mesh got the name '{}'; use names of their own, without quotes", i, name);
    DIPTYCH_CHECK(mesh.sizes[i] > 0, "[xla] axis '{}' of a mesh got size {}, expected a positive number", name,
                  mesh.sizes[i]);
  }
}

Sharding complete_sharding(const Mesh& mesh, const Sharding& sharding, std::string_view name, c10::IntArrayRef sizes) {
  DIPTYCH_CHECK(sharding.size() <= sizes.size(),
                "[xla] the sharding of '{}' has {} entries, expected at most {}, one for each dimension of [{}]", name,
                sharding.size(), sizes.size(), fmt::join(sizes, ", "));
  for (size_t dim = 0; dim < sharding.size(); ++dim) {
    const std::string& axis = sharding[dim];
    if (axis.empty()) continue;
    DIPTYCH_CHECK(axis_position(mesh, axis) < mesh.names.size(),
                  "[xla] the sharding of '{}' splits dimension {} by the axis '{}', which the mesh does not have; its "
                  "axes are [{}]",
                  name, dim, axis, fmt::join(mesh.names, ", "));
    DIPTYCH_CHECK(std::find(sharding.begin(), sharding.begin() + static_cast<int64_t>(dim), axis) ==
                      sharding.begin() + static_cast<int64_t>(dim),
                  "[xla] the sharding of '{}' splits two dimensions by the axis '{}'; use an axis for one dimension",
                  name, axis);
    DIPTYCH_CHECK(sizes[dim] % axis_size(mesh, axis) == 0,
                  "[xla] dimension {} of '{}' with sizes [{}] is split by the axis '{}' of size {}, which does not "
                  "divide it; choose another size, or split another dimension",
                  dim, name, fmt::join(sizes, ", "), axis, axis_size(mesh, axis));
  }
  Sharding complete = sharding;
  complete.resize(sizes.size());
  return complete;
}

Sharding find_sharding(const Mesh& mesh, const std::vector<ShardingRule>& rules, std::string_view name,
                       c10::IntArrayRef sizes) {
  const auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const ShardingRule& row) { return fits(name, row.pattern); });
  return complete_sharding(mesh, rule == rules.end() ? Sharding() : rule->sharding, name, sizes);
}

std::vector<int64_t> shard_sizes(const Mesh& mesh, const Sharding& sharding, c10::IntArrayRef sizes) {
  std::vector<int64_t> parts = sizes.vec();
  for (size_t dim = 0; dim < parts.size(); ++dim) parts[dim] /= axis_size(mesh, sharding.at(dim));
  return parts;
}

std::vector<int64_t> shard_starts(const Mesh& mesh, const Sharding& sharding, c10::IntArrayRef sizes, int64_t device) {
  std::vector<int64_t> starts = shard_sizes(mesh, sharding, sizes);
  for (size_t dim = 0; dim < starts.size(); ++dim) starts[dim] *= axis_coordinate(mesh, sharding[dim], device);
  return starts;
}

}  // namespace diptych::xla
