"""Objects that hold tensors, as trees that captures take and return: their attributes, and the lists and dicts in them.

Note [Objects as trees]: a graph returns no object, and a guard knows one by its identity. So once a trace has shown that a function
returns an object that holds its tensors, or changes one that it is given, the function is captured anew with objects of that class
taken apart: the function gets an object that is made of stand-ins, what has become of it is among the results, and after the call the
caller's own object is given that, and so are the lists and dicts in it.
"""
import copy
import dataclasses
import sys
from typing import Any

import torch
from torch.utils import _pytree

from . import _core
from ._tree import field_names

_PACKAGES = frozenset(("torch", "functorch", "numpy", "diptych", *sys.stdlib_module_names)) - {"__main__"}
_NO_HOLDERS = (torch.nn.Module, torch.Tensor, type, BaseException, dict, list, tuple, set, frozenset)
_DEEPEST = 12


@dataclasses.dataclass
class Packed:
    """An object, a list or a dict in place of which a tree stands; `held` is None where it comes again."""

    index: int
    kind: type
    held: Any


def is_holder(kind):
    """Whether objects of a class are their attributes and nothing else."""
    if issubclass(kind, _NO_HOLDERS) or str(kind.__module__).partition(".")[0] in _PACKAGES or kind in _pytree.SUPPORTED_NODES:
        return False
    has_slots = any("__slots__" in vars(base) and vars(base)["__slots__"] for base in kind.__mro__)
    return kind.__new__ is object.__new__ and bool(kind.__dictoffset__) and not has_slots and not dataclasses.is_dataclass(kind)


def _mapped(value, change):
    """Returns a tree with change(part) in the place of each of its parts; anything else as it is."""
    kind = type(value)
    if kind in (list, tuple):
        return kind(map(change, value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind._make(map(change, value))
    if kind is dict:
        return {name: change(part) for name, part in value.items()}
    if kind in _pytree.SUPPORTED_NODES:
        node = _pytree.SUPPORTED_NODES[kind]
        parts, context = node.flatten_fn(value)
        changed = [change(part) for part in parts]
        return value if all(one is other for one, other in zip(parts, changed)) else node.unflatten_fn(changed, context)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {name: change(getattr(value, name)) for name in field_names(value)}
        if all(part is getattr(value, name) for name, part in changed.items()):
            return value
        made = copy.copy(value)
        for name, part in changed.items():
            object.__setattr__(made, name, part)
        return made
    return value


class Objects:
    """The objects of some classes that a call is given, each with a number, and those that are made of trees. Objects in `known`,
    by their ids, stay what they are."""

    def __init__(self, classes, known=()):
        self._classes, self._known = classes, known
        self._objects, self._numbers = [], {}

    def _add(self, value):
        self._numbers[id(value)] = len(self._objects)
        self._objects.append(value)
        return len(self._objects) - 1

    def _held(self, value):
        if type(value) is list:
            return [self.pack(part, True) for part in value]
        return {name: self.pack(part, True) for name, part in (value if type(value) is dict else vars(value)).items()}

    def pack(self, value, is_inside=False):
        """Returns a tree in which Packed stands for objects, and for the lists and dicts in them."""
        kind = type(value)
        is_container = is_inside and (kind is list or kind is dict and all(type(key) is str for key in value))
        if kind not in self._classes and not is_container:
            return _mapped(value, lambda part: self.pack(part, is_inside))
        number = self._numbers.get(id(value))
        if number is not None:
            return Packed(number, kind, None)
        if id(value) in self._known:
            return value
        number = self._add(value)
        return Packed(number, kind, self._held(value))

    def unpack(self, tree):
        """Returns a tree with objects in the place of Packed: those that are known by their numbers, and new ones."""
        if type(tree) is not Packed:
            return _mapped(tree, self.unpack)
        if tree.index == len(self._objects):
            made = tree.kind() if tree.kind in (list, dict) else object.__new__(tree.kind)
            self._add(made)
            self._fill(made, tree.held)
        return self._objects[tree.index]

    def _fill(self, value, held):
        held = [self.unpack(part) for part in held] if type(value) is list else {name: self.unpack(part) for name, part in held.items()}
        if type(value) is list:
            value[:] = held
            return
        target = value if type(value) is dict else vars(value)
        for name in target.keys() - held.keys():
            del target[name]
        target.update(held)

    def __len__(self):
        return len(self._objects)

    def meet(self, known):
        """Whether one of the objects is among those with these ids."""
        return any(number in known for number in self._numbers)

    def states(self, count):
        """Returns what the first objects hold now."""
        return [self._held(value) for value in self._objects[:count]]

    def fill(self, states):
        """Gives the first objects what they hold in another call's states()."""
        for value, held in zip(list(self._objects), states):
            self._fill(value, held)


def classes_with_stand_ins(value, known):
    """Returns the classes of objects in a tree that lead to tensors of a trace, but for objects in `known`."""
    found, met = set(), set()

    def leads(value, depth):
        if isinstance(value, torch.Tensor):
            return _core.is_stand_in(value)
        if not depth or id(value) in met or id(value) in known:
            return False
        parts = []
        if is_holder(type(value)):
            met.add(id(value))
            parts = list(vars(value).values())
        else:
            _mapped(value, lambda part: parts.append(part) or part)
        is_leading = any([leads(part, depth - 1) for part in parts])
        if is_leading and is_holder(type(value)):
            found.add(type(value))
        return is_leading

    leads(value, _DEEPEST)
    return found
