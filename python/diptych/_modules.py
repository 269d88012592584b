"""Compiled modules.

Note [Compiled modules]: what aot_module() returns is a second object of the module's own class, or rather of a class made of it, that
has the same __dict__. So both hold the same parameters, buffers, children, hooks and attributes, whichever of them is changed, and
whatever takes a torch.nn.Module takes this one. Its call alone differs: it runs what was captured of the other object, the original.
Tools that give a module another class, as parametrizations and fully_shard do, give it to both.
"""
import copy
import functools
import inspect
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch

from . import _core
from ._compiled import Compiled
from ._host.module_state import kept

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Module = TypeVar("_Module", bound=torch.nn.Module)
_set_class = vars(object)["__class__"].__set__  # of an object, whatever its class makes of the name
_classes = weakref.WeakValueDictionary()  # of compiled modules, by the ids of the classes that they are made of


def forward_of(module, call=lambda module: module):
    """The forward of a module as a function that takes a module like it first; `call` is what is called of that."""

    def forward(module, *args, **kwargs):
        with kept(module):
            return call(module)(*args, **kwargs)

    first = inspect.Parameter("module", inspect.Parameter.POSITIONAL_ONLY)
    parameters = inspect.signature(module.forward).parameters.values()
    forward.__signature__ = inspect.Signature([first, *parameters], __validate_parameters__=False)
    return forward


class _Own:
    """A name of ours: the module's class and its instances go before. Of the class it is a function of a compiled module."""

    def __init__(self, function, is_value):
        self.function, self._is_value = function, is_value

    def __get__(self, module, owner=None):
        if module is None:
            return self.function
        name = self.function.__name__
        for registry in (module._parameters, module._buffers, module._modules):
            if name in registry:
                return registry[name]
        return self.function(module) if self._is_value else types.MethodType(self.function, module)


def _method(function: _Function) -> _Function:
    return cast(_Function, _Own(function, is_value=False))


class AotModule(torch.nn.Module):
    """A module whose call is compiled, and else the module that it was made of: an instance of its class, with the same parameters,
    buffers, children, hooks and attributes. aot_module() makes it. copy.deepcopy() and pickle make another, compiled anew with the same
    options. Names of the module's own go before those below; diptych.AotModule.stats(compiled) reaches them then."""

    __slots__ = ("_aot_call", "_aot_run", "_aot_original")

    if TYPE_CHECKING:
        module: torch.nn.Module
        __call__: Callable[..., Any]

        def __getattr__(self, name: str) -> Any: ...

    else:

        def module(self):
            """The module itself, whose call is not compiled; no child."""
            return self._aot_original

        module = _Own(module, is_value=True)

    def __new__(cls, *args: Any, **kwargs: Any) -> "AotModule":
        raise _core.UserError(f"[aot_module] {cls.__name__}() was called, expected a module to make one of; use aot_module(module)")

    @_method
    def stats(self) -> _core.CacheStats:
        """Hits, misses, and why the last miss was one."""
        return self._aot_call.stats()

    @_method
    def clear(self) -> None:
        """Forgets every capture."""
        self._aot_call.clear()

    @_method
    def explain(self) -> str:
        """The captures in words: see aot_function()."""
        return self._aot_call.explain()

    @_method
    def forward_graphs(self) -> list[_core.Graph]:
        """The forward graphs of the captures that are cached, most recent first."""
        return self._aot_call.forward_graphs()

    @_method
    def native_graphs(self) -> list[_core.NativeGraph]:
        """What backend "native" made of the graphs of these captures, as far as they are compiled."""
        return self._aot_call.native_graphs()


class _Signature:
    """The signature of a compiled module; its class has that of the original's."""

    def __get__(self, module, owner=None):
        if module is None:
            raise AttributeError("__signature__")
        return inspect.signature(module._aot_original.forward)


