// C++ eager: the cost of a call, a training step, and loops written out.
#include "calls.h"
#include "stepped.h"
#include "suites.h"

namespace diptych::bench {

Cases eager_cases() {
  Cases cases;
  add_call_cases(cases, two_elements);
  cases["step/gpt"] = Stepped("gpt", eager_loss);
  add_eager_scan_cases(cases);
  add_layer_cases(cases, LayerWay::kEager);
  add_eager_xla_steps(cases);
  return cases;
}

}  // namespace diptych::bench
