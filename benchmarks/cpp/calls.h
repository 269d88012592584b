// The cases of one call of a small function; they differ between the engines of the worker only in the function.
#pragma once
#include "checks.h"
#include "protocol.h"

namespace diptych::bench {

/// Adds call/forward and call/forward_backward of `function`, the engine's version of two_elements.
template <class F>
void add_call_cases(Cases& cases, F function) {
  cases["call/forward"] = [function](int repeat) {
    check_two_elements(function);
    const auto inputs = two_element_inputs();
    return Reply{timed_in_batches(repeat, [&] { function(inputs[0], inputs[1]); })};
  };
  cases["call/forward_backward"] = [function](int repeat) {
    check_two_elements(function);
    const auto inputs = two_element_inputs();
    return Reply{timed_in_batches(repeat, [&] {
      torch::autograd::grad({function(inputs[0], inputs[1])}, {inputs[0], inputs[1]});
    })};
  };
}

}  // namespace diptych::bench
