"""torch's higher-order operators in a trace: Diptych's operators of the same meaning.

torch.cond() and its kin have Dynamo look at their functions, and then call an object that stands for the operator. While a trace
runs on this thread, Dynamo is left out, and the operator is Diptych's, with torch's argument conventions; else all is torch's.
"""
import functools

import torch
from torch._functorch import eager_transforms
from torch._higher_order_ops import utils
from torch._higher_order_ops.associative_scan import AssociativeScanOp
from torch._higher_order_ops.cond import CondOp
from torch._higher_order_ops.flex_attention import FlexAttentionHOP, sdpa_dense
from torch._higher_order_ops.invoke_subgraph import InvokeSubgraphHOP
from torch._higher_order_ops.map import MapImpl
from torch._higher_order_ops.scan import ScanOp
from torch._higher_order_ops.while_loop import WhileLoopOp
from torch.amp.autocast_mode import _cast
from torch.utils import _pytree

from .. import _core
from .._host.register import is_tracing


class _Tensors:
    """A function whose results are the tensors of what `function` returns; the rest is kept, as it is the same each time."""

    def __init__(self, function):
        self._function = function
        self._leaves = self._tree = None

    def __call__(self, *args):
        self._leaves, self._tree = _pytree.tree_flatten(self._function(*args))
        return tuple(leaf for leaf in self._leaves if isinstance(leaf, torch.Tensor))

    def rebuilt(self, tensors):
        """Returns what `function` returned, with these tensors in the place of its own."""
        rest = iter(tensors)
        return _pytree.tree_unflatten([next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves], self._tree)


def _cond(_, predicate, if_true, if_false, operands):
    return _core.cond(predicate, if_true, if_false, *operands)


def _scan(_, combine, init, xs, additional_inputs, **mutated):
    tensors = _Tensors(combine)

    def step(carry, slices):
        results = tensors(*carry, *slices, *additional_inputs)
        return results[: len(init)], results[len(init) :]

    carry, ys = _core.scan(step, tuple(init), tuple(xs))
    return tensors.rebuilt((*carry, *ys))


def _map(_, function, xs, operands, **mutated):
    tensors = _Tensors(function)
    return tensors.rebuilt(_core.map(lambda slices: tensors(*slices, *operands), tuple(xs)))


def _while_loop(_, condition, body, carried, additional_inputs, **mutated):
    tensors = _Tensors(body)
    if all(isinstance(one, torch.Tensor) for one in carried):
        last = _core.while_loop(lambda carry: condition(*carry, *additional_inputs), lambda carry: tensors(*carry, *additional_inputs), tuple(carried))
        return tensors.rebuilt(last)
    result = carried  # numbers decide on the host
    while condition(*carried, *additional_inputs):
        result = body(*carried, *additional_inputs)
        carried = _pytree.tree_leaves(result)
    return result


def _associative_scan(_, combine, xs, additional_inputs):
    of_elements = torch.vmap(lambda a, b: tuple(_pytree.tree_leaves(combine(*a, *b, *additional_inputs))))
    return _core.associative_scan(of_elements, tuple(xs))


def _invoke_subgraph(_, function, identifier, *operands):
    return function(*operands)


@functools.cache
def _replace_index():
    """Has an index into a tensor that scores are made with be an operator, not torch's Function, whose backward has no derivative."""
    from torch._dynamo import _trace_wrapped_higher_order_op as of_scores  # Dynamo takes seconds to load

    of_scores.mod_index = _in_traces(torch.ops.aten.index, of_scores.mod_index)


def _flex_attention(_, query, key, value, score_mod, block_mask, scale, kernel_options, buffers=(), mask_buffers=()):
    """Written out, as torch does where it compiles nothing. A mask is no number, so gradients go to what the scores are made of."""
    _replace_index()
    device = query.device.type
    if torch.is_autocast_enabled(device):
        query, key, value = (_cast(one, device, torch.get_autocast_dtype(device)) for one in (query, key, value))
    with torch.autocast(device, enabled=False):
        return sdpa_dense(query, key, value, score_mod, block_mask, scale, kernel_options, buffers, mask_buffers)


_KERNELS = {
    CondOp: _cond,
    ScanOp: _scan,
    MapImpl: _map,
    WhileLoopOp: _while_loop,
    AssociativeScanOp: _associative_scan,
    FlexAttentionHOP: _flex_attention,
    InvokeSubgraphHOP: _invoke_subgraph,
}


def _in_traces(ours, torchs):
    """Returns a function that is `ours` while a trace runs on this thread, else `torchs`."""

    @functools.wraps(torchs)
    def call(*args, **kwargs):
        return (ours if is_tracing() else torchs)(*args, **kwargs)

    return call


def _refuse_linearize(make_fx):
    raise _core.UserError(
        "[capture] torch.func.linearize is called by the function that is captured, and would trace it, too, expected transforms that call it; "
        "use jvp, or call linearize outside"
    )


def replace():
    """Puts Diptych's operators in the place of torch's in traces."""
    # What linearize calls first to make its graph, however it was imported.
    eager_transforms.lazy_dynamo_disallow = _in_traces(_refuse_linearize, eager_transforms.lazy_dynamo_disallow)
    for operator, kernel in _KERNELS.items():
        operator.__call__ = _in_traces(kernel, operator.__call__)
    utils._hop_compile_and_call = _in_traces(lambda function, args, kwargs=None: function(*args, **(kwargs or {})), utils._hop_compile_and_call)
