"""torch.utils.checkpoint in a trace: a region of Diptych's own, which is computed again in the backward.

torch's checkpoint runs its function again when the backward comes to it, with the generator set back; a graph can do neither,
and needs to do neither, since it knows which values to compute again. So what torch.utils.checkpoint.checkpoint() calls, however
it was imported, asks whether a trace runs on this thread. Outside a trace it is torch's.
"""
import functools
import inspect
import threading

import torch
from torch._higher_order_ops import wrap
from torch.utils import _pytree
from torch.utils import checkpoint as _torchs
from torch.utils._python_dispatch import TorchDispatchMode

from .. import _core
from .._host.register import is_tracing


def in_region(function, args=(), kwargs=None, policy=None):
    """Returns function(*args, **kwargs), whose nodes are marked as a checkpoint region. Arguments and result stay the objects that
    they are, whatever they hold."""
    results = []
    _core.call_checkpointed(lambda: results.append(function(*args, **(kwargs or {}))), policy or _core.save_nothing())
    return results[0]


class _Tracked(torch.autograd.Function):
    """Gives tensors as results that require grad because `like` does; no gradient passes."""

    @staticmethod
    def forward(ctx, like, *tensors):
        return tuple(tensor.detach() for tensor in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        return (None,) * (len(gradients) + 1)


def _as_of_function(result, inputs):
    """Returns what an autograd.Function with these differentiable inputs would make of one of its results."""
    if not isinstance(result, torch.Tensor):
        return _detached(result)
    if any(result is one for one in inputs):
        return result.view_as(result)
    if result.requires_grad or not (result.is_floating_point() or result.is_complex()):
        return result
    return _Tracked.apply(inputs[0], result)[0]


def _detached(tree):
    return _pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, tree)


def reentrant(function, *args):
    """Returns what a reentrant checkpoint of function(*args) gives. Its function runs in an autograd.Function: tensors among the
    arguments that require grad, not those in containers, decide whether the results do."""
    _torchs.check_backward_validity(args)
    inputs = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.requires_grad]
    if not inputs or not torch.is_grad_enabled():
        with torch.no_grad():
            return function(*args)
    result = in_region(function, args)
    if isinstance(result, tuple):
        return tuple(_as_of_function(part, inputs) for part in result)
    return _as_of_function(result, inputs)


_SAVED = frozenset((_torchs.CheckpointPolicy.MUST_SAVE, _torchs.CheckpointPolicy.PREFER_SAVE))


def _operator(name):
    """Returns torch's operator of a node, aten.mm or aten.add.Tensor; None for one of Diptych's own."""
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.partition(".")
    if namespace in ("hop", "diptych", "on_copies"):
        return None
    return getattr(getattr(getattr(torch.ops, namespace), packet, None), overload or "default", None)


def _by_policy(policy):
    """Returns the rule of a region that keeps what a policy of torch's selective checkpoints keeps. It is asked of each operator of
    the graph, once, with its tensors on the device "meta"; only what is kept depends on the answer."""

    def decide(name, operands):
        operator = _operator(name)
        if operator is None or operator in _torchs.SAC_IGNORED_OPS:
            return False
        answer = policy(_torchs.SelectiveCheckpointContext(is_recompute=False), operator, *operands)
        return answer if isinstance(answer, bool) else answer in _SAVED

    return _core.save_by_rule("selective", decide)


def _policy_of(use_reentrant=None, context_fn=_torchs.noop_context_fn, determinism_check="default", **others):
    """Returns the policy of a region that says all that a checkpoint with these arguments would do; None if none does, as for a
    reentrant one. Errors: UserError for a mode of the user's own, which sees operators that no graph calls."""
    if use_reentrant is not False or determinism_check not in _torchs._allowed_determinism_checks_to_fns:
        return None
    if context_fn is _torchs.noop_context_fn:
        return _core.save_nothing()
    forward = context_fn()[0]
    if type(forward) is _torchs._CachingTorchDispatchMode:
        return _core.save_nothing() if forward.policy_fn is wrap._always_prefer_recompute else _by_policy(forward.policy_fn)
    if isinstance(forward, TorchDispatchMode):
        raise _core.UserError(
            f"[capture] the function calls torch.utils.checkpoint with a context_fn that makes a {type(forward).__name__}, which decides by operator what is "
            "kept, and no operator of a graph calls it; use Diptych's checkpoint() with a policy, such as save_matrix_products()"
        )
    return None


