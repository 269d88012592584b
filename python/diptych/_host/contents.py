"""Reads what objects of the host hold, one level deep, so that changes are seen and undone: containers, attributes,
cells, globals, classes, iterators, arrays."""
import _thread
import array
import collections
import dis
import functools
import io
import pickle
import queue
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from .. import _core
from .caches import CACHED, drop_of_trace, of_trace
from .numbers.floats import OpenFloat
from .packed import Packed

MISSING = object()
LARGE = 1_000_000  # a container with more elements is compared only by its length and its ends
_LARGE_MEMORY = 1 << 24
PLAIN = frozenset((type(None), bool, int, float, str, bytes, OpenFloat))
_OURS = ("torch", "functorch", "numpy", "diptych")
_ATOMS = (bool, int, float, complex, str, bytes, type(None), torch.Tensor, torch.dtype, torch.device, torch.Size, torch.Generator, range, slice,
          types.CodeType, types.BuiltinFunctionType)
_ITERATORS = tuple({type(made) for made in (iter([]), iter(()), iter({}), iter({}.items()), iter({}.values()), iter(set()), iter(range(1)), iter(""),
                                            reversed([]), enumerate([]), zip(), map(len, []), filter(None, []))})
_ATTRIBUTES_OF_LIBRARY = (torch.nn.Module, torch.optim.Optimizer, torch.amp.GradScaler, types.SimpleNamespace, collections.UserDict, collections.UserList, collections.ChainMap, queue.Queue, threading.Semaphore, threading.Event, threading.local, weakref.WeakKeyDictionary,
                          weakref.WeakValueDictionary, weakref.WeakSet)


class Contents(NamedTuple):
    """`read()` returns what an object holds now, as a list; `write` makes it hold that again, or is None; `parts`
    returns what it leads to."""

    read: Callable[[], list]
    write: Callable[[list], Any] | None
    parts: Callable[[], Iterator[tuple[str, Any]]]
    is_all: bool = True  # whether `read` and `parts` leave nothing out
    is_cache: bool = False  # whether what is undone comes back when the function itself has run
    holder: Any = None  # the dict, list or cell whose elements `read` returns, for a dict its keys, then its values; or the object whose slots


def _none():
    return ()


def _own(value, *kinds):
    """The first of `kinds` that value is an instance of, whose methods read and write what is there: those of a class derived from it may make
    something else of it, as a table whose [] makes an object of the class that it holds."""
    return next((kind for kind in kinds if isinstance(value, kind)), type(value))


def _of_dict(value, is_ordered=True):
    own = _own(value, collections.OrderedDict, dict)
    get = own.__getitem__
    order = list(own.__iter__(value))

    def read():
        keys = list(own.__iter__(value)) if is_ordered else sorted(own.__iter__(value), key=str)
        return [*keys, *(get(value, key) for key in keys)]

    def write(content):
        half = len(content) // 2
        own.clear(value)
        before = dict(zip(content[:half], content[half:]))
        for key in order if not is_ordered and len(order) == half else content[:half]:
            own.__setitem__(value, key, before[key])

    def parts():
        keys = [key for key in own.__iter__(value) if type(key) not in PLAIN]
        return [(f".{key}", get(value, key)) for key in own.__iter__(value) if type(get(value, key)) not in PLAIN] + [("", key) for key in keys]

    return Contents(read, write, parts, holder=value)


def _of_list(value):
    own = _own(value, list)

    def read():
        return list(own.__iter__(value))

    return Contents(read, lambda content: own.__setitem__(value, slice(None), content), lambda: [(f".{i}", x) for i, x in enumerate(read()) if type(x) not in PLAIN],
                    holder=value)


def _of_deque(value):
    def write(content):
        value.clear()
        value.extend(content)

    return Contents(lambda: list(value), write, lambda: [(f".{i}", x) for i, x in enumerate(value)])


def _of_set(value):
    def write(content):
        value.clear()
        value.update(content)

    return Contents(lambda: list(value), write, lambda: [("", part) for part in list(value) if type(part) not in PLAIN])


