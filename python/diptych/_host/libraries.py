"""Watches what installed libraries keep: variables, closures, defaults, attributes of classes.

Most of what a library writes there is its own affair, as counters, flags and loggers are, and whoever asks finds it done. What counts is a
tensor of a trace that is left there, which is dead when the trace has ended. So of each function that is called in a trace, whoever's
it is, those things of libraries are remembered that its code names, as they are before it runs.
"""
import sys
import types

from .caches import CACHED, holds_stand_in
from .contents import MISSING, PLAIN, Contents, VariablesOf, contents_of, is_of_host, is_of_others, members_of, names_in, variables
from .walk import changes_in, walk

_MOST_ELEMENTS = 10_000
_WRAPPERS = (staticmethod, classmethod)
_CODE = (types.FunctionType, type)


def _none():
    return []


def _keeps(value):
    """Whether a function, a class or something else of a library may keep tensors."""
    if isinstance(value, _WRAPPERS):
        value = value.__func__
    if isinstance(value, types.FunctionType):
        return bool(value.__closure__ or value.__defaults__ or value.__kwdefaults__ or vars(value))
    return not isinstance(value, (type, types.ModuleType, property)) and type(value) not in PLAIN


def _of_function(function):
    def parts():
        cells = zip(function.__code__.co_freevars, function.__closure__ or ())
        return [*((f".{name}", cell) for name, cell in cells), ("", function.__defaults__), ("", function.__kwdefaults__), ("", vars(function))]

    return Contents(_none, None, parts)


def _of_class(kind):
    bases = [base for base in kind.__mro__[1:] if is_of_others(base.__module__)]
    return members_of(kind)._replace(parts=lambda: [*((f".{name}", value) for name, value in list(vars(kind).items()) if _keeps(value)), *(("", base) for base in bases)])


def _of_variables(value):
    held = value.variables

    def parts():
        found = [(f".{name}", held.get(name, MISSING)) for name in value.names]
        return [(path, one) for path, one in found if isinstance(one, type) or _keeps(one)]

    return variables(held, value.names)._replace(parts=parts)


def _contents_of(value):
    """As contents_of(), of what a library holds: functions and classes lead to what they keep."""
    if type(value) is VariablesOf:
        return _of_variables(value)
    if isinstance(value, (types.FunctionType, type)):
        if not is_of_others(value.__module__):
            return None
        return _of_class(value) if isinstance(value, type) else _of_function(value)
    if isinstance(value, (dict, list, set)) and len(value) > _MOST_ELEMENTS:
        return None
    return contents_of(value)


def _names_in(code):
    """Returns the names that code uses, and the strings in it that may be names."""
    return list({**names_in(code), **dict.fromkeys(constant for constant in code.co_consts if isinstance(constant, str) and constant.isidentifier())})


def _modules_by(names, values):
    """Returns the variables of the modules of libraries among the values, and of those that these names lead on to, (path, variables)."""
    found, open_ends = {}, [value for value in values if isinstance(value, types.ModuleType)]
    while open_ends:
        module = open_ends.pop()
        held = vars(module)
        if id(held) not in found and not is_of_host(module.__name__):
            found[id(held)] = module.__name__, held
            open_ends.extend(value for value in map(held.get, names) if isinstance(value, types.ModuleType))
    return [(path, held) for path, held in found.values() if is_of_others(path)]


def _own(frame):
    """Returns what the function of a frame may keep tensors in that no name leads to, (path, object): caches of functools that its closure
    holds, and the class that it is called by. Other objects in a closure may have been made in the trace."""
    code, held = frame.f_code, frame.f_locals
    found = [(f"{code.co_name}.{name}", held[name]) for name in code.co_freevars if isinstance(held.get(name), CACHED)]
    first = held.get(code.co_varnames[0]) if code.co_argcount else None
    kind = first if isinstance(first, type) else type(first)
    return [*found, (kind.__qualname__, kind)] if is_of_others(kind.__module__) else found


class Libraries:
    """What the libraries hold that one capture meets. `known`: the objects, by id, that its watch looks at itself."""

    def __init__(self, known):
        self._watched, self._known, self._seen = known, {}, []

    def look(self, roots):
        """Remembers what these lead to, (path, object). The watch itself does not look into functions and classes of libraries."""
        roots = [(path, value) for path, value in roots if isinstance(value, _CODE) or id(value) not in self._watched]
        walk(roots, self._known, self._seen, _contents_of)

    def called(self, frame):
        """Called when code is called for the first time in the capture, before it runs."""
        held, names = frame.f_globals, _names_in(frame.f_code)
        values = [*frame.f_locals.values(), *(held.get(name) for name in names)]
        modules = _modules_by(names, [*values, *(sys.modules.get(name) for name in names)])
        direct = [(value.__qualname__, value) for value in values if isinstance(value, _CODE)]
        if is_of_others(str(held.get("__name__"))):
            modules.append((held["__name__"], held))
            direct += _own(frame)
        self.look([*((path, VariablesOf(variables, names)) for path, variables in modules), *direct])

    def left(self):
        """Returns what has changed, (as it was, what it holds now), if a tensor of a trace has been left in some of it."""
        found = [(one, now) for one, now in changes_in(self._seen) if one.contents.write is not None]
        return found if any(map(_has_kept, found)) else []


def _has_kept(change):
    one, now = change
    return one.contents.is_cache or holds_stand_in(now, depth=6)


def words(found):
    """Says in which of the changed objects of libraries a tensor of a trace has been left."""
    one = next(one for one, now in found if _has_kept((one, now)))
    return f"leaves a tensor in '{one.path.lstrip('.')}', which belongs to a library"
