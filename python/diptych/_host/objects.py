"""Objects that hold tensors, as trees that captures take and return: their attributes, and the lists and dicts in them.

Note [Objects as trees]: a graph returns no object, and a guard knows one by its identity. So once a trace has shown that a function
returns an object that holds its tensors, or changes one that it is given, the function is captured anew with objects of that class
taken apart: the function gets an object that is made of stand-ins, what has become of it is among the results, and after the call the
caller's own object is given that, and so are the lists and dicts in it. That is right as long as the function meets such an object in
no other way; where it may, it runs itself: Unfit says so before a call, a watch finds out in a trace.
"""
import abc
import dataclasses
import inspect
import sys
import types
import typing

import torch
from torch.utils import _pytree

from .. import _core
from .contents import MISSING, in_slot, slots_of
from .packed import Packed, field_names
from .places import UNCHANGED, has_weak_references

_PACKAGES = frozenset(("torch", "functorch", "numpy", "diptych", *sys.stdlib_module_names)) - {"__main__"}
_EMPTY_BASES = (object, abc.ABC, typing.Generic, typing.Protocol)  # of the standard library, but of no content
_OWN_RULES = ("__setattr__", "__delattr__", "__getattribute__", "__del__")
_DEEPEST = 12
_num_references = sys.getrefcount
_holder = [[]]
_HELD_ONCE = (lambda value: _num_references(value))(_holder[0])  # by an object, with an argument and the question


class Unfit(Exception):
    """What is to be taken apart is more than its attributes, or is held by others, too."""


def is_holder(kind):
    """Whether objects of a class are their attributes and nothing else."""
    if kind in _pytree.SUPPORTED_NODES or type(kind) not in (type, abc.ABCMeta):
        return False
    bases = [base for base in kind.__mro__ if base not in _EMPTY_BASES]
    if not bases or any(str(base.__module__).partition(".")[0] in _PACKAGES for base in bases):
        return False
    slots = slots_of(kind)
    if len(set(slots)) < len(slots) or not all(type(inspect.getattr_static(kind, name, None)) is types.MemberDescriptorType for name in slots):
        return False  # one of a base that a class hides
    return kind.__new__ is object.__new__ and all(getattr(kind, name, None) is getattr(object, name, None) for name in _OWN_RULES)


def like(kind):
    """Returns what stands for a class in Packed: an object of it, or the class where guards, which refer weakly to objects, could not."""
    return object.__new__(kind) if kind.__weakrefoffset__ or dataclasses.is_dataclass(kind) else kind


def attributes(value):
    """Returns what an object holds by name: its slots that are set, then its other attributes."""
    slots = slots_of(type(value))
    if not slots:
        return vars(value)
    held = {name: in_slot(value, name) for name in slots}
    return {**{name: part for name, part in held.items() if part is not MISSING}, **getattr(value, "__dict__", {})}


def _held(value):
    return value if type(value) is dict else attributes(value)


def _set(value, held):
    """Gives an object these attributes in their order, or a dict these entries, and takes the others away."""
    slots = () if type(value) is dict else slots_of(type(value))
    for name in slots:
        if name in held:
            object.__setattr__(value, name, held[name])
        elif in_slot(value, name) is not MISSING:
            object.__delattr__(value, name)
    target = value if type(value) is dict else getattr(value, "__dict__", {})
    held = {name: part for name, part in held.items() if name not in slots}
    if [name for name in target if name in held] != list(held)[: len(target)] or target.keys() - held.keys():
        target.clear()
    target.update(held)