def _of_large(value):
    ends = (lambda: [len(value), id(value[0]), id(value[-1])]) if isinstance(value, list) else (lambda: [len(value)])
    return Contents(ends, None, _none, is_all=False)


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _of_cell(cell):
    def read():
        return [_content(cell)]

    def write(content):
        if content[0] is MISSING:
            del cell.cell_contents
        else:
            cell.cell_contents = content[0]

    return Contents(read, write, lambda: [("", content) for content in read() if content is not MISSING], holder=cell)


def names_by_use(code):
    """Returns (names of globals and of imported modules, names of attributes and strings that may name attributes) of
    code and the code inside it."""
    variables, attributes = {}, {}
    for instruction in dis.get_instructions(code):
        name, opname = instruction.argval, instruction.opname
        if not isinstance(name, str) or opname in ("LOAD_CONST", "LOAD_FAST", "STORE_FAST", "LOAD_DEREF", "STORE_DEREF"):
            continue
        kinds = (variables,) if opname.endswith(("_GLOBAL", "_NAME")) else (attributes,)
        for kind in (variables, attributes) if opname.startswith("IMPORT_") else kinds:
            kind[name] = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for mine, inner in zip((variables, attributes), names_by_use(constant)):
                mine.update(dict.fromkeys(inner))
        if isinstance(constant, str) and constant.isidentifier():
            attributes[constant] = None
    return tuple(variables), tuple(attributes)


def names_in(code):
    """Returns the names that code, and the code inside it, uses for what is not its own."""
    inside = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return dict.fromkeys([*code.co_names, *(name for part in inside for name in names_in(part))])


def variables(variables_by_name, names):
    """Returns the Contents of those variables, in a dict of globals or of a module, that have these names."""
    names = list(names)

    def write(content):
        for name, value in zip(names, content[len(names) :]):
            if value is MISSING:
                variables_by_name.pop(name, None)
            else:
                variables_by_name[name] = value

    def parts():
        for name in names:
            value = variables_by_name.get(name, MISSING)
            if _is_users_module(value):
                yield f".{name}", VariablesOf(vars(value), names)
            elif value is not MISSING:
                yield f".{name}", value

    return Contents(lambda: [*names, *(variables_by_name.get(name, MISSING) for name in names)], write, parts, holder=variables_by_name)


def _is_users_module(value):
    return isinstance(value, types.ModuleType) and not is_library_module(value)


def _of_function(function):
    def write(content):
        function.__code__, function.__defaults__, function.__kwdefaults__ = content

    def parts():
        names = names_in(function.__code__)
        cells = list(zip(function.__code__.co_freevars, function.__closure__ or ()))
        modules = [(name, _content(cell)) for name, cell in cells] + [(name, sys.modules.get(name)) for name in names]
        modules = [(f".{name}", VariablesOf(vars(module), names)) for name, module in modules if _is_users_module(module)]
        return [*((f".{name}", cell) for name, cell in cells), *modules, (".defaults", function.__defaults__), (".defaults", function.__kwdefaults__),
                ("", vars(function)), ("", VariablesOf(function.__globals__, names))]

    return Contents(lambda: [function.__code__, function.__defaults__, function.__kwdefaults__], write, parts)


class VariablesOf(NamedTuple):
    """The globals that a function's code names, or those that it names in a user's module."""

    variables: dict
    names: Any


# What Python itself writes to a class, such as what copy finds out about its objects.
_OF_PYTHON = frozenset(("__dict__", "__weakref__", "__doc__", "__abstractmethods__", "__slotnames__"))


