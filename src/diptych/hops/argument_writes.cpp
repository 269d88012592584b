#include "diptych/hops/argument_writes.h"

#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>

#include "diptych/base/check.h"
#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

bool leaves_a_value(const ArgumentWrite& write) { return !write.is_next_carry; }

// The primals of the innermost trace that share memory with `tensor`, but for `own`; their path, if there are any.
std::optional<std::string> shared_with_primal(const at::Tensor& tensor, const at::Tensor& own) {
  for (const Primal& primal : Recorder::current()->primals()) {
    if (primal.stand_in.is_same(own)) continue;
    if (may_share_memory(tensor, primal.stand_in)) return primal.slot.path;
  }
  return std::nullopt;
}

}  // namespace

// Without gradients the mode makes no difference, but a capture around this call would take a write that autograd does
// not see for one that hides something.
void write_back(const at::Tensor& tensor, const at::Tensor& value, bool under_no_grad) {
  const bool hides = under_no_grad && (tensor.requires_grad() || value.requires_grad());
  const c10::AutoGradMode mode(!hides && c10::GradMode::is_enabled());
  at::Tensor(tensor).copy_(value);
}

Tensors operands_before(const std::vector<ArgumentWrite>& writes, Tensors arguments) {
  for (const ArgumentWrite& write : writes) arguments[write.argument] = arguments[write.argument].clone();
  return arguments;
}

Tensors write_arguments(const std::vector<ArgumentWrite>& writes, const Tensors& arguments, size_t num_carries,
                        Tensors results, std::optional<int64_t> first_step) {
  const auto num_values = std::count_if(writes.begin(), writes.end(), leaves_a_value);
  auto value = results.end() - num_values;
  for (const ArgumentWrite& write : writes) {
    const at::Tensor& argument = arguments[write.argument];
    if (write.is_next_carry) {
      write_back(argument, results[write.argument], write.under_no_grad);
    } else if (write.argument >= num_carries) {
      write_back(argument, *value++, write.under_no_grad);
    } else if (const at::Tensor& stack = *value++; first_step) {
      write_back(argument, stack.select(0, *first_step), write.under_no_grad);
    }
  }
  results.erase(results.end() - num_values, results.end());
  return results;
}

void check_next_carries_are_their_own(const char* who, const std::vector<ArgumentWrite>& changed, const Tensors& given,
                                      const Tensors& returned, const std::vector<std::string>& paths,
                                      size_t num_carries) {
  for (const ArgumentWrite& write : changed) {
    if (write.argument >= num_carries) continue;
    const at::Tensor& next = returned[write.argument];
    const at::Tensor& own = given[write.argument];
    const auto check = [&](bool is_other, const std::string& path) {
      DIPTYCH_CHECK(!is_other,
                    "[{}] the body changes the carry '{}' in place, and returns a carry that shares memory with '{}', "
                    "which a later step would change; return clone() of one of them",
                    who, paths[write.argument], path);
    };
    const auto primal = shared_with_primal(next, next.is_same(own) ? own : at::Tensor());
    check(primal.has_value(), primal.value_or(""));
    for (size_t i = 0; i < returned.size(); ++i) {
      check(i != write.argument && returned[i].defined() && may_share_memory(returned[i], next), paths[i]);
    }
  }
}

}  // namespace diptych::detail
