"""Places where a function keeps tensors from one call to the next: an attribute, a buffer, a variable, an element of a dict or a
list.

Note [Places]: a graph writes to no place of the host, and a guard knows a tensor that is found there by its identity. So once a
trace has shown that all a function does on the host is to put other tensors into some places, the function is captured anew with
these places among its arguments and its results: what a place holds goes in, what the function has left there comes out, and is
put there after the call. While the call runs, something that guards take for a constant stands in the places.
"""
import collections
import dataclasses
import functools
import inspect
import operator
import threading
import types
import weakref
from typing import Any, NamedTuple

import torch

from ._host_contents import MISSING, PLAIN, same
from ._host_objects import Objects
from ._torch_checkpoint import is_tracing

_MOST = 64  # places of a function
_TREES = (list, tuple, dict)


class _Mark:
    def __init__(self, words):
        self._words = words

    def __repr__(self):
        return self._words


_HELD = _Mark("what the function keeps here")  # stands in a place during a call
_UNCHANGED = _Mark("unchanged")  # stands among the results for a place that holds what it held
_ABSENT = _Mark("absent")  # stands among arguments and results for a place that is not there


class Place(NamedTuple):
    """An entry of a dict or a list, or the content of a cell."""

    holder: Any
    key: Any
    path: str

    def read(self):
        try:
            return self.holder.cell_contents if isinstance(self.holder, types.CellType) else self.holder[self.key]
        except (KeyError, ValueError):
            return _ABSENT

    def write(self, value):
        if isinstance(self.holder, types.CellType):
            if value is not _ABSENT:
                self.holder.cell_contents = value
            elif self.read() is not _ABSENT:
                del self.holder.cell_contents
        elif value is _ABSENT:
            self.holder.pop(self.key, None)
        else:
            self.holder[self.key] = value

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
    return value is MISSING or value is _ABSENT or type(value) in PLAIN


def _holds_tensor(value):
    return any(isinstance(leaf, torch.Tensor) for leaf in leaves(value))


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


noticed = {}  # the Places and the classes of objects that a trace of a compiled function has found, by its id
_known_classes = {}  # the classes whose objects a compiled function takes apart, by its id
_modules = {}  # references to the modules whose forwards compiled functions are, or None, by the ids of all that ask for Places
_num_keepers = collections.Counter()  # of a compiled function, by its id
_running = threading.local()


class Anew(Exception):
    """Ends a trace that is to be made anew, with objects taken apart."""


def notice(function, places=(), classes=()):
    """Called when all that a trace of a function has done on the host is to put tensors into these places, or to change or to
    return objects of these classes. Returns whether the function can be captured anew for them."""
    classes = set(classes) - _known_classes.get(id(function), set())
    if id(function) not in _modules or not (places or classes):
        return False
    noticed[id(function)] = list(places), classes
    return True


def module_of(function):
    """Returns the module whose forward a compiled function is, which is the same one in each call; None for another function."""
    module = _modules.get(id(function))
    return module() if module is not None else None


@dataclasses.dataclass
class _Call:
    """A call of a compiled function: what its caller has given, and that as trees."""

    function: Any
    args: tuple
    kwargs: dict
    packed: tuple
    objects: Objects
    ran_itself: bool = False  # the function, on what the caller has given


def is_given_one_of(function, known):
    """Whether one of the objects that the present call of a compiled function takes apart is among those with these ids."""
    call = getattr(_running, "call", None)
    return call is not None and call.function is function and call.objects.meet(known)


def is_kept(registry, name):
    """Whether the function that runs on this thread is captured with a place among its arguments and results."""
    return (id(registry), name) in getattr(_running, "names", ())


def _can_be_returned(values, result):
    """Whether graphs can make these values anew at each call: no list or dict in them is another one as well."""
    from ._host_state import known_objects

    ours, others, known = [], [], known_objects()
    found = [leaf for value in values for leaf in leaves(value, ours)]
    leaves(result, others)
    return all(map(_is_state, found)) and len(set(ours)) == len(ours) and not any(one in known or one in others for one in ours)


def _forget(function):
    """Called when a Keeper lets go of a function, given by its id."""
    _num_keepers[function] -= 1
    if not _num_keepers[function]:
        for held in (_num_keepers, _modules, _known_classes, noticed):
            held.pop(function, None)


