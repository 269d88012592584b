"""By which name a function reaches each tensor that it captures: "w" of its closure or globals, "net.0.weight" of a module in
them, "self.scale" of the object that it is a method of."""
import functools
import itertools
import types

import torch

_MOST = 100_000  # objects that are looked at; tensors that are not found by then keep the numbers that they have without names
_ATOMS = frozenset({str, bytes, int, float, complex, bool, type(None)})
_DEPTH = 4  # how deep objects are followed: containers, attributes, functions in closures


def _joined(prefix, part):
    return f"{prefix}.{part}" if prefix else str(part)


def _codes(code):
    """A function's code and that of the functions written inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _captured(function):
    """(name, object) of what a Python function's closure holds and what it names of its globals."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the cell is empty
            pass
    seen = set()
    for name in itertools.chain.from_iterable(code.co_names for code in _codes(function.__code__)):
        if name in seen or name not in function.__globals__:
            continue
        seen.add(name)
        yield name, function.__globals__[name]


def _module_attributes(module, function):
    """(name, object) of the tensors and modules of a Python module that a function's code may name."""
    for name in {name for code in _codes(function.__code__) for name in code.co_names}:
        found = vars(module).get(name)
        if isinstance(found, (torch.Tensor, torch.nn.Module)):
            yield name, found


def _attributes(item):
    """The dict of an object's own attributes, without what its class may run when it is asked for them."""
    try:
        return object.__getattribute__(item, "__dict__")
    except AttributeError:
        return {}


class _Walk:
    """Walks from a callable breadth first, so that a tensor that is reached in two ways has the shorter name, and no further
    than to the last tensor that is wanted. Types are asked and not objects: isinstance() runs the code of proxies."""

    def __init__(self, wanted):
        self.wanted = {id(tensor) for tensor in wanted}
        self.found = []
        self.seen = set()

    def run(self, callable_):
        level = [("", callable_)]
        for _ in range(_DEPTH + 1):
            following = []
            for name, item in level:
                if not self.wanted or len(self.seen) > _MOST:
                    return self.found
                if type(item) in _ATOMS or id(item) in self.seen:
                    continue
                self.seen.add(id(item))
                following.extend(self.parts(name, item))
            level = following
        return self.found

    def tensor(self, name, tensor):
        if id(tensor) in self.wanted:
            self.wanted.discard(id(tensor))
            self.found.append((tensor, name))

    def parts(self, name, item):
        kind = type(item)
        if issubclass(kind, torch.Tensor):
            self.tensor(name or "self", item)
        elif issubclass(kind, torch.nn.Module):
            self.module(name, item)
        else:
            return list(self.inside(name, item, kind))
        return []

    def module(self, name, module):
        """Its parameters and buffers and those of the modules inside it, by the dicts that hold them: named_parameters() takes
        three times as long, and runs code that a class may have replaced."""
        held = _attributes(module)
        for part in ("_parameters", "_buffers"):
            for key, tensor in held.get(part, {}).items():
                self.tensor(_joined(name, key), tensor)
        for key, child in held.get("_modules", {}).items():
            if child is not None and id(child) not in self.seen:
                self.seen.add(id(child))
                self.module(_joined(name, key), child)

    def inside(self, name, item, kind):
        if issubclass(kind, functools.partial):
            yield name, item.func
            yield from ((_joined(name, i), part) for i, part in enumerate(item.args))
            yield from ((_joined(name, key), part) for key, part in item.keywords.items())
        elif kind is types.MethodType:
            yield _joined(name, "self"), item.__self__
            yield name, item.__func__
        elif kind is types.FunctionType:
            for part_name, part in _captured(item):
                if type(part) is types.ModuleType:
                    yield from ((_joined(part_name, attribute), found) for attribute, found in _module_attributes(part, item))
                elif not issubclass(type(part), type):
                    yield _joined(name, part_name), part
        elif issubclass(kind, dict):
            yield from ((_joined(name, key), part) for key, part in dict.items(item) if type(key) in (str, int))
        elif issubclass(kind, (list, tuple)):
            elements = list.__iter__(item) if issubclass(kind, list) else tuple.__iter__(item)
            yield from ((_joined(name, i), part) for i, part in enumerate(elements))
        elif kind.__module__ != "builtins" and not issubclass(kind, (type, types.ModuleType)):
            yield from ((_joined(name, key), part) for key, part in _attributes(item).items())


def names_of_tensors(callable_, wanted):
    """(tensor, name) of those of the tensors `wanted` that a callable reaches. Errors: none; a tensor that is not found has no
    name."""
    try:
        return _Walk(wanted).run(callable_)
    except Exception:  # a name is a convenience: a container that changes or refuses to be read leaves its tensors without
        return []
