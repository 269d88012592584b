// Signatures of pointwise operators; beside each row, operators that have it.
#include "diptych/interpreter/typed_caller.h"

namespace diptych::detail {

void add_pointwise_signatures(SignatureTable& table) {
  add_signatures<Tensor(T),                    // tanh, exp, relu, t, alias, detach
                 Tensor(T, T),                 // mul.Tensor, div.Tensor, sigmoid_backward, mm, bmm
                 Tensor(T, S),                 // mul.Scalar, pow.Tensor_Scalar, clamp_min, leaky_relu, eq.Scalar
                 Tensor(S, T),                 // pow.Scalar
                 Tensor(T, T, S),              // add.Tensor, sub.Tensor, masked_fill.Scalar, threshold_backward
                 Tensor(T, S, S),              // add.Scalar, rsub.Scalar, softplus
                 Tensor(T, S, T),              // where.ScalarSelf
                 Tensor(T, T, OptStr),         // div.Tensor_mode
                 Tensor(T, S, OptStr),         // div.Scalar_mode
                 Tensor(T, T, T),              // where.self, masked_fill.Tensor, lerp.Tensor
                 Tensor(T, OptS, OptS),        // clamp
                 Tensor(T, OptT, OptT),        // clamp.Tensor
                 Tensor(T, T, S, S),           // hardtanh_backward, softplus_backward
                 Tensor(T, T, S, B),           // leaky_relu_backward
                 Tensor(T, S, S, S),           // elu
                 Tensor(T, S, S, S, B, T),     // elu_backward
                 Tensor(T, Str),               // gelu
                 Tensor(T, T, Str),            // gelu_backward
                 Tensor(T, T, T, S),           // addcmul, addcdiv
                 Tensor(T, OptF, OptF, OptF),  // nan_to_num
                 Tensor(T, OptF),              // logit
                 Tensor(T, T, OptF),           // logit_backward
                 Tensor(Int, T),               // polygamma
                 Tensor(T, T, B, B),           // isin.Tensor_Tensor
                 T2(T),                        // log_sigmoid_forward, frexp
                 T2(T, T, T)                   // _prelu_kernel_backward
                 >(table);
}

}  // namespace diptych::detail
