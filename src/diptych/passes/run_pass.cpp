#include "diptych/passes/run_pass.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "diptych/base/check.h"
#include "diptych/base/log.h"
#include "diptych/base/switches.h"
#include "diptych/graph/identical.h"
#include "diptych/graph/verify.h"

namespace diptych::detail {
namespace {

#ifdef NDEBUG
constexpr bool kAlwaysVerify = false;
#else
constexpr bool kAlwaysVerify = true;
#endif

bool is_named_in(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == name || list.substr(0, comma) == "all") return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

bool is_off(std::string_view name, const PassOptions& options) {
  if (std::find(options.off.begin(), options.off.end(), name) != options.off.end()) return true;
  const char* environment = std::getenv("DIPTYCH_PASSES_OFF");
  return environment != nullptr && is_named_in(environment, name);
}

void check_result(std::string_view name, const Graph& before, const Graph& after) {
  DIPTYCH_ASSERT(before.inputs().size() == after.inputs().size() && before.outputs().size() == after.outputs().size(),
                 "pass '{}' turned {} inputs and {} outputs of '{}' into {} and {}", name, before.inputs().size(),
                 before.outputs().size(), before.name(), after.inputs().size(), after.outputs().size());
  const auto problem = find_problem(after);
  DIPTYCH_ASSERT(!problem, "pass '{}' broke '{}': {}\n{}", name, before.name(), problem->what, after.code());
}

}  // namespace

Graph run_pass(std::string_view name, const Graph& graph, const std::function<Graph(const Graph&)>& pass,
               const PassOptions& options) {
  if (is_off(name, options)) return graph;
  const auto begin = std::chrono::steady_clock::now();
  Graph result = pass(graph);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (kAlwaysVerify || options.verify) check_result(name, graph, result);
  if (log_enabled(Log::kPasses)) {
    const bool is_changed = !identical(graph, result);
    log(Log::kPasses, "{} of '{}': {} -> {} nodes in {:.3f} ms{}{}", name, graph.name(), graph.nodes().size(),
        result.nodes().size(), took.count(), is_changed ? "\n" : ", no change", is_changed ? result.code() : "");
  }
  return result;
}

}  // namespace diptych::detail
