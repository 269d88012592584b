"""Helpers that the bindings call."""
import collections
import dataclasses
import functools
import inspect
import types
from typing import Any


class _Absent:
    """Stands in a tree in place of a missing tensor. kind: the class that the tensor will have; None for its own."""

    __slots__ = ("kind",)

    def __init__(self, kind=None):
        self.kind = kind

    def __repr__(self):
        return "ABSENT"


ABSENT = _Absent()
absent_of = functools.cache(_Absent)


@dataclasses.dataclass
class Packed:
    """An object, a list or a dict in place of which a tree stands (_host/objects.py): its number, an object of that class, whose methods
    and class attributes guards read, or the class itself, as of a list or a dict; and what it holds, None where it comes again."""

    index: int
    like: Any
    held: Any


def values_of_the_standard_library():
    """Returns the classes whose objects never change and are fully told by their repr()."""
    import datetime
    import decimal
    import fractions
    import pathlib
    import uuid

    dates = (datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone)
    paths = (pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path()))
    return (decimal.Decimal, fractions.Fraction, uuid.UUID, *dates, *paths)


def parameter_names(function):
    """Returns the names of a callable's positional parameters, in order; an empty list if it has no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


def keep_random_states():
    """Returns a function that restores the present random states of Python and, if it is loaded, of NumPy."""
    import random
    import sys

    state = random.getstate()
    numpy_random = getattr(sys.modules.get("numpy"), "random", None)
    numpy_state = numpy_random.get_state() if numpy_random is not None else None

    def restore():
        random.setstate(state)
        if numpy_random is not None:
            numpy_random.set_state(numpy_state)

    return restore


def field_names(value):
    """Returns the fields of a dataclass that are set, in the order of their declaration, then its other attributes."""
    fields = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
    return (*fields, *(name for name in getattr(value, "__dict__", ()) if name not in fields))


def none_for_absent(tree):
    """Returns the tree with None in place of each missing tensor."""
    from torch.utils import _pytree

    return _pytree.tree_map(lambda leaf: None if leaf is ABSENT else leaf, tree)


def _parts(value):
    """Returns {name: part} of a value that is a tree of parts, as C++ sees it; None for a leaf."""
    import torch
    from torch.utils import _pytree

    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: getattr(value, name) for name in value._fields}
    if type(value) in (list, tuple) or isinstance(value, tuple) and type(value) not in _pytree.SUPPORTED_NODES:
        return dict(enumerate(value))
    if isinstance(value, dict):
        return value
    if isinstance(value, torch.nn.Module):
        return {name: tensor for kind in (value.named_parameters, value.named_buffers) for name, tensor in kind(remove_duplicate=False)}
    if type(value) in _pytree.SUPPORTED_NODES:
        return dict(enumerate(_pytree.SUPPORTED_NODES[type(value)].flatten_fn(value)[0]))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: getattr(value, name) for name in field_names(value)}
    return None


def _described(value):
    """Describes a value in the words of a message: its type, and the names of its parts."""
    parts = _parts(value)
    return f"a {type(value).__name__}" + (f" of {', '.join(map(str, parts))}" if parts else "")


def _gradients_of(gradient, argument, path):
    """Returns one gradient per tensor of the argument, in the order in which C++ visits them."""
    import torch

    from . import UserError

    parts, given = _parts(argument), _parts(gradient)
    if isinstance(argument, dict):
        parts = {key: argument[key] for key in sorted(argument)}
    if gradient is None or gradient is ABSENT:
        if isinstance(argument, torch.Tensor):
            return [ABSENT]
        return [leaf for part in (parts or {}).values() for leaf in _gradients_of(None, part, path)]
    if parts is None:
        is_tensor = isinstance(argument, torch.Tensor)
        if isinstance(gradient, torch.Tensor) == is_tensor and given is None:
            return [gradient] if is_tensor else []  # the place of a constant may hold anything but a tensor
    elif given is not None and given.keys() == parts.keys():
        return [leaf for name, part in parts.items() for leaf in _gradients_of(given[name], part, f"{path}.{name}")]
    raise UserError(
        f"[custom_vjp] bwd returns {_described(gradient)} as the gradient of {path}, which is {_described(argument)}; return a tree of "
        "the same parts, with None for what has no gradient"
    )


def fill_gradients(gradients, arguments):
    """Returns what bwd returned as a list with one gradient per tensor of the arguments: None becomes ABSENT for every
    tensor that it covers. Errors: UserError for another number of gradients than arguments, and for one that is not a
    tree like its argument."""
    if not isinstance(gradients, tuple):
        gradients = (gradients,)
    if len(gradients) != len(arguments):
        from . import UserError

        raise UserError(
            f"[custom_vjp] bwd returned {len(gradients)} gradients, expected one for each of the {len(arguments)} "
            "arguments; return a tuple, with None for an argument that has none"
        )
    pairs = enumerate(zip(gradients, arguments))
    return [leaf for index, (gradient, argument) in pairs for leaf in _gradients_of(gradient, argument, f"argument {index}")]


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
    import torch
    from torch.utils import _pytree

    from . import _core

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
        from . import UserError
        from ._host.watch import captures_anew_for

        refusal = (
            f"[capture] the function returned an object that holds a tensor, at 'result{hidden}', expected tensors in lists, "
            "tuples, dicts, dataclasses or classes registered with torch.utils._pytree; return the tensor itself"
        )
        captures_anew_for(result, refusal)
        raise UserError(refusal)