class _Calls:
    """What goes before the module's own class."""

    __slots__ = ()
    __signature__ = _Signature()

    def __init_subclass__(cls, **kwargs):
        """Nothing: the module's class is not told of a class that is made of it."""

    def __new__(cls, *args, **kwargs):
        return cls._aot_class(*args, **kwargs)  # type(module)(...) makes what it makes of the original

    def __call__(self, /, *args, **kwargs):
        original = self._aot_original
        result = self._aot_run(original, *args, **kwargs)
        if type(original) is not type(self)._aot_class:  # as lazy modules have
            _follow(self)
        return result

    def __getattr__(self, name):
        if type(self._aot_original) is not type(self)._aot_class:
            _follow(self)
            return getattr(self, name)
        return super(_Calls, self).__getattr__(name)

    @property
    def __class__(self):
        return type(self._aot_original)

    @__class__.setter
    def __class__(self, kind):
        kind = kind._aot_class if issubclass(kind, _Calls) else kind
        self._aot_original.__class__ = kind
        _follow(self)

    def __eq__(self, other):
        """Whoever keeps something of modules in a table, as fully_shard does, finds there what it keeps of the original."""
        return self._aot_original == (other._aot_original if isinstance(other, AotModule) else other)

    def __hash__(self):
        return hash(self._aot_original)

    def __copy__(self):
        return aot_module(self._aot_original, **self._aot_call.options)

    def __deepcopy__(self, memo):
        return aot_module(copy.deepcopy(self._aot_original, memo), **self._aot_call.options)

    def __reduce_ex__(self, protocol):
        return functools.partial(aot_module, **self._aot_call.options), (self._aot_original,)


def _follow(module):
    """Gives a compiled module the class that its original has been given."""
    _set_class(module, _class_of(type(module._aot_original)))


def _class_of(kind):
    """Returns the class of the compiled modules that are made of modules of a class. Errors: UserError if Python can make none."""
    made = _classes.get(id(kind))
    if made is None:
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__, "__slots__": (), "_aot_class": kind}
        bases = (_Calls, AotModule) if kind is torch.nn.Module else (_Calls, kind, AotModule)
        try:
            made = types.new_class(kind.__name__, bases, exec_body=lambda members: members.update(names))
        except TypeError as error:
            raise _core.UserError(
                f"[aot_module] got a {kind.__name__}, of whose class no other can be made ({error}), expected one without __slots__; use diptych.compile(module)"
            ) from None
        _classes[id(kind)] = made
    return made


def _original_of(who, module):
    if not isinstance(module, torch.nn.Module):
        raise _core.UserError(f"[{who}] got {module!r}, expected a torch.nn.Module; use aot_function() for a function")
    return module._aot_original if isinstance(module, AotModule) else module


def _compiled(module, options, call=lambda module: module):
    core_options = _core.Options(**{"name": type(module).__name__, "eager_fallback": True, **options})
    return Compiled(forward_of(module, call), core_options, options, module)


def aot_module(module: torch.nn.Module, **options: Any) -> AotModule:
    """Compiles a torch.nn.Module: its parameters and buffers are inputs of the graph under their names, "module.weight".
    Gradients land on the module's parameters, and buffers such as BatchNorm's are updated, as in eager. The result is a module of the
    same class with the same state: see AotModule; the module that it is given stays uncompiled. A call of which no graph can be made runs
    the module itself, with one warning that names what a graph can't hold and the line; with eager_fallback=False that is a
    UserError. options: those that Options takes."""
    original = _original_of("aot_module", module)
    call = _compiled(original, options)
    made = object.__new__(_class_of(type(original)))
    for name, held in (("__dict__", vars(original)), ("_aot_original", original), ("_aot_call", call), ("_aot_run", call.__call__)):
        object.__setattr__(made, name, held)
    return cast(AotModule, made)


def compile(module: _Module, **options: Any) -> _Module:
    """Compiles the call of a torch.nn.Module in its place, and returns the module: as aot_module(), but there is no second
    object, and copies and pickles of the module are not compiled. Source: torch.nn.Module.compile()."""
    original = _original_of("compile", module)
    compiled = _compiled(original, options, lambda module: module._call_impl)
    object.__setattr__(original, "_compiled_call_impl", functools.partial(compiled, original))
    return module
