"""tolist() and numpy() in a trace, which read the memory of a tensor and call no operator: they ask for its value.

Whoever wants an array or a list comes here: numpy.asarray() by __array__(), the text of a tensor by tolist(). An array of eager
shares its memory with the tensor. That of a trace has memory of its own, so a function that writes to one of the two is run itself.
Outside a trace, and where nobody can say the value, both are torch's.
"""
import functools

import torch

from . import _core
from ._host_state import lend, may_do
from ._torch_checkpoint import is_tracing

_MOST_BYTES = 2**20  # of a value that is compared at each call; as of an array that guards read


def _is_answered(tensor, what):
    """Whether the value of a tensor can be had. That of a large one is not guarded: the function itself runs in each call."""
    return _core.may_ask(tensor) and (tensor.nbytes <= _MOST_BYTES or may_do(f"calls {what} of a tensor of more than {_MOST_BYTES} bytes"))


def _asking(torchs):
    """Returns a method of a tensor that asks for its value in a trace."""
    what = f"{torchs.__name__}()"

    @functools.wraps(torchs)
    def method(self, *args, **keywords):
        if args or not is_tracing() or not _is_answered(self, what):
            return torchs(self, *args, **keywords)
        result, number = _core.call_on_value(torchs, self, what, self.nbytes <= _MOST_BYTES, **keywords)
        if not isinstance(result, (list, bool, int, float, complex)):
            lend(self, result, number)
        return result

    method.__module__, method.__qualname__ = "torch", f"Tensor.{torchs.__name__}"
    return method


def replace():
    """Has tolist() and numpy() ask first."""
    for name in ("tolist", "numpy"):
        setattr(torch.Tensor, name, _asking(getattr(torch.Tensor, name)))
