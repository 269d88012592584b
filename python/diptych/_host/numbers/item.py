"""item() in a trace, which gives open numbers."""
import torch

from ... import _core
from .base import close_all
from .floats import ClosedFloat, OpenFloat
from .integers import ClosedInt, OpenInt, of_tensor


def _in_trace(torchs, tensor):
    if not _core.may_stay_open(tensor):
        return torchs(tensor)
    if not tensor.is_floating_point():
        return of_tensor(tensor)
    return OpenFloat(tensor.detach().reshape(()).to(torch.float64, copy=True))


def replace():
    """Has item() give open numbers in a trace."""
    _core.set_open_numbers((OpenFloat, ClosedFloat), (OpenInt, ClosedInt), close_all)
    _core.route_method("item", _in_trace)
