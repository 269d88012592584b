// C++ eager: the cost of a call, and a training step.
#include <torch/csrc/autograd/autograd.h>

#include "models.h"
#include "protocol.h"
#include "stepped.h"

namespace diptych::bench {

Cases eager_cases() {
  Cases cases;
  cases["call/forward"] = [](int repeat) {
    const auto inputs = two_element_inputs();
    return Reply{timed_in_batches(repeat, [&] { two_elements(inputs[0], inputs[1]); })};
  };
  cases["call/forward_backward"] = [](int repeat) {
    const auto inputs = two_element_inputs();
    return Reply{timed_in_batches(repeat, [&] {
      torch::autograd::grad({two_elements(inputs[0], inputs[1])}, {inputs[0], inputs[1]});
    })};
  };
  cases["step/gpt"] = Stepped("gpt", [](const Model& m) { return m.loss(m.params, m.buffers, m.data)[0]; });
  return cases;
}

}  // namespace diptych::bench
