"""Finds tensors of a trace in what a function returns, where no tree is visited."""
import collections
import dataclasses
import functools
import inspect
import types

import torch
from torch.utils import _pytree

from .. import _core
from .objects import classes_with_stand_ins
from .packed import Packed
from .register import captures_anew_for


def _contents(value):
    """Returns what an object that is not a tree holds, with a name for each: its attributes, the elements of a set,
    what a function or a generator refers to."""
    if isinstance(value, (set, frozenset, collections.deque)):
        return [(f"[{index}]", element) for index, element in enumerate(value)]
    if isinstance(value, functools.partial):
        return [(".args", value.args), (".keywords", value.keywords)]
    if inspect.isgenerator(value):
        return [(f".{name}", local) for name, local in inspect.getgeneratorlocals(value).items()]
    if inspect.isfunction(value):
        return [(f".{name}", held) for name, held in inspect.getclosurevars(value).nonlocals.items()]
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if isinstance(name, str)]
    held = {**{name: getattr(value, name) for name in names if hasattr(value, name)}, **getattr(value, "__dict__", {})}
    return [(f".{name}", attribute) for name, attribute in held.items()]


def _hidden_stand_in(value, path, is_inside, depth):
    """Returns the path of a tensor of the trace that `value` holds where no tree is visited, or None."""
    if isinstance(value, torch.Tensor):
        return path if is_inside and _core.is_stand_in(value) else None
    if type(value) is Packed:
        return _hidden_stand_in(value.held, path, is_inside, depth)
    if depth == 0 or value is None or isinstance(value, (bool, int, float, complex, str, bytes, type, torch.nn.Module, types.ModuleType)):
        return None
    if isinstance(value, (list, tuple)):
        parts = [(f".{index}", element) for index, element in enumerate(value)]
    elif isinstance(value, dict):
        parts = [(f".{key}", element) for key, element in value.items()]
    elif dataclasses.is_dataclass(value):
        parts = [(f".{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value)]
    elif not is_inside and type(value) in _pytree.SUPPORTED_NODES:
        return None
    else:
        parts, is_inside = _contents(value), True
    found = (_hidden_stand_in(part, path + name, is_inside, depth - 1) for name, part in parts)
    return next((hidden for hidden in found if hidden), None)


def refuse_hidden_tensors(result):
    """Refuses what a traced function returned if it contains an object that is not a tree and holds a tensor of the
    trace, which would be dead in the hands of the caller. Errors: UserError by path."""
    hidden = _hidden_stand_in(result, "", False, 5)
    if hidden:
        refusal = (
            f"[capture] the function returned an object that holds a tensor, at 'result{hidden}', expected tensors in lists, "
            "tuples, dicts, dataclasses or classes registered with torch.utils._pytree; return the tensor itself"
        )
        captures_anew_for(functools.partial(classes_with_stand_ins, result), refusal)
        raise _core.UserError(refusal)
