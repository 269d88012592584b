"""By which name a function reaches each tensor that it captures: "w" of its closure or globals, "net.0.weight" of a module in
them, "self.scale" of the object that it is a method of."""
import functools
import itertools
import types

import torch

_MOST = 100_000  # objects that are looked at; further tensors keep the numbers that they have without names
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


class _Walk:
    """Walks from a callable breadth first, so that a tensor that is reached in two ways has the shorter name."""

    def __init__(self):
        self.found = []
        self.seen = set()

    def run(self, callable_):
        level = [("", callable_)]
        for _ in range(_DEPTH + 1):
            following = []
            for name, item in level:
                if id(item) in self.seen or len(self.seen) > _MOST:
                    continue
                self.seen.add(id(item))
                following.extend(self.parts(name, item))
            level = following
        return self.found

    def parts(self, name, item):
        if isinstance(item, torch.Tensor):
            self.found.append((item, name or "self"))
            return []
        if isinstance(item, torch.nn.Module):
            self.module(name, item)
            return []
        return list(self.inside(name, item))

    def module(self, name, module):
        """Its parameters and buffers and those of the modules inside it, by the dicts that hold them: named_parameters() takes
        three times as long, and runs code that a class may have replaced."""
        held = vars(module)
        for kind in ("_parameters", "_buffers"):
            for key, tensor in held.get(kind, {}).items():
                if tensor is not None:
                    self.found.append((tensor, _joined(name, key)))
        for key, child in held.get("_modules", {}).items():
            if child is not None and id(child) not in self.seen:
                self.seen.add(id(child))
                self.module(_joined(name, key), child)

    def inside(self, name, item):
        if isinstance(item, functools.partial):
            yield name, item.func
            yield from ((_joined(name, i), part) for i, part in enumerate(item.args))
            yield from ((_joined(name, key), part) for key, part in item.keywords.items())
        elif isinstance(item, types.MethodType):
            yield _joined(name, "self"), item.__self__
            yield name, item.__func__
        elif isinstance(item, types.FunctionType):
            for part_name, part in _captured(item):
                if isinstance(part, types.ModuleType):
                    yield from ((_joined(part_name, attribute), found) for attribute, found in _module_attributes(part, item))
                elif not isinstance(part, type):
                    yield _joined(name, part_name), part
        elif isinstance(item, dict):
            yield from ((_joined(name, key), part) for key, part in item.items() if isinstance(key, (str, int)))
        elif isinstance(item, (list, tuple)):
            yield from ((_joined(name, i), part) for i, part in enumerate(item))
        elif type(item).__module__ != "builtins" and hasattr(item, "__dict__") and not isinstance(item, (type, types.ModuleType)):
            yield from ((_joined(name, key), part) for key, part in vars(item).items())


def names_of_tensors(callable_):
    """(tensor, name) of the tensors that a callable reaches, those with the shortest way first. Reads attributes of instances
    alone, so that none of the user's code runs. Errors: none; a tensor that is not found has no name."""
    try:
        return _Walk().run(callable_)
    except Exception:  # a name is a convenience: a container that changes or refuses to be read leaves its tensors without
        return []
