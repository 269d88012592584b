#include "diptych/native/lower/node_space.h"

#include <algorithm>

#include "diptych/native/lower/size_table.h"
#include "diptych/ops/permutation.h"

namespace diptych::detail {
namespace {

constexpr int32_t kNoAxis = SpaceState::kNoAxis;

Dims without_ones(const Dims& dims) {
  Dims axes;
  std::copy_if(dims.begin(), dims.end(), std::back_inserter(axes), [](int32_t axis) { return axis != kNoAxis; });
  return axes;
}

Sizes without_ones(const Sizes& sizes) {
  Sizes larger;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(larger), [](const auto& size) { return !is_one(size); });
  return larger;
}

// The distinct tensors among a node's operands.
std::vector<Value> operand_values(const Node& node) {
  std::vector<Value> values;
  for_each_operand_value(node, [&](Value value) {
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  });
  return values;
}

}  // namespace

Dims NodeSpace::make_dims(const Sizes& sizes) {
  Dims dims;
  for (const SizeExpr& size : sizes) dims.push_back(is_one(size) ? kNoAxis : state_.axes.make(size));
  return dims;
}

bool NodeSpace::unify(const Dims& a, const Dims& b) {
  return a == b || state_.axes.unify(without_ones(a), without_ones(b));
}

bool NodeSpace::fit_operand(Value value, const std::function<bool(const Dims&)>& fit) {
  const auto dims_at = [&](const PlacedDims& placed) {
    const auto dims = state_.dims_of(placed);
    return Dims(dims.begin(), dims.end());
  };
  if (const PlacedDims* const result = state_.find_result(value)) return fit(dims_at(*result));
  for (int32_t use = 0; use < static_cast<int32_t>(state_.uses.size()); ++use) {
    if (state_.uses[use].value != value) continue;
    const SpaceState before = state_;
    if (fit(dims_at(state_.uses[use])) && state_.number_atoms()) {
      state_.operand_uses.push_back({index_, value, use});
      return true;
    }
    state_ = before;
  }
  const Dims dims = make_dims(graph().meta(value).sizes);
  state_.operand_uses.push_back({index_, value, static_cast<int32_t>(state_.uses.size())});
  state_.uses.push_back({value, state_.append(dims), static_cast<int32_t>(dims.size())});
  return fit(dims);
}

bool NodeSpace::read_apart(Value value) {
  state_.read_apart.push_back(value);
  return !is_inside(value);
}

bool NodeSpace::put_results(const Dims& dims) {
  for (const Value output : node().outputs) {
    if (!output) continue;
    const auto& read = state_.read_apart;
    if (std::find(read.begin(), read.end(), output) != read.end()) return false;
    if (graph().meta(output).sizes.size() != dims.size() || !join_uses(output, dims)) return false;
    state_.results.push_back({output, state_.append(dims), static_cast<int32_t>(dims.size())});
  }
  return true;
}

bool NodeSpace::join_uses(Value value, const Dims& dims) {
  const auto uses = state_.uses;
  return std::all_of(uses.begin(), uses.end(), [&](const PlacedDims& use) {
    if (use.value != value) return true;
    const auto used = state_.dims_of(use);
    return unify(dims, Dims(used.begin(), used.end()));
  });
}

void NodeSpace::put_reduced(const Dims& axes) {
  const Dims larger = without_ones(axes);
  state_.reduced.push_back({index_, state_.append(larger), static_cast<int32_t>(larger.size())});
}

bool place_pointwise(NodeSpace& node) {
  const Sizes& sizes = node.sizes();
  Dims result(sizes.size(), kNoAxis);
  // What the group makes decides first; what it reads can be read along any axes.
  auto values = operand_values(node.node());
  std::stable_partition(values.begin(), values.end(), [&](Value value) { return node.is_inside(value); });
  for (const Value value : values) {
    const bool fits = node.fit_operand(value, [&](const Dims& dims) {
      if (dims.size() > sizes.size()) return false;
      Dims joined = result;
      for (size_t i = 0; i < dims.size(); ++i) {
        int32_t& axis = joined[sizes.size() - dims.size() + i];
        if (dims[i] == kNoAxis) continue;
        if (axis == kNoAxis) axis = dims[i];
        if (!node.unify({axis}, {dims[i]})) return false;
      }
      result = joined;
      return true;
    });
    if (!fits) return false;
  }
  const Dims fresh = node.make_dims(sizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (result[i] == kNoAxis) result[i] = fresh[i];
  }
  return node.put_results(result);
}

bool place_permuted(NodeSpace& node) {
  const auto rank = static_cast<int64_t>(node.meta(0).sizes.size());
  const auto order = permutation_of(node.node(), rank);
  return order && node.fit_operand(node.value(0), [&](const Dims& dims) {
    Dims result;
    for (const int64_t dim : *order) result.push_back(dims[dim]);
    return node.put_results(result);
  });
}