def _mapped(value, change):
    """Returns a tree with change(part) in the place of each of its parts; the value as it is if none is another, or if it has none."""
    kind = type(value)
    if kind in (list, tuple):  # by index, as a loop would refer to the parts, too
        changed = [change(value[index]) for index in range(len(value))]
        return value if all(one is other for one, other in zip(value, changed)) else kind(changed)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        changed = list(map(change, value))
        return value if all(one is other for one, other in zip(value, changed)) else kind._make(changed)
    if kind is dict:
        changed = {name: change(part) for name, part in value.items()}
        return value if all(part is value[name] for name, part in changed.items()) else changed
    if kind in _pytree.SUPPORTED_NODES:
        node = _pytree.SUPPORTED_NODES[kind]
        parts, context = node.flatten_fn(value)
        changed = [change(part) for part in parts]
        return value if all(one is other for one, other in zip(parts, changed)) else node.unflatten_fn(changed, context)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {name: change(getattr(value, name)) for name in field_names(value)}
        if all(part is getattr(value, name) for name, part in changed.items()):
            return value
        made = object.__new__(kind)
        for name, part in {**getattr(value, "__dict__", {}), **changed}.items():
            object.__setattr__(made, name, part)
        return made
    return value


def _are_keys(held):
    return all(type(key) is str for key in held) or all(type(key) is int for key in held)


class Objects:
    """The objects that a call is given, each with a number, and those that are made of trees. `likes` are objects of the classes that
    are taken apart, by class. Objects in `known`, by their ids, stay what they are."""

    def __init__(self, likes, known=()):
        self._likes, self._known = likes, known
        self._objects, self._numbers = [], {}
        self._loose = set()  # the numbers of lists and dicts that are in no object
        self._depth = 0  # of objects and containers around what is packed
        self._num_open = 0  # objects around it
        self.is_given = True  # whether what is packed is the caller's, which has to be what it seems

    def _add(self, value):
        number = self._numbers[id(value)] = len(self._objects)
        self._objects.append(value)
        if not self._num_open and type(value) in (list, dict):
            self._loose.add(number)
        return number

    def held(self, value):
        """Returns what an object, a list or a dict holds, as a tree."""
        if type(value) is list:
            return [self.pack(value[index]) for index in range(len(value))]
        slots, names = () if type(value) is dict else slots_of(type(value)), list(_held(value))
        held = value if type(value) is dict else getattr(value, "__dict__", {})
        return {name: self.pack(in_slot(value, name) if name in slots else held[name]) for name in names}  # which refers to no part itself

    def pack(self, value):
        """Returns a tree in which Packed stands for objects, lists and dicts. Errors: Unfit."""
        kind = type(value)
        if isinstance(value, torch.Tensor):
            return value
        is_container = kind is list or kind is dict and _are_keys(value)
        if kind not in self._likes and not is_container:
            if self.is_given and dataclasses.is_dataclass(kind) and not self._leads_to_any(value, _DEEPEST):
                return value  # a tree as it is, with its lists and dicts
            packed = _mapped(value, self.pack)
            if self.is_given and (packed is not value or kind is dict) and not isinstance(value, tuple):
                raise Unfit(f"a {kind.__name__} holds an object that is taken apart" if kind is not dict else "a dict has keys of several kinds")
            return packed
        number = self._numbers.get(id(value))
        if number is not None:
            return Packed(number, self._likes.get(kind, kind), None)
        if id(value) in self._known:
            return value
        if self.is_given and not is_container and has_weak_references(value):
            raise Unfit(f"a {kind.__name__} has a weak reference")
        if self.is_given and is_container and self._num_open and _num_references(value) > _HELD_ONCE:
            raise Unfit(f"others refer to a {kind.__name__} of an object")
        return Packed(self._add(value), self._likes.get(kind, kind), self._inside(value, self.held, value))

    def _leads_to_any(self, value, depth):
        """Whether a tree, which is a leaf of what is packed, leads to an object that would be taken apart, as far as one can say."""
        parts = []
        _mapped(value, lambda part: parts.append(part) or part)
        return any(not depth or type(part) in self._likes or self._leads_to_any(part, depth - 1) for part in parts)

    def _inside(self, value, do, *arguments):
        """Returns do(*arguments), which goes through what an object, a list or a dict holds."""
        if self._depth == 200:
            raise Unfit("an object is deeper than 200 others")
        is_object = type(value) not in (list, dict)
        self._depth, self._num_open = self._depth + 1, self._num_open + is_object
        try:
            return do(*arguments)
        finally:
            self._depth, self._num_open = self._depth - 1, self._num_open - is_object

    def unpack(self, tree):
        """Returns a tree with objects in the place of Packed: those that are known by their numbers, and new ones."""
        if type(tree) is not Packed:
            return _mapped(tree, self.unpack)
        if tree.index == len(self._objects):
            kind = tree.like if isinstance(tree.like, type) else type(tree.like)
            made = kind() if kind is list or kind is dict else object.__new__(kind)
            self._add(made)
            self._inside(made, self.fill, made, tree.held)
        return self._objects[tree.index]

    def fill(self, value, held):
        """Gives an object, a list or a dict what is in a tree of held()."""
        if type(value) is list:
            value[:] = [self.unpack(part) for part in held]
            return
        before = _held(value)
        _set(value, {name: before[name] if part is UNCHANGED else self.unpack(part) for name, part in held.items()})

    def __len__(self):
        return len(self._objects)

    def values(self):
        """Yields what is in the objects."""
        for value in self._objects:
            yield from (value if type(value) is list else _held(value).values())

    def meet(self, known):
        """Whether one of the objects is among those with these ids."""
        return any(number in known for number in self._numbers)

    def contents(self):
        """Returns, of each object so far, the object and what it holds."""
        return [(value, type(value), list(value) if type(value) is list else dict(_held(value))) for value in self._objects]

    def states(self, before):
        """Returns what the objects hold now that contents() has told of before, or UNCHANGED. Errors: Unfit for one that is of another
        class now."""
        states = []
        for number, (value, kind, content) in enumerate(before):
            if type(value) is not kind:
                raise Unfit(f"a {kind.__name__} becomes a {type(value).__name__}")
            now = value if kind is list else _held(value)
            if kind is dict and not _are_keys(now):
                raise Unfit("a dict gets keys of several kinds")
            if _is_same(content, now):
                states.append(UNCHANGED)
                continue
            if number in self._loose:
                raise Unfit(f"a {kind.__name__} that is in no object")
            held = self.held(value)
            if type(held) is dict:
                held = {name: UNCHANGED if name in content and content[name] is now[name] else part for name, part in held.items()}
            states.append(held)
        return states

    def fill_all(self, states):
        """Gives the first objects what they hold in another call's states()."""
        for value, held in zip(list(self._objects), states):
            if held is not UNCHANGED:
                self.fill(value, held)


