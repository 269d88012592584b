"""backward() and grad() in a trace, of and by tensors that the function may capture: the graph knows their stand-ins."""
import functools

import torch

from .. import _core
from .._host.register import is_tracing


def _in_trace(tensor):
    return _core.known_stand_in(tensor) if isinstance(tensor, torch.Tensor) else tensor  # or an edge of the graph


def _entered(tensor):
    """A tensor that a backward starts from, in the trace: a leaf from outside that no operator has met yet is taken in."""
    is_plain = isinstance(tensor, torch.Tensor) and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    if not is_plain or not tensor.is_leaf or _core.is_stand_in(tensor):
        return tensor
    with torch.enable_grad():
        return tensor.view_as(tensor)


def _replace_current_node():
    """torch tells a hook in a captured backward of no node."""

    @functools.wraps(torch._C._current_autograd_node)
    def current_autograd_node():
        return _core.current_autograd_node()

    torch._C._current_autograd_node = current_autograd_node


def replace():
    """Has torch.autograd.backward() and torch.autograd.grad(), however they were imported, ask first."""
    torchs = torch.autograd._engine_run_backward

    @functools.wraps(torchs)
    def run(outputs, gradients, retain_graph, create_graph, inputs, *args, **keywords):
        if is_tracing():
            outputs, inputs = tuple(map(_entered, outputs)), tuple(map(_in_trace, inputs))
        return torchs(outputs, gradients, retain_graph, create_graph, inputs, *args, **keywords)

    torch.autograd._engine_run_backward = run
    _replace_current_node()
