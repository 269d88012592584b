// Signatures of reductions, scans, sorts and factorizations; beside each row, operators that have it.
#include "diptych/interpreter/typed_caller.h"

namespace diptych::detail {

void add_reduction_signatures(SignatureTable& table) {
  add_signatures<Tensor(T, OptType),                 // sum, mean, prod
                 Tensor(T, OptInts, B, OptType),     // sum.dim_IntList, mean.dim
                 Tensor(T, Ints, B),                 // amax, amin, logsumexp
                 T2(T, Int, B),                      // max.dim, sort
                 Tensor(T, OptInt, B),               // argmax
                 Tensor(T, Int, B),                  // any.dim, _softmax, _log_softmax
                 Tensor(T, OptInts, OptS, B),        // var.correction, std.correction
                 T2(T, OptInts, OptS, B),            // var_mean.correction
                 Tensor(T, Int, B, OptType),         // prod.dim_int
                 Tensor(T, Int, OptType),            // cumsum, cumprod
                 Tensor(T, OptS, Ints, B),           // norm.ScalarOpt_dim
                 Tensor(T, S, OptInts, B, OptType),  // linalg_vector_norm
                 T2(T, Sym, Int, B, B),              // topk
                 T2(T, OptInt, B),                   // aminmax
                 T2(T, Int),                         // cummax
                 T2(T, B),                           // linalg_inv_ex
                 T2(T, B, B),                        // linalg_cholesky_ex
                 Tensor(T, B),                       // cholesky, std
                 Tensor(T, T, B, B, B),              // linalg_solve_triangular
                 Tensor(T, T, F, OptInt),            // _cdist_forward
                 Tensor(T, T, Int, Type)             // _softmax_backward_data, _log_softmax_backward_data
                 >(table);
}

}  // namespace diptych::detail
