// C++ eager: the cost of a call, and a training step.
#include "calls.h"
#include "stepped.h"

namespace diptych::bench {

Cases eager_cases() {
  Cases cases;
  add_call_cases(cases, two_elements);
  cases["step/gpt"] = Stepped("gpt", eager_loss);
  return cases;
}

}  // namespace diptych::bench
