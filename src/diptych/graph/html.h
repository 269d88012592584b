// A graph, or a pair of them, as one self-contained web page.
#pragma once
#include <functional>
#include <string>

#include "diptych/graph/graph.h"

namespace diptych {

/// Draws a pair: the forward graph downwards on the left, the residuals with their bytes in the middle, the backward
/// graph upwards on the right, so that a residual's two ends are near each other. The page pans, zooms and searches; a
/// click on a node shows its line, metadata, operands and users. Residual slots are matched in order.
std::string html(const Graph& forward, const Graph& backward, const std::string& title);

/// Draws one graph. The box of a node for which `is_group` is true shows the nodes of its bodies.
std::string html(const Graph& graph, const std::string& title, const std::function<bool(const Node&)>& is_group = {});

namespace detail {
/// The page with `{{title}}` and `{{data}}` for html() to fill in.
extern const char* const kHtmlPage;
}  // namespace detail
}  // namespace diptych
