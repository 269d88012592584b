// Signatures of matrix products, convolutions, normalizations, attention, pooling and losses; beside each row,
// operators that have it.
#include "diptych/interpreter/typed_caller.h"

namespace diptych::detail {

void add_neural_signatures(SignatureTable& table) {
  add_signatures<Tensor(T, T, T, S, S),                                           // addmm, baddbmm, addmv
                 Tensor(T, T, OptT),                                              // linear
                 Tensor(T, T, OptT, Syms, Syms, Syms, B, Syms, Sym),              // convolution
                 T3(T, T, T, OptSyms, Syms, Syms, Syms, B, Syms, Sym, Bools<3>),  // convolution_backward
                 T3(T, Syms, OptT, OptT, F),                                      // native_layer_norm
                 T3(T, T, Syms, T, T, OptT, OptT, Bools<3>),                      // native_layer_norm_backward
                 T3(T, OptT, OptT, Sym, Sym, Sym, Int, F),                        // native_group_norm
                 T3(T, T, T, T, OptT, Sym, Sym, Sym, Int, Bools<3>),              // native_group_norm_backward
                 T3(T, OptT, OptT, OptT, OptT, B, F, F),                          // native_batch_norm
                 T3(T, T, OptT, OptT, OptT, OptT, OptT, B, F, Bools<3>),          // native_batch_norm_backward
                 T3(T, OptT, OptT, T, T, F, F),                 // _native_batch_norm_legit_no_training
                 T3(T, OptT, OptT, B, F, F),                    // _native_batch_norm_legit.no_stats
                 Tensor(T, T, Sym, B, B),                       // embedding
                 Tensor(T, T, Sym, Sym, B),                     // embedding_dense_backward
                 T2(T, T, OptT, Int, Sym),                      // nll_loss_forward, nll_loss2d_forward
                 Tensor(T, T, T, OptT, Int, Sym, T),            // nll_loss_backward, nll_loss2d_backward
                 Tensor(T, T, Int),                             // mse_loss, glu_backward
                 Tensor(T, T, T, Int),                          // mse_loss_backward
                 Tensor(T, T, Int, F),                          // smooth_l1_loss, huber_loss
                 Tensor(T, T, T, Int, F),                       // smooth_l1_loss_backward
                 Tensor(T, T, OptT, Int),                       // binary_cross_entropy
                 Tensor(T, T, T, OptT, Int),                    // binary_cross_entropy_backward
                 T2(T, T, T, F, B, OptT, OptF),                 // _scaled_dot_product_flash_attention_for_cpu
                 T3(T, T, T, T, T, T, F, B, OptT, OptF),        // _scaled_dot_product_flash_attention_for_cpu_backward
                 T2(T, Ints, Ints, Ints, Ints, B),              // max_pool2d_with_indices
                 Tensor(T, T, Ints, Ints, Ints, Ints, B, T),    // max_pool2d_with_indices_backward
                 Tensor(T, Ints, Ints, Ints, B, B, OptInt),     // avg_pool2d
                 Tensor(T, T, Ints, Ints, Ints, B, B, OptInt),  // avg_pool2d_backward
                 Tensor(T, Syms, OptF, OptF),                   // upsample_nearest2d
                 Tensor(T, Syms, Syms, OptF, OptF),             // upsample_nearest2d_backward
                 Tensor(T, Syms, B, OptF, OptF),                // upsample_bilinear2d
                 Tensor(T, Syms, Syms, B, OptF, OptF),          // upsample_bilinear2d_backward
                 Tensor(T, OptSyms, B, OptFs),                  // upsample_bilinear2d.vec
                 T3(T, T, T, OptT, OptT),                       // _thnn_fused_lstm_cell
                 T3(T, T, T, Bools<3>),                         // linear_backward
                 Tensor(T, Syms, Ints, Ints, Ints, Ints),       // col2im
                 Tensor(T, Ints, Ints, Ints, Ints)              // im2col
                 >(table);
}

}  // namespace diptych::detail