class Keeper:
    """A compiled function with its places and the classes whose objects it takes apart. `compile` makes a compiled function of one; `core` is the present one. `module`: the one
    whose forward the function is."""

    def __init__(self, function, compile, module=None):
        self._function, self._compile, self._module = function, compile, module and weakref.ref(module)
        self._lock = threading.RLock()
        self._earlier = []  # the statistics of the captures that did not know all places
        self.calls = []  # an element for each call that knows no places, as long as it runs
        self.is_plain = True
        self._places, self._classes = [], set()
        self._take(function)
        self.plain = self.core

    def _take(self, compiled):
        self.core, self._compiled, self._id = self._compile(compiled), compiled, id(compiled)
        self._let_go = weakref.finalize(self, _forget, self._id)
        _num_keepers[self._id] += 1
        _modules[self._id], _known_classes[self._id] = self._module, self._classes

    def parts(self):
        """Returns what watches look at: the function, and the module whose forward it is."""
        return self._function, self._module and self._module()

    def learn(self):
        """Has the function captured anew if a trace has found something; while another call that knows of nothing runs, later."""
        places, classes = noticed.get(self._id, ((), ()))
        known = {place.name for place in self._places}
        added = list({place.name: place for place in places if place.name not in known}.values())
        with self._lock:
            noticed.pop(self._id, None)
            if not (added or classes) or len(self._places) + len(added) > _MOST:
                return
            was_plain, self.is_plain = self.is_plain, False  # before the calls are counted, as a call counts before it asks
            if was_plain and self.calls:
                self.is_plain, noticed[self._id] = True, (places, classes)
                return
            self._earlier.append(self.core.stats())
            self._let_go()
            self._places, self._classes = [*self._places, *added], self._classes.union(classes)
            self._take(self._with_state())

    def call(self, args, kwargs):
        """Calls the function with what its places hold, and puts there what it leaves. Other threads wait."""
        if is_tracing():  # inside another function, whose watch sees what this one does
            return self.plain(*args, **kwargs)
        with self._lock:
            core = None
            while not self.is_plain and core is not self.core:  # until nothing more is found
                core = self.core
                try:
                    return self._call_with_state(args, kwargs)
                except Anew:
                    pass
                finally:
                    if noticed:
                        self.learn()
        return self._function(*args, **kwargs)

    def _call_with_state(self, args, kwargs):
        places, paths, objects = self._places, self._paths(), Objects(self._classes)
        before, given = [place.read() for place in places], (objects.pack(args), objects.pack(kwargs))
        call = _Call(self._compiled, args, kwargs, given, objects)
        earlier, _running.call = getattr(_running, "call", None), call
        try:
            for place in places:
                place.write(_HELD)
            outcome = self.core(dict(zip(paths, before)), *given[0], **given[1])
        except BaseException:
            self._put(places, [old if place.read() is _HELD else _UNCHANGED for place, old in zip(places, before)])
            raise
        finally:
            _running.call = earlier
        self._put(places, [old if new is _UNCHANGED else new for old, new in zip(before, (outcome["state"][path] for path in paths))])
        if call.ran_itself:
            return outcome["out"]
        objects.fill(outcome["objects"])
        return objects.unpack(outcome["out"])

    @staticmethod
    def _put(places, values):
        for place, value in zip(places, values):
            if value is not _UNCHANGED:
                place.write(value)

    def _paths(self):
        """The paths of the places, each once."""
        paths = {}
        for place in self._places:
            path = place.path
            while path in paths:
                path += "'"
            paths[path] = None
        return list(paths)

    def _with_state(self):
        """The function as one that takes what its places hold first, by their paths, and also returns what it leaves there."""
        function, run = self._function, _runner(tuple(self._places), tuple(self._paths()), self._classes)

        @functools.wraps(function)
        def with_state(state, /, *args, **kwargs):
            return run(function, state, args, kwargs)

        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            return with_state
        first = inspect.Parameter("state", inspect.Parameter.POSITIONAL_ONLY)
        with_state.__signature__ = inspect.Signature([first, *parameters], __validate_parameters__=False)
        return with_state

    def stats(self):
        """The counters of all captures together."""
        return _together([*self._earlier, self.core.stats()]) if self._earlier else self.core.stats()


def _runner(places, paths, classes):
    """Returns a function that runs another one with `state` in these places, and with objects of these classes made of the trees
    that it is given. As a function of a library it hides the places, and all that their holders lead to, from guards."""

    from ._host_state import fails_with_objects, known_objects

    def run(function, state, args, kwargs):
        """Returns the result, and what is left in the places and the objects. What was in the places before is put back, unless the
        function fails or leaves what no graph makes, which is for the watch of the trace to see."""
        before, given = [place.read() for place in places], [state[path] for path in paths]
        names, _running.names = getattr(_running, "names", ()), {place.name for place in places}
        call, objects = _own_call(args, kwargs), Objects(classes, known_objects())
        if call is not None:
            call.ran_itself, args, kwargs = True, call.args, call.kwargs
        else:
            args, kwargs = objects.unpack(args), objects.unpack(kwargs)
        count = len(objects)
        try:
            for place, value in zip(places, given):
                place.write(value)
            result = function(*args, **kwargs)
        except BaseException:
            if count:
                fails_with_objects()
            raise
        finally:
            _running.names = names
        after = [place.read() for place in places]
        after = [_UNCHANGED if old is new else new for old, new in zip(given, after)]
        if _can_be_returned([value for value in after if value is not _UNCHANGED], result):
            for place, value in zip(places, before):
                place.write(value)
        states = objects.states(count)
        return {"out": objects.pack(result) if call is None else result, "state": dict(zip(paths, after)), "objects": states}

    return run


def _own_call(args, kwargs):
    """Returns the call that runs on this thread if these are the trees that were made of its arguments: no trace has replaced them,
    and the function itself runs."""
    call = getattr(_running, "call", None)
    if call is None or is_tracing():
        return None
    packed_args, packed_kwargs = call.packed
    are_same = len(args) == len(packed_args) and kwargs.keys() == packed_kwargs.keys()
    are_same = are_same and all(map(operator.is_, args, packed_args)) and all(kwargs[name] is packed_kwargs[name] for name in kwargs)
    return call if are_same else None


class CacheStats(types.SimpleNamespace):
    """The counters of several compiled functions as those of one."""


def _together(stats):
    sums = {name: sum(getattr(one, name) for one in stats) for name in ("hits", "misses", "evictions", "size_checks", "originals", "refusals", "checks")}
    last = {name: next((words for words in (getattr(one, name) for one in reversed(stats)) if words), "") for name in ("last_miss", "last_original")}
    reasons = collections.Counter()
    for one in stats:
        reasons.update(one.original_reasons)
    return CacheStats(**sums, **last, entries=stats[-1].entries, original_reasons=dict(reasons))
