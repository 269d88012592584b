// Random numbers of the host language as an operator: a graph draws them anew in each call, in the order in which the
// function does.
#pragma once
#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include "diptych/graph/op.h"

namespace diptych::detail {

/// A generator of the host language, such as that of Python's random module. Its state is a tensor u8[n], which means
/// something to the host alone. Whoever locks its mutex holds no lock of the host's.
class HostGenerator : public c10::GeneratorImpl {
 public:
  HostGenerator() : GeneratorImpl(c10::Device(c10::kCPU), c10::DispatchKeySet(c10::DispatchKey::CPU)) {}
  /// Returns the next number of [0, 1), in double precision.
  virtual double draw() = 0;

  void set_current_seed(uint64_t) final { refuse("a seed"); }
  uint64_t current_seed() const final { return 0; }
  uint64_t seed() final { refuse("a seed"); }
  void set_offset(uint64_t) final { refuse("an offset"); }
  uint64_t get_offset() const final { return 0; }

 private:
  [[noreturn]] static void refuse(const char* what);
  GeneratorImpl* clone_impl() const final { refuse("a copy"); }
};

/// Returns "diptych.host_draw(Generator? generator, Device device) -> Tensor", f64[]: the next number of a
/// HostGenerator. Op::find() knows it from the first call on. Threads: any.
const Op& host_draw_operator();

}  // namespace diptych::detail
