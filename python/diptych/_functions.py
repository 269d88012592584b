"""The verbs that take a Python function."""
import functools
import inspect

import torch

from . import _core


class _Compiled:
    """A compiled function: calls it, and passes on what else is asked of it."""

    def __init__(self, function, core):
        functools.update_wrapper(self, function)
        self._core = core

    def __call__(self, *args, **kwargs):
        return self._core(*args, **kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def stats(self):
        """Hits, misses, and why the last miss was one."""
        return self._core.stats()

    def clear(self):
        """Forgets every capture."""
        self._core.clear()

    def forward_graphs(self):
        """The forward graphs of the captures that are cached, most recent first."""
        return self._core.forward_graphs()


def _named(options, function):
    name = getattr(function, "__name__", type(function).__name__)
    return _core.Options(**{"name": name, **options})


def aot_function(function=None, **options):
    """Makes a compiled function of `function`, which gives what `function` gives in eager: values, gradients, aliasing,
    mutation and errors. Also a decorator, with options or without. Options: see Options.

    What the function reads besides its arguments is guarded: numbers, strings, lists and dicts of its closure and of the
    globals that it names by value, tensors and modules by identity; a tensor found so is an input of the graph, after the
    arguments. Errors, when called: UserError for what a graph can't hold, naming it.
    """
    if function is None:
        return functools.partial(aot_function, **options)
    if isinstance(function, torch.nn.Module):
        return aot_module(function, **options)
    return _Compiled(function, _core.Aot(function, _named(options, function)))


class AotModule(_Compiled):
    """A module whose forward is compiled; other attributes are the module's."""

    def __init__(self, module, **options):
        def forward(module, *args, **kwargs):
            return module(*args, **kwargs)

        parameters = inspect.signature(module.forward).parameters.values()
        first = inspect.Parameter("module", inspect.Parameter.POSITIONAL_ONLY)
        forward.__signature__ = inspect.Signature([first, *parameters], __validate_parameters__=False)
        super().__init__(forward, _core.Aot(forward, _core.Options(**{"name": type(module).__name__, **options})))
        self.module = module
        self.__doc__ = module.__doc__

    def __call__(self, *args, **kwargs):
        return super().__call__(self.module, *args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.__dict__["module"], name)


def aot_module(module, **options):
    """Compiles a torch.nn.Module: its parameters and buffers are inputs of the graph under their names, "module.weight".
    Gradients land on the module's parameters, and buffers such as BatchNorm's are updated, as in eager."""
    return AotModule(module, **options)


def capture_with(options, function, *args, **kwargs):
    """capture() with Options."""
    return _core.capture_with(options, function, *args, **kwargs)


def capture(function, *args, **kwargs):
    """Captures function(*args, **kwargs) and returns its Pair: the forward and the backward graph. Nothing is run and no
    argument changes. Errors: UserError for what a graph can't hold, naming it; what the function itself raises."""
    return _core.capture_with(_core.Options(name="capture"), function, *args, **kwargs)


def value_and_grad(function, **options):
    """Returns a compiled function of the same arguments that gives (value, gradients): the gradients of the scalar that
    `function` returns with respect to its first argument, in that argument's tree. Leaves that nothing reaches get zeros.
    Errors, when called: UserError for a leaf of the first argument that is not floating point, and for a value that is no
    scalar. Source: jax.value_and_grad."""
    core = _core.AotGradients(function, _named(options, function))

    @functools.wraps(function)
    def compiled(first, *args, **kwargs):
        return core(first, *args, **kwargs)

    return compiled


def grad(function, **options):
    """value_and_grad() without the value."""
    both = value_and_grad(function, **options)

    @functools.wraps(function)
    def compiled(first, *args, **kwargs):
        return both(first, *args, **kwargs)[1]

    return compiled


def checkpoint(function, policy=None):
    """Returns a function that gives what `function` gives and keeps for the backward what `policy` says, by default its
    inputs alone; the rest is computed again when the backward comes to it. Random numbers are drawn once.
    Source: torch.utils.checkpoint; jax.checkpoint."""
    policy = policy if policy is not None else _core.save_nothing()

    @functools.wraps(function)
    def checkpointed(*args, **kwargs):
        return _core.call_checkpointed(function, policy, *args, **kwargs)

    return checkpointed


def custom_vjp(function, fwd, bwd):
    """Returns a function that gives function(*args) and is differentiated by the rules fwd(*args) -> (result, residuals)
    and bwd(residuals, tangents) -> a tuple of one gradient per argument, None for none. Source: jax.custom_vjp."""

    @functools.wraps(function)
    def with_rules(*args):
        return _core.call_custom_vjp(function, fwd, bwd, *args)

    return with_rules
