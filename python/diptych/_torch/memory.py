"""tolist() and numpy() in a trace, which read the memory of a tensor and call no operator: they ask for its value.

Whoever wants an array or a list comes here: numpy.asarray() by __array__(), the text of a tensor by tolist(). An array of eager
shares its memory with the tensor. That of a trace has memory of its own, so a function that writes to one of the two is run itself.
Outside a trace, and where nobody can say the value, both are torch's.
"""
import functools
import sys

import torch

from .. import _core
from .._host.register import lend, may_do

_MOST_BYTES = 2**20  # of a value that is compared at each call; as of an array that guards read


def _is_answered(tensor, what):
    """Whether the value of a tensor can be had. That of a large one is not guarded: the function itself runs in each call."""
    return _core.may_ask(tensor) and (tensor.nbytes <= _MOST_BYTES or may_do(f"calls {what} of a tensor of more than {_MOST_BYTES} bytes"))


def _in_trace(torchs, tensor, **keywords):
    what = f"{torchs.__name__}()"
    if not _is_answered(tensor, what):
        if _core.is_stand_in(tensor) and tensor.numel():
            raise _core.UserError(
                f"[capture] the function reads the memory of a tensor by {what}, whose values are not known in a bare pair, in the body of an operator and in a "
                f"backward ({_core.with_place(what)}); use operators of torch there, or do it outside"
            )
        return torchs(tensor, **keywords)
    result, number = _core.call_on_value(torchs, tensor, what, tensor.nbytes <= _MOST_BYTES, **keywords)
    if not isinstance(result, (list, bool, int, float, complex)):
        lend(tensor, result, number)
    return result


def _is_for_the_dispatcher(frame):
    """Whether the text is for torch.ops, which describes its arguments for each overload that does not fit: words of an error that is
    raised if none does."""
    while frame is not None and frame.f_code.co_filename == torch._tensor.__file__:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == torch._ops.__file__


def _replace_texts():
    """The text of a tensor of a trace says what it is there. A function that makes one is run itself."""
    torchs = torch._tensor_str._str

    @functools.wraps(torchs)
    def text(self, *args, **keywords):
        if _core.is_stand_in(self):
            if _is_for_the_dispatcher(sys._getframe(1)):
                return f"tensor(..., size={tuple(self.size())}, dtype={self.dtype})"
            may_do("makes a text of a tensor")
        return torchs(self, *args, **keywords)

    torch._tensor_str._str = text


def replace():
    """Has tolist() and numpy() ask first."""
    _replace_texts()
    for name in ("tolist", "numpy"):
        _core.route_method(name, _in_trace)
