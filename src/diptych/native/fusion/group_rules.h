// Which groups one kernel can compute without doing anything twice that costs something.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "diptych/native/fusion/fusion_facts.h"
#include "diptych/native/lower/group_space.h"

namespace diptych::detail {

// Note [Rows and points]
// The atoms of a group's space (see Note [Axes are made of atoms]) are of two kinds. A reduction whose result is used
// again within the group, by a value that runs along what it took away or by another reduction, ends atoms that make up
// rows: the row is gone through several times, while it lies in cache. All other atoms are points: each is visited
// once, by any thread, and every row belongs to one. A reduction over a row alone is an inner one. All others are
// terminal: they add up over points, so their results are there only after all of them, and only values of their own
// domain may follow. The check of a node (see lower_group()) is a terminal reduction over all points, of what the
// node follows from.

/// Returns why the nodes of a space are no good group; none if they are one. `is_needed` tells whether a value that
/// they make is read by other nodes, so that it is an output.
std::optional<std::string> find_group_problem(const FusionFacts& facts, const GroupSpace& space,
                                              const std::function<bool(Value)>& is_needed);

}  // namespace diptych::detail
