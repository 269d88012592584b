"""The verbs that take a Python function."""
import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

import torch

from . import _core
from ._compiled import Compiled, as_written, named
from ._modules import aot_module
from ._specs import types_taken

# What Options takes, the first three of which say something of one capture; a test compares them with Options.
_CAPTURE_OPTIONS = frozenset({"name", "partition", "decompositions"})
_CALL_OPTIONS = frozenset(
    {"backend", "draws", "dynamic", "check_sizes", "cache_limit", "path_limit", "eager_fallback", "check", "check_tolerance", "check_kernels", "async_compile"}
    | {"forward_compiler", "backward_compiler", "inference_compiler"}
)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@overload
def aot_function(function: Callable[_Arguments, _Result], **options: Any) -> Compiled[_Arguments, _Result]: ...
@overload
def aot_function(function: None = None, **options: Any) -> Callable[[Callable[_Arguments, _Result]], Compiled[_Arguments, _Result]]: ...
def aot_function(function=None, **options):
    """Makes a compiled function of `function`, which gives what `function` gives in eager: values, gradients, aliasing,
    mutation and errors. Also a decorator, with options or without: those that Options takes. What it returns has the methods
    stats(), clear() and forward_graphs() of AotModule; a torch.nn.Module gives what aot_module() gives.

    What the function reads besides its arguments is guarded: what its closure, the globals that it names and the object that
    it is a method of hold; numbers, strings and containers by value, tensors by identity, modules and objects by their
    class and attributes, two objects deep. A tensor found so is an input of the graph, after the arguments.
    What torch.compile() made is taken as it was written: `function` itself, and what it calls.
    Errors, when called: UserError for what a graph can't hold, naming it.
    """
    if function is None:
        return functools.partial(aot_function, **options)
    function = as_written(function)
    if isinstance(function, torch.nn.Module):
        return aot_module(function, **options)
    return Compiled(function, named(options, function), options)


def capture_with(options: _core.Options, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> _core.Pair:
    """Captures function(*args, **kwargs) as capture() does, by the Options given. For a function that takes keywords which
    capture() would take for options; else capture(function, ..., partition="min_cut") says the same."""
    with types_taken(function, args, kwargs) as (args, kwargs):
        return _core.capture_with(options, function, *args, **kwargs)


def _is_taken(function):
    """A predicate: whether the function itself takes a keyword of that name, or any."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return lambda name: False
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return lambda name: True
    return lambda name: name in parameters


def capture(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> _core.Pair:
    """Captures function(*args, **kwargs) and returns its Pair: the forward and the backward graph. Nothing is run and no
    argument changes. Types alone will do: those that spec() makes, torch's FakeTensors, and meta tensors, which lie where the
    other tensors lie; so will a module with such parameters.
    The keywords partition, decompositions and name are options, as those of aot_function() are:
    capture(f, x, partition="min_cut"). A keyword that the function takes itself is the function's.
    Errors: UserError for what a graph can't hold, naming it, and for an option of calls, such as dynamic; what the function
    itself raises."""
    options = {"name": "capture"}
    given = [name for name in kwargs if name in _CAPTURE_OPTIONS or name in _CALL_OPTIONS]
    if given:
        is_taken = _is_taken(function)
        options.update((name, kwargs.pop(name)) for name in given if not is_taken(name))
    for name in _CALL_OPTIONS.intersection(options):
        raise _core.UserError(
            f"[capture] {name} is an option of compiled functions, expected partition, decompositions or name; "
            "use aot_function(), or capture_with() if the function takes it"
        )
    return capture_with(_core.Options(**options), function, *args, **kwargs)


def _name_of_first(function):
    """The name by which a call may give the first argument; None where it has none."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError):
        return None
    return first.name if first is not None and first.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD else None


def _with_first_argument(function, call):
    """call(first, *args, **kwargs) as a function of the arguments of `function`: the first may come by its name."""
    name = _name_of_first(function)

    @functools.wraps(function)
    def compiled(*args, **kwargs):
        if args:
            return call(*args, **kwargs)
        if name in kwargs:
            return call(kwargs.pop(name), **kwargs)
        raise TypeError(f"{getattr(function, '__name__', 'the function')}() got no first argument, expected what the gradients are for")

    return compiled


def value_and_grad(function: Callable[_Arguments, Any], has_aux: bool = False, **options: Any) -> Callable[_Arguments, tuple[Any, Any]]:
    """Returns a compiled function of the same arguments that gives (value, gradients): the gradients of the scalar that
    `function` returns with respect to its first argument, in that argument's tree. Leaves that nothing reaches get zeros.
    has_aux: `function` returns (value, extras), and the result is ((value, extras), gradients).
    Errors, when called: UserError for a leaf of the first argument that is not floating point, and for a value that is no
    scalar. Source: jax.value_and_grad."""
    function = as_written(function)
    return _with_first_argument(function, _core.AotGradients(function, named(options, function), has_aux))


def grad(function: Callable[_Arguments, Any], has_aux: bool = False, **options: Any) -> Callable[_Arguments, Any]:
    """Returns a compiled function of the same arguments that gives the gradients alone, or with `has_aux` (gradients, extras):
    see value_and_grad()."""
    function = as_written(function)
    core = _core.AotGradients(function, named(options, function), has_aux)

    def gradients(*args, **kwargs):
        value, found = core(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return _with_first_argument(function, gradients)


def checkpoint(function: Callable[_Arguments, _Result], policy: _core.CheckpointPolicy | None = None) -> Callable[_Arguments, _Result]:
    """Returns a function that gives what `function` gives and keeps for the backward what `policy` says, by default its
    inputs alone; the rest is computed again when the backward comes to it. In a capture it marks the nodes, and every
    partitioner obeys; outside it captures the function. Random numbers are drawn once, and buffers changed once.
    Errors, when called: UserError for an argument that is changed in place; what the function raises.
    Source: torch.utils.checkpoint; jax.checkpoint."""
    policy = policy if policy is not None else _core.save_nothing()

    @functools.wraps(function)
    def checkpointed(*args, **kwargs):
        return _core.call_checkpointed(function, policy, *args, **kwargs)

    return checkpointed


def custom_vjp(function: Callable[_Arguments, _Result], fwd: Callable[..., Any], bwd: Callable[..., Any]) -> Callable[_Arguments, _Result]:
    """Returns a function that gives function(*args) and is differentiated by the rules fwd(*args) -> (result, residuals)
    and bwd(residuals, tangents) -> a tuple of one gradient per argument, each in the argument's tree, with None at any depth
    for what has none; tangents come in the result's tree.
    Shapes: a gradient has the sizes and the dtype of its argument.
    Errors, when called: UserError for another number of gradients, and by path for one of another tree, other sizes or dtype.
    Source: jax.custom_vjp."""

    @functools.wraps(function)
    def with_rules(*args):
        return _core.call_custom_vjp(function, fwd, bwd, *args)

    with_rules.rules = (fwd, bwd)  # guards read them
    return with_rules
