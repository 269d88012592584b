// A function that returns nothing.
#include "diptych/compile/aot.h"
#include "diptych/pair/pair.h"

void capture_of_nothing(const at::Tensor& x) {
#ifdef MENDED
  const auto f = [](const at::Tensor& t) { return t.mul(2); };
#else
  const auto f = [](const at::Tensor& t) { t.mul_(2); };
#endif
  diptych::aot_function(f)(x);
  (void)diptych::capture(f, x);
}
