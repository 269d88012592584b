#include "diptych/compile/check_constants.h"

#include <fmt/format.h>

#include "diptych/base/error.h"
#include "diptych/graph/identical.h"
#include "diptych/passes/remove_dead_nodes.h"

namespace diptych::detail {
namespace {

std::string first_other_tensor(const CapturedFunction& captured, const CapturedFunction& now) {
  const auto &before = captured.free_variables(), &after = now.free_variables();
  const auto& slots = captured.traced_graph().input_slots();
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    if (!before[i].is_same(after[i])) {
      return fmt::format("the tensor that it captures as '{}', and now another one",
                         slots[captured.num_arguments() + i].path);
    }
  }
  return before.size() == after.size() ? "" : "other tensors that it captures";
}

}  // namespace

void report_moved(const std::string& function, const std::string& what) {
  throw_user_error(fmt::format(
      "[check_constants {}] the graph was captured with {}; something that the function reads besides its arguments "
      "has "
      "changed (a variable captured by reference, a global, a member), and no guard of C++ looks there; pass it as an "
      "argument, or call clear() after such a change (check_constants = 0 turns this check off)",
      function, what));
}

void check_constants(const CapturedFunction& captured, const CapturedFunction& now) {
  std::string what = first_other_tensor(captured, now);
  if (what.empty()) what = first_difference(remove_dead_nodes(captured.traced_graph()), now.traced_graph());
  if (what.empty()) what = first_difference(captured.plan().epilogue, now.plan().epilogue);
  if (!what.empty()) report_moved(captured.options().name, what);
}

}  // namespace diptych::detail