bool place_reshaped(NodeSpace& node) {
  const Sizes& sizes = node.sizes();
  const bool keeps_sizes = without_ones(sizes) == without_ones(node.meta(0).sizes);
  return node.fit_operand(node.value(0), [&](const Dims& dims) {
    Dims result(sizes.size(), kNoAxis);
    if (!keeps_sizes) {
      result = node.make_dims(sizes);
      return node.unify(result, dims) && node.put_results(result);
    }
    const Dims axes = without_ones(dims);
    for (size_t i = 0, next = 0; i < sizes.size(); ++i) {
      if (!is_one(sizes[i])) result[i] = axes[next++];
    }
    return node.put_results(result);
  });
}

bool place_expanded(NodeSpace& node) {
  const Sizes& sizes = node.sizes();
  return node.fit_operand(node.value(0), [&](const Dims& dims) {
    Dims result = node.make_dims(sizes);
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] != kNoAxis) result[sizes.size() - dims.size() + i] = dims[i];
    }
    return node.put_results(result);
  });
}

bool place_repeated(NodeSpace& node) {
  const Sizes& sizes = node.sizes();
  const auto times_of = node.integers(1);
  const Sizes repeats(times_of.begin(), times_of.end());
  return node.fit_operand(node.value(0), [&](const Dims& dims) {
    Dims result = node.make_dims(sizes);
    const Dims times = node.make_dims(repeats);
    for (size_t i = 0; i < dims.size(); ++i) {
      const size_t dim = sizes.size() - dims.size() + i;
      if (dims[i] != kNoAxis && !node.unify({result[dim]}, {times[dim], dims[i]})) return false;
    }
    return node.put_results(result);
  });
}

bool place_apart(NodeSpace& node) {
  const auto values = operand_values(node.node());
  return std::all_of(values.begin(), values.end(), [&](Value value) { return node.read_apart(value); }) &&
         place_created(node);
}

namespace {

// More would be computed for each element of the result, which takes one of them.
constexpr size_t kMostJoined = 4;

// Puts the results along `result`, each operand along `part`: the same dims without the one that counts the operands.
bool join_parts(NodeSpace& node, const Dims& result, const Dims& part) {
  const auto values = operand_values(node.node());
  return std::all_of(values.begin(), values.end(),
                     [&](Value value) {
                       return node.fit_operand(value, [&](const Dims& dims) {
                         for (size_t i = 0; i < part.size(); ++i) {
                           if (part[i] != kNoAxis && !node.unify({part[i]}, {dims[i]})) return false;
                         }
                         return true;
                       });
                     }) &&
         node.put_results(result);
}

bool reads_inside(const NodeSpace& node) {
  const auto values = operand_values(node.node());
  return std::any_of(values.begin(), values.end(), [&](Value value) { return node.is_inside(value); });
}

}  // namespace

bool place_concatenated(NodeSpace& node) {
  if (!reads_inside(node)) return place_apart(node);
  const auto& parts = std::get<ValueList>(node.node().operands[0]);
  const Sizes& sizes = node.graph().meta(parts[0]).sizes;
  const bool are_alike =
      std::all_of(parts.begin(), parts.end(), [&](Value value) { return node.graph().meta(value).sizes == sizes; });
  if (!are_alike || parts.size() > kMostJoined || parts.size() < 2) return false;
  const auto dim = NodeArguments::wrap(node.integer(1), static_cast<int64_t>(sizes.size()));
  const Dims result = node.make_dims(node.sizes()), counted = node.make_dims({static_cast<int64_t>(parts.size())});
  Dims part = result;
  part[dim] = node.make_dims({sizes[dim]})[0];
  return node.unify({result[dim]}, {counted[0], part[dim]}) && join_parts(node, result, part);
}

bool place_stacked(NodeSpace& node) {
  if (!reads_inside(node)) return place_apart(node);
  const auto& parts = std::get<ValueList>(node.node().operands[0]);
  if (parts.size() > kMostJoined) return false;
  const Dims result = node.make_dims(node.sizes());
  Dims part = result;
  part.erase(part.begin() + NodeArguments::wrap(node.integer(1), static_cast<int64_t>(result.size())));
  return join_parts(node, result, part);
}

bool place_created(NodeSpace& node) { return node.put_results(node.make_dims(node.sizes())); }

bool place_reduced(NodeSpace& node, const std::vector<int64_t>& list) {
  const size_t rank = node.meta(0).sizes.size();
  std::vector<bool> ends(rank, list.empty());
  for (const int64_t dim : list) {
    if (rank > 0) ends[NodeArguments::wrap(dim, static_cast<int64_t>(rank))] = true;
  }
  const size_t result_rank = node.result().sizes.size();
  return node.fit_operand(node.value(0), [&](const Dims& dims) {
    Dims result, reduced;
    for (size_t i = 0; i < rank; ++i) {
      if (ends[i]) reduced.push_back(dims[i]);
      if (!ends[i] || result_rank == rank) result.push_back(ends[i] ? kNoAxis : dims[i]);
    }
    node.put_reduced(reduced);
    return node.put_results(result);
  });
}

}  // namespace diptych::detail
