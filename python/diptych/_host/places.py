"""Places where a function keeps tensors from one call to the next: an attribute, a buffer, a variable, an element of a dict or a
list. keeper.py says what becomes of them."""
import collections
import sys
import types
import weakref
from typing import Any, NamedTuple

import torch

from .. import _core
from .contents import MISSING, PLAIN, same

_TREES = (list, tuple, dict)
_TENSORS = frozenset((torch.Tensor, torch.nn.Parameter, torch.nn.Buffer))


class Mark:
    """Stands for something that is no value of the user's; guards know it by its identity."""

    def __init__(self, words):
        self._words = words

    def __repr__(self):
        return self._words


HELD = Mark("what the function keeps here")  # stands in a place during a call
UNCHANGED = Mark("unchanged")  # stands among the results for what is as it was
ABSENT = Mark("absent")  # stands among arguments and results for a place that is not there


class Place(NamedTuple):
    """An entry of a dict or a list, or the content of a cell."""

    holder: Any
    key: Any
    path: str

    def read(self):
        try:
            return self.holder.cell_contents if isinstance(self.holder, types.CellType) else self.holder[self.key]
        except (KeyError, ValueError):
            return ABSENT

    def write(self, value):
        if isinstance(self.holder, types.CellType):
            if value is not ABSENT:
                self.holder.cell_contents = value
            elif self.read() is not ABSENT:
                del self.holder.cell_contents
        elif value is ABSENT:
            self.holder.pop(self.key, None)
        else:
            self.holder[self.key] = value

    def is_there(self):
        """Whether the place can be read and written: a list may have become shorter."""
        return not isinstance(self.holder, list) or self.key < len(self.holder)

    @property
    def name(self):
        return id(self.holder), self.key


def leaves(value, containers=None):
    """Returns the leaves of lists, tuples and dicts; adds the ids of the lists and dicts to `containers`."""
    if type(value) not in _TREES:
        return [value]
    if containers is not None and type(value) is not tuple:
        containers.append(id(value))
    parts = value.values() if type(value) is dict else value
    return [leaf for part in parts for leaf in leaves(part, containers)]


def _is_state(value):
    """Whether a value can be an argument and a result of a capture as it is, whoever has made it."""
    if isinstance(value, torch.Tensor):
        return type(value) is torch.Tensor and not getattr(value, "__dict__", None)
    if type(value) is dict:
        return all(type(key) is str for key in value) and all(map(_is_state, value.values()))
    if type(value) in (list, tuple):
        return all(map(_is_state, value))
    return value is MISSING or value is ABSENT or type(value) in PLAIN


def _holds_tensor(value):
    return any(isinstance(leaf, torch.Tensor) for leaf in leaves(value))


def _num_references(parts):
    """Returns how many references there are to each part, those of the loop and the question included, whose number depends on the interpreter."""
    return [sys.getrefcount(part) for part in parts]


_HELD_ONCE = max(_num_references([[]]))  # by what holds the parts


def _parts_are_owned(value):
    """Whether nothing but a tree refers to the lists and dicts in it."""
    if type(value) not in _TREES:
        return True
    parts = value.values() if type(value) is dict else value
    counts = _num_references(parts)
    return all(_parts_are_owned(part) for part in parts) and all(count <= _HELD_ONCE for part, count in zip(parts, counts) if type(part) in (list, dict))


def has_weak_references(value):
    """Whether anybody refers to an object weakly but for the guards, whose references call a function of the bindings."""
    return any(type(reference.__callback__) is not types.BuiltinFunctionType for reference in weakref.getweakrefs(value))


def _can_be_input(tensor):
    """Whether a tensor is no left-over of another trace, and nobody refers to it weakly."""
    return not _core.is_stand_in(tensor) and not has_weak_references(tensor)


def can_be_given(place):
    """Whether what a place holds can be given to the function as a tree: it is made of tensors and constants, and nothing else refers
    to a list or a dict of it, or weakly to a tensor, through which the function would see another one than its own."""
    value = place.read()
    if type(value) in PLAIN or value is ABSENT:
        return True
    if type(value) in _TENSORS:
        return _can_be_input(value)
    if type(value) not in _TREES or not all(type(leaf) in _TENSORS or type(leaf) in PLAIN for leaf in leaves(value)):
        return False
    is_owned = type(value) is tuple or max(_num_references((value,))) <= _HELD_ONCE + 2  # the place, the variable and the tuple hold it
    return is_owned and _parts_are_owned(value) and all(_can_be_input(leaf) for leaf in leaves(value) if type(leaf) in _TENSORS)


def _entries(holder, content):
    """Returns {key: value} of what the Contents of a dict, a list or a cell have read."""
    if isinstance(holder, dict):
        half = len(content) // 2
        return {key: value for key, value in zip(content[:half], content[half:]) if value is not MISSING}
    return {index: value for index, value in enumerate(content) if value is not MISSING}


def places_of(path, holder, before, now):
    """Returns the Places in which an object now holds other tensors than before; None if it has changed in another way."""
    if type(holder) not in (dict, collections.OrderedDict, list, types.CellType) or isinstance(holder, list) and len(before) != len(now):
        return None
    old, new = _entries(holder, before), _entries(holder, now)
    changed = {key: value for key, value in new.items() if not same(old.get(key, MISSING), value)}
    if old.keys() - new.keys() or not all(_is_state(value) and _holds_tensor(value) and _is_state(old.get(key, MISSING)) for key, value in changed.items()):
        return None
    is_cell = isinstance(holder, types.CellType)
    return [Place(holder, key, path if is_cell else f"{path}.{key}") for key in changed]


def can_be_returned(values, result, known):
    """Whether graphs can make these values anew at each call: they are made of tensors and constants, and no list or dict in them is in
    another one as well, or among the objects in `known`, by their ids."""
    ours, others = [], []
    found = [leaf for value in values for leaf in leaves(value, ours)]
    leaves(result, others)
    return all(map(_is_state, found)) and len(set(ours)) == len(ours) and not any(one in known or one in others for one in ours)


def paths_of(places):
    """The paths of places, each once."""
    paths = {}
    for place in places:
        path = place.path
        while path in paths:
            path += "'"
        paths[path] = None
    return list(paths)
