"""Diptych: the forward and backward graphs of functions on torch tensors, with a signature that never moves.

    loss_fn = diptych.aot_function(loss_fn, partition="min_cut")
    loss_fn(params, batch).backward()

    pair = diptych.capture(loss_fn, params, batch)
    print(pair.forward.code(), pair.backward.code(), pair.signature)

Functions are traced by running them on stand-ins for their arguments: no bytecode is read, and what torch code does is
recorded, whoever wrote it. Arguments and results are trees: tuples, lists, dicts (in the order of their sorted keys, as in
JAX), named tuples, dataclasses, classes registered with torch.utils._pytree, and torch.nn modules, whose parameters and
buffers are inputs under their names.
"""
from ._torch import check as _check  # before the library is loaded, since it fits only one version of torch
from ._build import VERSION as _version
from ._core import (
    Aot,
    BackwardStatistics,
    CacheStats,
    CheckpointPolicy,
    Graph,
    InternalError,
    NativeGraph,
    NativeKernel,
    Node,
    Options,
    Pair,
    Program,
    Scope as scope,
    Signature,
    SlotInfo,
    StableHlo,
    TimeKernels as time_kernels,
    TensorMeta,
    UserError,
    Value,
    associative_scan,
    backend_names,
    call_pair,
    cond,
    default_backend,
    eager_calls,
    load_tensors,
    make_pair,
    map,
    name_residual,
    parse,
    save_everything_but_pointwise,
    save_matrix_products,
    save_names,
    save_nothing,
    save_tensors,
    save_within_budget,
    scan,
    scan_layers,
    tensors_of_argument,
    wait_for_compilers,
    while_loop,
)
from . import _display, backward_capture, fx, xla
from ._files import export_stablehlo, load, save
from ._functions import (
    aot_function,
    capture,
    capture_with,
    checkpoint,
    custom_vjp,
    grad,
    value_and_grad,
)
from ._modules import AotModule, aot_module, compile
from ._specs import spec
from ._host.numbers import draws as _draws, floats as _floats, item as _item
from ._torch import backward as _backward, batch_norm as _batch_norm, checkpoint as _checkpoint, distributed as _distributed, indexing as _indexing, memory as _memory, operators as _operators

for _module in (_draws, _floats, _item, _backward, _batch_norm, _checkpoint, _distributed, _indexing, _memory, _operators):
    _module.replace()

__version__ = _version
__all__ = sorted(name for name in globals() if not name.startswith("_"))
