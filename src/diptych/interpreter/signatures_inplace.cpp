// Signatures of the in-place and out= forms that reuse a dead operand's storage, or take memory; see reuse.h and
// allocated_results.h.
#include "diptych/interpreter/typed_caller.h"

namespace diptych::detail {

void add_inplace_signatures(SignatureTable& table) {
  add_signatures<W(W),                       // tanh_
                 W(T, W),                    // tanh.out, silu.out
                 W(W, T),                    // mul_.Tensor
                 W(T, T, W),                 // mul.out, sigmoid_backward.grad_input, mm.out
                 W(W, S),                    // mul_.Scalar
                 W(T, S, W),                 // pow.Tensor_Scalar_out, leaky_relu.out
                 W(S, T, W),                 // pow.Scalar_out
                 W(W, T, S),                 // add_.Tensor, masked_fill_.Scalar
                 W(T, T, S, W),              // add.out, threshold_backward.grad_input
                 W(W, S, S),                 // add_.Scalar, hardtanh_
                 W(T, S, S, W),              // softplus.out
                 W(W, T, OptStr),            // div_.Tensor_mode
                 W(T, T, OptStr, W),         // div.out_mode
                 W(W, T, T),                 // masked_fill_.Tensor, lerp_.Tensor
                 W(T, T, T, W),              // where.self_out, lerp.Tensor_out
                 W(W, OptS, OptS),           // clamp_
                 W(T, OptS, OptS, W),        // clamp.out
                 W(W, OptT, OptT),           // clamp_.Tensor
                 W(T, OptT, OptT, W),        // clamp.Tensor_out
                 W(T, T, S, B, W),           // leaky_relu_backward.grad_input
                 W(T, T, S, S, W),           // hardtanh_backward.grad_input, softplus_backward.grad_input
                 W(W, S, S, S),              // elu_
                 W(T, S, S, S, W),           // elu.out
                 W(T, S, S, S, B, T, W),     // elu_backward.grad_input
                 W(T, T, T, S, S, W),        // addmm.out, baddbmm.out
                 W(W, Str),                  // gelu_
                 W(T, Str, W),               // gelu.out
                 W(T, T, Str, W),            // gelu_backward.grad_input
                 W(W, T, T, S),              // addcmul_
                 W(T, T, T, S, W),           // addcmul.out
                 W(T, T, T, Int, W),         // mse_loss_backward.grad_input
                 W(W, OptF, OptF, OptF),     // nan_to_num_
                 W(T, OptF, OptF, OptF, W),  // nan_to_num.out
                 W(W, OptF),                 // logit_
                 W(T, OptF, W),              // logit.out
                 W(T, T, OptF, W),           // logit_backward.grad_input
                 W(W, Int),                  // round_.decimals
                 W(T, Int, W)                // round.decimals_out
                 >(table);
}

}  // namespace diptych::detail
