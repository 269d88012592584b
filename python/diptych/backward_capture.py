"""Whole-backward capture: backward() and torch.autograd.grad() as one graph each.

    with diptych.backward_capture.capture() as capture:
        loss.backward()
    print(diptych.backward_capture.last_graph().code())
    print(capture.stats().captures, capture.stats().eager_by_reason)

capture(backend="xla") has XLA compute what stands between hooks, accumulations and other code that runs live.
"""
from ._core import BackwardCapture as capture
from ._core import backward_statistics as statistics
from ._core import disable_backward_capture as disable
from ._core import enable_backward_capture as enable
from ._core import last_backward_graph as last_graph
from ._core import native_backward_graphs as native_graphs
from ._core import reset_backward_capture as reset

__all__ = ["capture", "disable", "enable", "last_graph", "native_graphs", "reset", "statistics"]
