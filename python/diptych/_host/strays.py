"""Finds who keeps a tensor of a trace that has ended, where no watch has seen it: what torch and Python itself hold, and extensions.

Called only if there is such a tensor, since it looks through all objects of the process.
"""
import collections
import gc
import sys
import types

from .. import _core
from .caches import CACHED, drop_of_trace, of_trace

_DEEPEST = 8
_OF_RUNNING = (types.FrameType, types.TracebackType)


def _referrers(objects, ours):
    """Returns what refers to some of the objects, but for what runs now, lists of ours, and caches of functools that no longer find them."""
    ours = {*ours, id(objects)}
    found = [one for one in gc.get_referrers(*objects) if id(one) not in ours and not isinstance(one, _OF_RUNNING)]
    return [one for one in found if not isinstance(one, CACHED) or of_trace(one)]


def owner(tensor, ours):
    """Returns where a module or a class leads to a tensor, in words, or None."""
    modules = {id(vars(module)): name for name, module in list(sys.modules.items()) if isinstance(module, types.ModuleType)}
    met, level = {id(tensor)}, [tensor]
    for _ in range(_DEEPEST):
        found = [one for one in _referrers(level, {*ours, id(modules)}) if id(one) not in met]
        for one in found:
            if id(one) in modules:
                return next((f"{modules[id(one)]}.{name}" for name, value in one.items() if any(value is below for below in level)), modules[id(one)])
            if isinstance(one, type):
                return f"{one.__module__}.{one.__qualname__}"
        met.update(map(id, found))
        level = found
        if not level:
            return None
    return None


def _take_out(tensor, ours):
    """Takes a tensor out of the containers that hold it."""
    for one in _referrers([tensor], ours):
        if isinstance(one, dict):
            for key in [key for key, value in list(one.items()) if value is tensor or key is tensor]:
                del one[key]
        elif isinstance(one, (list, collections.deque)):
            kept = [part for part in one if part is not tensor]
            one.clear()
            one.extend(kept)
        elif isinstance(one, set):
            one.discard(tensor)
        elif isinstance(one, CACHED):
            drop_of_trace(one)


def refuse_strays(kept, is_failing):
    """Refuses the function that is captured if one of the tensors of its traces, of which each is kept by something, is kept by
    something that outlives the trace. `is_failing`: whether an exception is on its way, which keeps what its frames hold.
    Errors: UserError, naming who keeps it."""
    ours = {id(kept)}
    for tensor in kept:
        found = owner(tensor, ours)
        if found is None and not is_failing and not [one for one in gc.get_referrers(tensor) if id(one) not in ours]:
            found = "something that Python's garbage collector does not see, as what an extension keeps"
        if found is None:
            continue
        _take_out(tensor, ours)
        raise _core.UserError(
            f"[capture] the function leaves a tensor of its trace in {found}, which can't be put back as it was so that the function itself could run, expected "
            "none outside of what the function, its arguments and installed libraries hold; keep it there, or call what keeps it outside the function"
        )
