"""Finds tensors of a trace in the caches of functools: they would be dead when the function is asked for them again."""
import collections
import functools
import gc
import types

import torch

from .. import _core

_ATOMS = frozenset((type(None), bool, int, float, str, bytes))
CACHED = type(functools.lru_cache(lambda: None))


def _parts(value):
    """Returns what a container or an object holds."""
    if isinstance(value, (type, types.ModuleType)):
        return ()
    own = getattr(value, "__dict__", None)
    attributes = list(own.values()) if isinstance(own, dict) else []
    slots = [getattr(value, name, None) for kind in type(value).__mro__ for name in kind.__dict__.get("__slots__", ()) if isinstance(name, str)]
    if isinstance(value, dict):
        return [*value.keys(), *value.values(), *attributes, *slots]
    return [*(value if isinstance(value, (list, tuple, set, frozenset, collections.deque)) else ()), *attributes, *slots]


def holds_stand_in(value, depth=3):
    """Whether an object holds a tensor of a trace, at most `depth` containers and attributes deep."""
    met, level = {id(value)}, [value]
    for _ in range(depth + 1):
        if any(isinstance(one, torch.Tensor) and _core.is_stand_in(one) for one in level):
            return True
        found = {id(part): part for one in level if not isinstance(one, torch.Tensor) for part in _parts(one) if type(part) not in _ATOMS}
        level = [part for key, part in found.items() if key not in met]
        met.update(found)
    return False


def _results(cached):
    """Returns (the dict in which a function under functools.lru_cache keeps its results, {key: result}). If the number
    of results is limited, the dict holds links, and their contents are among the function's referents: key, result and
    class of each link, the oldest first, and also of some links that the dict has lost."""
    told = gc.get_referents(cached)
    dicts = [held for held in told if type(held) is dict and held is not cached.__dict__]
    for results in dicts:
        link = type(next(iter(results.values()), None))
        if link.__name__ == "_lru_list_elem":
            return results, {told[i - 2]: told[i - 1] for i, held in enumerate(told) if i >= 2 and held is link and told[i - 2] in results}
    return (dicts[0], dicts[0]) if dicts else ({}, {})


def of_trace(cached):
    """Returns the keys of the results that hold tensors of a trace."""
    return [key for key, result in _results(cached)[1].items() if holds_stand_in(result)]


def drop_of_trace(cached):
    """Drops these results, so that they are computed again; functools tolerates results that someone else removed."""
    results = _results(cached)[0]
    for key in of_trace(cached):
        results.pop(key, None)
