"""Finds what a traced function returns besides tensors and trees of them, and the switches of torch that it leaves
set."""
import enum
import types

import torch

from .contents import contents_of
from .packed import Packed, parts_of

_SAME_EACH_TIME = (type, types.ModuleType, types.MethodType, types.BuiltinFunctionType, enum.Enum)
_DEEPEST = 5


def made_by_function(result, known, path="result", depth=_DEEPEST):
    """Describes, in words, a part of a result that a graph would not make again at each call: an object that can be
    written to and that nothing led to before, or a tensor that was given attributes. Returns None if there is none.
    `known`: the objects that were there before, by id."""
    if id(result) in known:
        return None
    if type(result) is Packed:
        held = dict(enumerate(result.held)) if type(result.held) is list else result.held or {}
        found = (made_by_function(part, known, f"{path}.{name}", depth) for name, part in held.items())
        return next((words for words in found if words), None)
    if isinstance(result, torch.nn.Parameter):
        return f"makes a {type(result).__name__} of a tensor, '{path}'"
    if isinstance(result, torch.Tensor):
        return f"gives attributes to a tensor that it returns, '{path}'" if getattr(result, "__dict__", None) else None
    parts = None if isinstance(result, torch.nn.Module) else parts_of(result)
    if parts is not None:
        found = (made_by_function(part, known, f"{path}.{name}", depth - 1) for name, part in parts.items()) if depth else ()
        return next((words for words in found if words), None)
    if isinstance(result, _SAME_EACH_TIME) or contents_of(result) is None:
        return None
    return f"returns a {type(result).__name__} that it makes, '{path}', anew each time"


_SWITCHES = {
    "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the default device": (lambda: str(torch.get_default_device()), torch.set_default_device),
    "deterministic algorithms": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "the precision of matrix products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "anomaly detection": (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "autocast on the CPU": (lambda: torch.is_autocast_enabled("cpu"), lambda value: torch.set_autocast_enabled("cpu", value)),
    "autocast on CUDA": (lambda: torch.is_autocast_enabled("cuda"), lambda value: torch.set_autocast_enabled("cuda", value)),
}


def switches():
    """Returns the present values of the switches, by name."""
    return {name: read() for name, (read, _) in _SWITCHES.items()}


def put_back(before):
    """Sets the switches to what they were. Returns the names of those that were changed."""
    changed = [name for name, value in before.items() if _SWITCHES[name][0]() != value]
    for name in changed:
        _SWITCHES[name][1](before[name])
    return changed
