"""Helpers that the bindings call."""
import copy
import dataclasses
import datetime
import decimal
import fractions
import functools
import inspect
import pathlib
import random
import sys
import uuid

import torch
from torch.utils import _pytree

from ._core import UserError
from ._host.packed import parts_of


class _Absent:
    """Stands in a tree in place of a missing tensor. kind: the class that the tensor will have; None for its own."""

    __slots__ = ("kind",)

    def __init__(self, kind=None):
        self.kind = kind

    def __repr__(self):
        return "ABSENT"


ABSENT = _Absent()
absent_of = functools.cache(_Absent)


def values_of_the_standard_library():
    """Returns the classes whose objects never change and are fully told by their repr()."""
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
    state = random.getstate()
    numpy_random = getattr(sys.modules.get("numpy"), "random", None)
    numpy_state = numpy_random.get_state() if numpy_random is not None else None

    def restore():
        random.setstate(state)
        if numpy_random is not None:
            numpy_random.set_state(numpy_state)

    return restore


def none_for_absent(tree):
    """Returns the tree with None in place of each missing tensor."""
    return _pytree.tree_map(lambda leaf: None if leaf is ABSENT else leaf, tree)


def _described(value):
    """Describes a value in the words of a message: its type, and the names of its parts."""
    names = parts_of(value)
    return f"a {type(value).__name__}" + (f" of {', '.join(map(str, names))}" if names else "")


def _gradients_of(gradient, argument, path):
    """Returns one gradient per tensor of the argument, in the order in which C++ visits them."""
    parts, given = parts_of(argument), parts_of(gradient)
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
        raise UserError(
            f"[custom_vjp] bwd returned {len(gradients)} gradients, expected one for each of the {len(arguments)} "
            "arguments; return a tuple, with None for an argument that has none"
        )
    pairs = enumerate(zip(gradients, arguments))
    return [leaf for index, (gradient, argument) in pairs for leaf in _gradients_of(gradient, argument, f"argument {index}")]


def _is_sequence(value):
    return type(value) in (list, tuple) or (isinstance(value, tuple) and hasattr(value, "_fields"))


def _children(value):
    """Returns the parts of what holds others, None for a leaf."""
    if _is_sequence(value):
        return list(value)
    if type(value) is dict:
        return list(value.values())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    return None


def _with_children(value, children):
    """Returns such a value with other parts."""
    if _is_sequence(value):
        return value._make(children) if hasattr(value, "_fields") else type(value)(children)
    if type(value) is dict:
        return dict(zip(value, children))
    made = copy.copy(value)
    for field, child in zip(dataclasses.fields(value), children):
        object.__setattr__(made, field.name, child)
    return made


def _pairs(expected, got):
    """Returns the parts of two values side by side, if they hold as many of the same kind; a list is as good as a tuple. Else None."""
    if _is_sequence(expected) and _is_sequence(got):
        return list(zip(expected, got)) if len(expected) == len(got) else None
    if type(expected) is not type(got) or _children(expected) is None:
        return None
    if type(expected) is dict:
        return [(value, got[key]) for key, value in expected.items()] if expected.keys() == got.keys() else None
    return list(zip(_children(expected), _children(got)))


def in_structure_of(expected, got):
    """Returns what a body has returned in the containers of what it got: a list for a tuple, and the reverse."""
    pairs = _pairs(expected, got)
    return got if pairs is None else _with_children(expected, [in_structure_of(*pair) for pair in pairs])


_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


def _dtype_of_moved(number, got):
    """Returns the dtype that a number of a carry has as a tensor, if the next one is another number or a tensor; else None."""
    if type(number) not in _DTYPES or (type(number) is int and not -(2**63) <= number < 2**63):
        return None
    if isinstance(got, torch.Tensor):
        return got.dtype if got.dim() == 0 else None
    if type(got) not in _DTYPES or (type(got) is type(number) and repr(got) == repr(number)):
        return None
    return torch.promote_types(_DTYPES[type(number)], _DTYPES[type(got)])


def _dtypes(init, got):
    """Returns the dtypes of numbers that change, in lists that are nested as the parts of the carry; None if none changes."""
    pairs = _pairs(init, got)
    if pairs is None:
        return _dtype_of_moved(init, got)
    found = [_dtypes(*pair) for pair in pairs]
    return found if any(found) else None


def next_carry(init, got):
    """Returns what a body has returned in the structure of its first carry; and what with_tensors() takes, None if no number changes."""
    got = in_structure_of(init, got)
    return got, _dtypes(init, got)


def with_tensors(init, dtypes):
    """Returns a carry with tensors in place of the numbers that have a dtype."""
    if dtypes is None:
        return init
    if isinstance(dtypes, list):
        return _with_children(init, [with_tensors(*pair) for pair in zip(_children(init), dtypes)])
    return torch.tensor(init, dtype=dtypes)