def _without_options(kwargs):
    """Returns the keyword arguments of a checkpoint that are its function's."""
    options = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop", "respect_saved_tensors_hooks")
    return {name: value for name, value in kwargs.items() if name not in options}


def _replace_checkpoint():
    """Has torch.utils.checkpoint.checkpoint() ask first. It calls what stands in this attribute of what torch wrote, where Dynamo
    puts itself at the first call."""
    written = _torchs.checkpoint.__wrapped__
    attribute = "__dynamo_disable"
    replaced = getattr(written, attribute, None)

    @functools.cache
    def torchs():
        import torch._dynamo

        return replaced or torch._dynamo.disable(written, True, wrapping=False)

    def checkpoint(*args, **kwargs):
        if args and args[0] is not None and is_tracing() and (policy := _policy_of(**kwargs)):
            return in_region(args[0], args[1:], _without_options(kwargs), policy)
        return torchs()(*args, **kwargs)

    setattr(written, attribute, checkpoint)


def _replace_decorated():
    """Has what checkpoint(use_reentrant=False) decorates ask first, which doesn't call checkpoint(); from torch 2.14 on."""
    torchs = getattr(_torchs, "_checkpoint_impl", None)
    if torchs is None:
        return

    @functools.wraps(torchs)
    def checkpoint_impl(function, args, kwargs, **options):
        if is_tracing() and (policy := _policy_of(**options)):
            return in_region(function, args, kwargs, policy)
        return torchs(function, args, kwargs, **options)

    _torchs._checkpoint_impl = checkpoint_impl


def _replace_function():
    """Has the reentrant checkpoint ask first."""
    torchs = inspect.getattr_static(_torchs.CheckpointFunction, "apply")  # written in C from torch 2.14 on

    def apply(cls, function, preserve_rng_state, *args):
        if is_tracing() and cls is _torchs.CheckpointFunction:
            return reentrant(function, *args)
        return torchs.__get__(None, cls)(function, preserve_rng_state, *args)

    _torchs.CheckpointFunction.apply = classmethod(apply)


class _Original(threading.local):
    runs = False  # what Dynamo found, on this thread, as it is


_original = _Original()


def run_as_written(function, *args):
    """Returns function(*args), in which what Dynamo made of a checkpoint is the checkpoint that the user wrote, wherever no trace runs."""
    before, _original.runs = _original.runs, True
    try:
        return function(*args)
    finally:
        _original.runs = before


def _split(args):
    """Returns the tensors of arguments that require grad, and a function that gives all arguments back for such tensors. The others may be
    buffers that a checkpoint's function changes, which torch refuses of arguments and not of what the function captures."""
    given = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.requires_grad]
    kept = [None if isinstance(arg, torch.Tensor) and arg.requires_grad else (arg,) for arg in args]

    def joined(tensors):
        rest = iter(tensors)
        return [next(rest) if one is None else one[0] for one in kept]

    return given, joined


def _replace_tags():
    """Has the operator that Dynamo makes of a checkpoint ask first. torch's leaves the state of generators to the compiler of the graph,
    and keeps what operators give by a mode under which buffers must not change."""
    torchs = wrap.tag_activation_checkpoint_impl

    @functools.wraps(torchs)
    def tagged(module, *args, **kwargs):
        if not _original.runs or is_tracing():
            return torchs(module, *args, **kwargs)
        if "_checkpoint_context_fn" in module.meta:
            kwargs["context_fn"] = module.meta["_checkpoint_context_fn"]
        given, joined = _split(args)

        def function(*tensors):
            return run_as_written(module, *joined(tensors))  # also when it is computed again

        return _torchs.checkpoint(function, *given, **{**kwargs, "use_reentrant": False})

    wrap.tag_activation_checkpoint_impl = tagged


def replace():
    """Puts Diptych's checkpoint in the place of torch's in traces."""
    _replace_checkpoint()
    _replace_decorated()
    _replace_function()
    _replace_tags()
