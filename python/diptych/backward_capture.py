"""Whole-backward capture: backward() and torch.autograd.grad() as one graph each.

    with diptych.backward_capture.capture() as capture:
        loss.backward()
    print(diptych.backward_capture.last_graph().code())
    print(capture.stats().captures, capture.stats().eager_by_reason)

capture(backend="xla") has XLA compute what stands between hooks, accumulations and other code that runs live;
capture(compiler=mine) has mine(graph) do so, which returns a callable from a list of tensors to a list of tensors, as the compilers of
aot_function() do. With strict=True a backward that autograd's engine would run is a UserError that says why.
"""
import functools
from collections.abc import Callable
from typing import Any

from . import _core
from ._core import BackwardCapture
from ._core import backward_statistics as statistics
from ._core import disable_backward_capture as disable
from ._core import last_backward_graph as last_graph
from ._core import native_backward_graphs as native_graphs
from ._core import reset_backward_capture as reset

__all__ = ["capture", "disable", "enable", "last_graph", "native_graphs", "reset", "statistics"]
_Compiler = Callable[[_core.Graph], Callable[[list[Any]], list[Any]]]


@functools.lru_cache(maxsize=64)  # by which a compiler finds its graphs again in the next step
def _made(compiler):
    return _core.BackwardCompiler(compiler)


def _options(backend, compiler, strict):
    options = {"strict": strict} if backend is None else {"backend": backend, "strict": strict}
    if compiler is None:
        return options
    if backend is not None or not callable(compiler):
        raise _core.UserError(
            f"[backward] got backend={backend!r} and compiler={compiler!r}, expected one of them, and a compiler that takes a Graph"
        )
    return {"compiler": _made(compiler), **options}


def capture(backend: str | None = None, *, compiler: _Compiler | None = None, strict: bool = False) -> BackwardCapture:
    """Returns a context manager: while it is entered, backward passes that this thread starts run through a captured graph of the
    whole pass, hooks and the accumulation of gradients among its nodes. `backend` or `compiler`, one of which may be given, computes
    what stands between nodes that run live; the innermost capture's is used. strict: a pass that the engine would run raises
    UserError, with the reason, and changes nothing. Errors, in a backward: what the compiler raises.
    Source: torch._dynamo.compiled_autograd."""
    return BackwardCapture(**_options(backend, compiler, strict))


def enable(backend: str | None = None, *, compiler: _Compiler | None = None, strict: bool = False) -> None:
    """Like capture(), for all threads and until disable(); called again, it changes the options."""
    _core.enable_backward_capture(**_options(backend, compiler, strict))
