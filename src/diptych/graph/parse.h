// Reading back what Graph::code() prints.
//
//   graph f(%0 x : f32[2,3] grad, %1 y : f32[3])
//     %2 : f32[2,3] = aten.add.Tensor(%0, %1, alpha=2)  # block0 · no_grad
//     [%3 : f32[1,3]{3,1}, %4 : f32[1,3]] = aten.split.Tensor(%2, 1)   // a remark
//     return (%2 sum, %4 row, none x.grad gradient)
#pragma once
#include <string_view>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych {

/// Finds a higher-order operator by its name without "hop."; null if there is none.
using FindHop = const HopSchema* (*)(std::string_view name);

/// Parses one graph. parse(g.code(), all_constants(g)) is identical to g. Values may skip numbers as long as they rise
/// in order of definition; they are renumbered from 0. The graph that is returned verifies.
/// Errors: UserError with line and column, what the text has there and what was expected.
Graph parse(std::string_view text, const std::vector<at::Tensor>& constants = {}, FindHop find_hop = nullptr);

}  // namespace diptych
