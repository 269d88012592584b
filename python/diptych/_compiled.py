"""Compiled functions, whatever verb has made them."""
import functools
import sys
import types
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import torch

from . import _core
from ._host.keeper import Keeper
from ._host.register import Anew, noticed

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Compiled(Generic[_Arguments, _Result]):
    """A compiled function: calls it, and passes on what else is asked of it."""

    def __init__(self, function: Callable[_Arguments, _Result], core_options: _core.Options, options: dict[str, Any], module: torch.nn.Module | None = None) -> None:
        functools.update_wrapper(self, function)
        self._keeper = Keeper(function, lambda function: _core.Aot(function, core_options), module)
        self.options = options

    def __call__(self, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        keeper = self._keeper
        keeper.calls.append(None)
        try:
            if keeper.is_plain:
                return keeper.plain(*args, **kwargs)
        except Anew as refusal:
            keeper.heed(refusal)
        finally:
            keeper.calls.pop()
            if noticed:
                keeper.learn()
        return keeper.call(args, kwargs)

    def __repr__(self):
        stats = self.stats()
        return f"<compiled {getattr(self, '__name__', 'function')}: {stats.entries} captures, {stats.hits} hits>"

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self):
        """Kept by its name where it stands in the function's place, as functions are; else compiled anew, with the same options."""
        names = getattr(self, "__qualname__", "").split(".")
        found = functools.reduce(lambda holder, name: getattr(holder, name, None), names, sys.modules.get(self.__module__))
        return self.__qualname__ if found is self else (_remade, (self.__wrapped__, self.options))

    def stats(self) -> _core.CacheStats:
        """Hits, misses, and why the last miss was one."""
        return self._keeper.stats()

    def clear(self) -> None:
        """Forgets every capture."""
        self._keeper.clear()

    def explain(self) -> str:
        """The captures in words, oldest first: the types of the arguments, and below them the values that the function asks for as a
        tree, whose branches are answers and whose leaves are graphs. Calls that run the function itself say why."""
        return self._keeper.core.explain()

    def forward_graphs(self) -> list[_core.Graph]:
        """The forward graphs of the captures that are cached, most recent first."""
        return self._keeper.core.forward_graphs()

    def native_graphs(self) -> list[_core.NativeGraph]:
        """What backend "native" made of the graphs of these captures, as far as they are compiled: of each the forward graph, then
        its backward graphs."""
        return self._keeper.core.native_graphs()


def _remade(function, options):
    return Compiled(function, named(options, function), options)


def as_written(function):
    """What torch.compile() made a function of, whose state is guarded then and not the compiler's; another as it is. A module stays
    what it is, since torch.compile's has hooks of its own; its trace runs what it was made of all the same."""
    while not isinstance(function, torch.nn.Module) and getattr(function, "_torchdynamo_wrapper_id", None) == id(function):
        function = function._torchdynamo_orig_callable
    return function


def named(options, function):
    """The Options of a function, which is named as it is where they name none."""
    name = getattr(function, "__name__", type(function).__name__)
    return _core.Options(**{"name": name, **options})
