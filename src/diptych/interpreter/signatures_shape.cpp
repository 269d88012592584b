// Signatures of operators that view, copy, index or join tensors; beside each row, operators that have it.
#include "diptych/interpreter/typed_caller.h"

namespace diptych::detail {

void add_shape_signatures(SignatureTable& table) {
  add_signatures<Tensor(T, Syms),                                               // view, _unsafe_view, repeat
                 Tensor(T, Syms, B),                                            // expand
                 Tensor(T, Ints),                                               // permute, squeeze.dims, flip
                 Tensor(T, Int),                                                // unsqueeze, squeeze.dim
                 Tensor(T, Int, Int),                                           // transpose.int
                 Tensor(T, Int, Int, Int),                                      // diagonal, unfold
                 Tensor(T, Int, Sym),                                           // select.int
                 Tensor(T, Int, Sym, Sym),                                      // narrow
                 Tensor(T, Int, OptSym, OptSym, Sym),                           // slice.Tensor
                 Tensor(T, Syms, Syms),                                         // _reshape_alias
                 Tensor(T, Syms, Syms, OptSym),                                 // as_strided
                 Tensor(T, Syms, Ints),                                         // roll
                 Tensor(T, Type),                                               // view.dtype
                 Tensor(T, OptFormat),                                          // clone
                 Tensor(T, Format),                                             // contiguous
                 Tensor(T, T, B),                                               // copy
                 Tensor(T, OptType, OptLayout, OptDevice, OptB, B, OptFormat),  // _to_copy
                 Tensor(TensorRefs, Int),                                       // cat
                 Tensor(Tensors, Int),                                          // stack
                 TList(T, Sym, Int),                                            // split.Tensor
                 TList(T, Syms, Int),                                           // split_with_sizes
                 TList(T, Int),                                                 // unbind.int
                 Tensor(T, OptTensors),                                         // index.Tensor
                 Tensor(T, OptTensors, T, B),                                   // index_put
                 Tensor(T, OptTensors, T, B, B),                                // _index_put_impl
                 Tensor(T, Int, T, B),                                          // gather
                 Tensor(T, Int, T, T),                                          // scatter.src, scatter_add, index_copy
                 Tensor(T, Int, T, S),                                          // scatter.value, index_fill.int_Scalar
                 Tensor(T, Int, T),                                             // index_select
                 Tensor(T, Int, T, T, S),                                       // index_add
                 Tensor(T, Int, T, T, Str, B),                                  // scatter_reduce.two
                 Tensor(T, Syms, Int, Sym, Sym, Sym),                           // slice_backward
                 Tensor(T, Syms, Int, Sym),                                     // select_backward
                 Tensor(T, T, Int, OptSym, OptSym, Sym),                        // slice_scatter
                 Tensor(T, T, Int, Sym),                                        // select_scatter
                 Tensor(T, T, Int, Int, Int),                                   // diagonal_scatter
                 Tensor(T, T, Syms, Syms, OptSym),                              // as_strided_scatter
                 Tensor(T, T, Syms),                                            // reflection_pad2d_backward
                 Tensor(T, Syms, S),                                            // constant_pad_nd
                 Tensor(T, Sym)                                                 // triu, tril
                 >(table);
}

}  // namespace diptych::detail
