#include "diptych/compile/explain_captures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "diptych/graph/tensor_meta.h"

namespace diptych::detail {
namespace {

/// A line, and what stands below it.
struct Branch {
  std::string line;
  std::vector<Branch> below = {};

  Branch& child(const std::string& text) {
    for (Branch& branch : below) {
      if (branch.line == text) return branch;
    }
    return below.emplace_back(Branch{text});
  }
  void write(std::string& out, size_t depth) const {
    out += fmt::format("{:{}}{}\n", "", 2 * depth, line);
    for (const Branch& branch : below) branch.write(out, depth + 1);
  }
};

std::string arguments_of(const CapturedFunction& captured) {
  const Graph& graph = captured.forward();
  std::vector<std::string> arguments;
  for (size_t i = 0; i < captured.num_arguments(); ++i) {
    arguments.push_back(fmt::format("{} {}", graph.input_slots()[i].path, type_string(graph.meta(graph.inputs()[i]))));
  }
  return arguments.empty() ? "no tensor" : fmt::format("{}", fmt::join(arguments, ", "));
}

std::string graphs_of(const CompiledFunction& code) {
  const CapturedFunction& captured = code.captured();
  const std::string gradients =
      captured.is_differentiable() ? fmt::format(", {} tensors kept for the backward", captured.num_residuals()) : "";
  return fmt::format("a graph of {} nodes{}{}", captured.forward().nodes().size(),
                     code.takes_results() ? ", which takes what the questions have computed" : "", gradients);
}

}  // namespace

std::string explain_captures(const std::vector<std::shared_ptr<const Cache::Entry>>& entries) {
  Branch root;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const Cache::Entry& one = **entry;
    if (one.code == nullptr || !one.original.empty()) {
      root.below.push_back({fmt::format("the function itself: it {}", one.original)});
      continue;
    }
    Branch* place = &root.child(arguments_of(one.code->captured()));
    for (size_t i = 0; one.path && i < one.path->size(); ++i) {
      place = &place->child(one.path->question(i)).child(one.path->answer(i));
    }
    place->below.push_back({graphs_of(*one.code)});
  }
  std::string text;
  for (const Branch& branch : root.below) branch.write(text, 0);
  return text;
}

}  // namespace diptych::detail