def members_of(kind):
    """Returns the Contents of a class, without what they lead to."""

    def read():
        held = {name: value for name, value in vars(kind).items() if name not in _OF_PYTHON}
        return [*held, *held.values()]

    def write(content):
        half = len(content) // 2
        before = dict(zip(content[:half], content[half:]))
        for name in set(read()[: len(read()) // 2]) - before.keys():
            type.__delattr__(kind, name)
        for name, value in before.items():
            if vars(kind).get(name, MISSING) is not value:
                type.__setattr__(kind, name, value)

    return Contents(read, write, _none)


def _of_class(kind):
    bases = [base for base in kind.__mro__[1:] if not is_of_library(base)]
    return members_of(kind)._replace(parts=lambda: [*((f".{name}", value) for name, value in list(vars(kind).items())), *(("", base) for base in bases)])


def _mangled(name, kind):
    """Returns the mangled name that Python gives a private attribute of a class."""
    is_private = name.startswith("__") and not name.endswith("__") and kind.__name__.strip("_")
    return f"_{kind.__name__.lstrip('_')}{name}" if is_private else name


@functools.cache
def slots_of(kind):
    """Returns the names of the slots that objects of a class have, as its bases declare them."""
    declared = [(base, vars(base).get("__slots__", ())) for base in kind.__mro__]
    named = [(base, (names,) if isinstance(names, str) else names) for base, names in declared]
    return [_mangled(name, base) for base, names in named for name in names if name not in ("__dict__", "__weakref__")]


def in_slot(value, name):
    """Returns what an object has in a slot, or MISSING; its class is not asked for computed attributes."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return MISSING


def _of_object(value):
    slots = slots_of(type(value))

    def read():
        return [type(value), *(in_slot(value, name) for name in slots)]

    def write(content):
        if type(value) is not content[0]:
            value.__class__ = content[0]
        for name, held in zip(slots, content[1:]):
            if held is not MISSING:
                object.__setattr__(value, name, held)
            elif in_slot(value, name) is not MISSING:
                object.__delattr__(value, name)

    def parts():
        held = [(f".{name}", part) for name, part in zip(slots, read()[1:]) if part is not MISSING]
        attributes = getattr(value, "__dict__", None)
        known = _OF_MODULES if isinstance(value, torch.nn.Module) else ()
        empty = Empty([(name, attributes[name]) for name in known if isinstance(attributes.get(name), _REGISTRIES) and not attributes[name]])
        return [*held, ("", empty), *([("", Attributes(attributes, known))] if isinstance(attributes, dict) else []), ("", type(value))]

    return Contents(read, write, parts, holder=value)


# The attributes that every module has; guards see what is added to one of them that is empty.
_OF_MODULES = frozenset(vars(torch.nn.Module()))
_REGISTRIES = (dict, set)


class Empty(NamedTuple):
    """The empty dicts and sets of a module, (name, one): of hooks, of children, of names."""

    registries: list

    def contents(self):
        names, held = [name for name, _ in self.registries], [one for _, one in self.registries]

        def write(_):
            for one in held:
                one.clear()

        return Contents(lambda: [*names, *map(len, held)], write, _none)


class Attributes:
    """The dict of an object's attributes, whose order does not count. Attributes in `known` lead nowhere while they are
    empty."""

    def __init__(self, attributes, known=()):
        self.attributes, self.known = attributes, known

    def contents(self):
        held, known = self.attributes, self.known
        return _of_dict(held, is_ordered=False)._replace(parts=lambda: [(f".{key}", part) for key, part in held.items() if key not in known or part])


def _state_of_iterator(iterator, depth=4):
    """Returns what an iterator has left, without taking it; likewise for iterators inside it."""
    if isinstance(iterator, types.GeneratorType):
        frame = iterator.gi_frame
        local = [] if frame is None else [value for _, value in sorted(frame.f_locals.items())]
        return [frame is None or frame.f_lasti, *(part for value in local for part in (_state_of_iterator(value, depth - 1) if depth and _is_iterator(value) else [value]))]
    try:
        _, arguments, *state = iterator.__reduce__()
    except (TypeError, AttributeError):
        return [getattr(iterator, "__length_hint__", lambda: 0)()]
    state = [*arguments, *state]
    return [part for value in state for part in (_state_of_iterator(value, depth - 1) if depth and _is_iterator(value) else [value])]


def _is_iterator(value):
    return isinstance(value, (*_ITERATORS, types.GeneratorType)) or type(value).__module__ == "itertools"


def _of_iterator(iterator):
    return Contents(lambda: _state_of_iterator(iterator), None, _none)


def _of_file(file):
    def read():
        try:
            return [file.tell()]
        except (OSError, ValueError):
            return [MISSING]

    return Contents(read, lambda content: file.seek(content[0]), _none)


def _of_bytes(value):
    return Contents(lambda: [bytes(value)], lambda content: value.__setitem__(slice(None), content[0]), _none)


def _of_array(value):
    def write(content):
        del value[:]
        value.frombytes(content[0])

    return Contents(lambda: [value.tobytes()], write, _none)


def _of_array_of_numpy(value):
    def write(content):
        value[...] = type(value)(content[0], content[1], content[2])

    return Contents(lambda: [value.shape, value.dtype, value.tobytes()], write, _none)


def _of_numpy(value):
    numpy = sys.modules["numpy"]
    if isinstance(value, numpy.ndarray):
        return _of_array_of_numpy(value) if not value.dtype.hasobject and value.nbytes < _LARGE_MEMORY else None
    if isinstance(value, (numpy.random.Generator, numpy.random.RandomState, numpy.random.BitGenerator)):
        return of_generator(value)
    return None


def of_generator(generator):
    """Returns the Contents of a numpy generator of random numbers."""
    if hasattr(generator, "get_state"):  # the old kind, which also keeps half a pair of normal numbers
        return Contents(lambda: [pickle.dumps(generator.get_state())], lambda content: generator.set_state(pickle.loads(content[0])), _none)
    bits = getattr(generator, "bit_generator", generator)

    def write(content):
        bits.state = pickle.loads(content[0])

    return Contents(lambda: [pickle.dumps(bits.state)], write, _none)


@functools.cache
def _is_library(module):
    """Whether a module, given by its name, belongs to an installed library."""
    package = module.partition(".")[0]
    if package in _OURS or package in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "/site-packages/" in file or "/dist-packages/" in file


@functools.cache
def is_of_host(module):
    """Whether a module, given by its name, is Python's, torch's, numpy's or of this library."""
    package = module.partition(".")[0]
    return package in _OURS or package in sys.stdlib_module_names and package != "__main__"


def is_of_others(module):
    """Whether a module, given by its name, belongs to any other installed library."""
    return not is_of_host(module) and _is_library(module)


def is_library_module(module):
    """Whether a module belongs to an installed library."""
    return _is_library(module.__name__) or "/site-packages/" in (getattr(module, "__file__", None) or "")


def is_of_library(kind):
    """Whether a class, a function or a module belongs to an installed library; it is assumed that nobody writes to
    it."""
    return _is_library(str(getattr(kind, "__module__", None) or getattr(kind, "__name__", "")))


def _of_callable(value):
    names = {types.MethodType: ("__self__", "__func__"), functools.partial: ("func", "args", "keywords"), property: ("fget",),
             staticmethod: ("__func__",), functools.partialmethod: ("func", "args", "keywords"), functools.singledispatchmethod: ("dispatcher", "func"), classmethod: ("__func__",), functools.cached_property: ("func",)}[type(value)]
    return Contents(_none, None, lambda: [("", getattr(value, name)) for name in names])


def _of_cached(cached):
    return Contents(lambda: of_trace(cached), lambda _: drop_of_trace(cached), lambda: [("", cached.__wrapped__), ("", vars(cached))], is_cache=True)


def _of_tensor(tensor):
    def parts():
        return [("", Attributes(vars(tensor)))]

    if _core.is_stand_in(tensor) or not tensor.is_leaf:
        return Contents(_none, None, parts)
    # A leaf that gets a history is written to by an operator, which is no change of a flag.
    return Contents(lambda: [tensor.requires_grad and tensor.is_leaf], lambda content: tensor.requires_grad_(content[0]), parts)


def _of_carrier(tensor):
    """A tensor of a class of the user's, whose functions may write to the class."""
    if is_of_library(type(tensor)):
        return None
    return Contents(_none, None, lambda: [("", Attributes(tensor.__dict__)), ("", type(tensor))])


def _of_any_function(function):
    if not _is_library(str(function.__globals__.get("__name__"))):
        return _of_function(function)
    held = vars(function)  # holds what a decorator has put inside the function
    names = [name for name in ("__wrapped__", "rules") if name in held]
    return _of_dict(held, is_ordered=False)._replace(parts=lambda: [("", held[name]) for name in names]) if held else None


def _of_builtin(function):
    bound = function.__self__
    return None if bound is None or isinstance(bound, types.ModuleType) else Contents(_none, None, lambda: [("", bound)])


_OF_TYPE = {
    types.CellType: _of_cell, types.FunctionType: _of_any_function, types.BuiltinFunctionType: _of_builtin, types.MethodWrapperType: _of_builtin,
    Attributes: Attributes.contents, Empty: Empty.contents, VariablesOf: lambda value: variables(value.variables, value.names),
    torch.Tensor: _of_tensor, torch.nn.Parameter: _of_tensor, CACHED: _of_cached, types.GeneratorType: _of_iterator, **{kind: _of_iterator for kind in _ITERATORS},
    **{kind: _of_callable for kind in (types.MethodType, functools.partial, property, staticmethod, classmethod, functools.cached_property,
                                              functools.partialmethod, functools.singledispatchmethod)},
    tuple: lambda value: Contents(_none, None, lambda: [(f".{i}", x) for i, x in enumerate(value)]), bytearray: _of_bytes, array.array: _of_array,
    Packed: lambda value: Contents(_none, None, lambda: [("", value.held)]), queue.SimpleQueue: lambda value: Contents(lambda: [value.qsize()], None, _none), _thread.LockType: lambda value: Contents(lambda: [value.locked()], None, _none),
}
_OF_KIND = ((dict, _of_dict), (list, _of_list), (set, _of_set), (collections.deque, _of_deque), (io.IOBase, _of_file))


def contents_of(value):
    """Returns the Contents of an object, or None for one that nobody writes to."""
    if of_type := _OF_TYPE.get(type(value)):
        return of_type(value)
    if isinstance(value, (dict, list)) and len(value) <= LARGE:
        return _of_dict(value) if isinstance(value, dict) else _of_list(value)
    if isinstance(value, torch.Tensor):
        return _of_carrier(value)
    if isinstance(value, _ATOMS):
        return None
    for kind, of_kind in _OF_KIND:
        if isinstance(value, kind):
            return _of_large(value) if kind is not io.IOBase and len(value) > LARGE else of_kind(value)
    if isinstance(value, type):
        return None if is_of_library(value) else _of_class(value)
    package = type(value).__module__.partition(".")[0]
    if package == "diptych" and "_keeper" in getattr(value, "__dict__", ()):
        return Contents(_none, None, lambda: [("", part) for part in value._keeper.parts()])
    if package == "numpy":
        return _of_numpy(value)
    if isinstance(value, types.ModuleType):
        return None  # what code names of a module is among the code's variables
    if type(value).__module__ == "itertools":
        return _of_iterator(value)
    if is_of_library(type(value)) and package in (*_OURS, *sys.stdlib_module_names) and not isinstance(value, _ATTRIBUTES_OF_LIBRARY):
        return None
    return _of_object(value)


def subclass_attributes(value):
    """Returns the attributes that an object of a class derived from a container has besides its elements."""
    attributes = getattr(value, "__dict__", None) if isinstance(value, (dict, list, set, collections.deque)) else None
    return Attributes(attributes) if isinstance(attributes, dict) and attributes else None


def _is_scalar_of_numpy(value):
    return type(value).__module__ == "numpy" and isinstance(value, sys.modules["numpy"].generic)


def same(before, after, depth=4):
    """Whether two objects count as one: the same object, or equal numbers, strings and tuples of these."""
    if before is after:
        return True
    if type(before) is not type(after):
        return False
    if isinstance(before, (bool, int, float, complex, str, bytes, torch.Size, range, slice)) or _is_scalar_of_numpy(before):
        return bool(before == after) or bool(before != before and after != after)
    if isinstance(before, tuple) and depth:
        return len(before) == len(after) and all(same(a, b, depth - 1) for a, b in zip(before, after))
    return False