def _is_same(before, now):
    if type(before) is list:
        return len(before) == len(now) and all(one is other for one, other in zip(before, now))
    return list(before) == list(now) and all(before[name] is now[name] for name in before)


def classes_with_stand_ins(value, known):
    """Returns the classes of objects in a tree that lead to tensors of a trace, but for objects in `known`; dataclasses are trees as they are."""
    found, met = set(), set()

    def is_taken_apart(kind):
        return is_holder(kind) and not dataclasses.is_dataclass(kind)

    def leads(value, depth):
        if isinstance(value, torch.Tensor):
            return _core.is_stand_in(value)
        if not depth or id(value) in met or id(value) in known:
            return False
        parts = []
        if is_taken_apart(type(value)):
            met.add(id(value))
            parts = list(attributes(value).values())
        else:
            _mapped(value, lambda part: parts.append(part) or part)
        is_leading = any([leads(part, depth - 1) for part in parts])
        if is_leading and is_taken_apart(type(value)):
            found.add(type(value))
        return is_leading

    leads(value, _DEEPEST)
    return found


def classes_to_take_apart(values, changed):
    """Returns the classes of objects among some values that are nothing but their attributes; of dataclasses, which are trees as they are,
    those alone whose objects hold an object, a dict or a list that has changed."""
    ids = set(map(id, changed))

    def holds(value, depth=_DEEPEST):
        if id(value) in ids or id(getattr(value, "__dict__", None)) in ids:
            return True
        parts = []
        if is_holder(type(value)):
            parts = list(attributes(value).values())
        else:
            _mapped(value, lambda part: parts.append(part) or part)
        return depth > 0 and any(holds(part, depth - 1) for part in parts)

    holders = [value for value in values if is_holder(type(value))]
    return {type(value) for value in holders if not dataclasses.is_dataclass(value) or holds(value)}
