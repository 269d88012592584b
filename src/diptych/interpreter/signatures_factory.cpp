// Signatures of operators that make tensors, random ones included; beside each row, operators that have it.
#include "diptych/interpreter/typed_caller.h"

namespace diptych::detail {

void add_factory_signatures(SignatureTable& table) {
  add_signatures<Tensor(T, OptType, OptLayout, OptDevice, OptB, OptFormat),     // zeros_like, empty_like
                 Tensor(T, S, OptType, OptLayout, OptDevice, OptB, OptFormat),  // full_like
                 Tensor(Syms, S, OptType, OptLayout, OptDevice, OptB),          // full
                 Tensor(Syms, OptType, OptLayout, OptDevice, OptB),             // zeros, ones, rand, randn
                 Tensor(Syms, OptType, OptLayout, OptDevice, OptB, OptFormat),  // empty.memory_format
                 Tensor(Syms, Syms, OptType, OptLayout, OptDevice, OptB),       // empty_strided
                 Tensor(S, OptType, OptLayout, OptDevice, OptB),                // arange, scalar_tensor
                 Tensor(S, S, OptType, OptLayout, OptDevice, OptB),             // arange.start
                 Tensor(S, S, S, OptType, OptLayout, OptDevice, OptB),          // arange.start_step
                 Tensor(T, Syms, OptType, OptLayout, OptDevice, OptB),          // new_zeros, new_empty
                 Tensor(T, Syms, S, OptType, OptLayout, OptDevice, OptB),       // new_full
                 Tensor(T, Syms, Syms, OptType, OptLayout, OptDevice, OptB),    // new_empty_strided
                 Tensor(Sym, Syms, OptType, OptLayout, OptDevice, OptB),        // randint
                 Tensor(Sym, Sym, Syms, OptType, OptLayout, OptDevice, OptB),   // randint.low
                 Tensor(Sym, OptType, OptLayout, OptDevice, OptB),              // randperm
                 Tensor(T, F, OptGen),                                          // bernoulli.p
                 Tensor(T, OptGen),                                             // bernoulli
                 Tensor(T, T, OptGen),                                          // bernoulli.Tensor
                 Tensor(T, F, F, OptGen),                                       // uniform, normal_functional
                 T2(T, F, OptB),                                                // native_dropout
                 Tensor(T, T, F)                                                // native_dropout_backward
                 >(table);
}

}  // namespace diptych::detail
