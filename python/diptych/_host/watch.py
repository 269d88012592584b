"""Watches what a traced function does on the host besides calling operators: a graph would do none of it again."""
import contextvars
import operator
import random
import importlib
import os
import sys
import threading
from typing import Any, NamedTuple

import torch

from .. import _core
from . import libraries
from .caches import holds_stand_in
from .contents import LARGE, VariablesOf, is_of_host, same
from .events import DRAWS, ENVIRONMENT, FILES, HOOKS, MAKES, SEEDS, SETS, culprit, place, watched
from .objects import classes_to_take_apart
from .places import places_of
from .register import Anew, Capture, classes_of, meets_what_is_given, module_of, notice, present
from .results import made_by_function, put_back, switches
from .walk import MOST_OBJECTS, changes_in, walk

__all__ = ["Watch", "watched"]

_MISSING = object()  # what a context variable holds that was never set
_SETS = frozenset(("__setitem__", "__delitem__", "set", "reset"))  # watched functions that change later answers


def _path_of_change(one, now):
    """Returns the path to the first part that differs, if parts have names."""
    half = len(now) // 2
    if len(now) == len(one.content) and half and all(isinstance(name, str) for name in now[:half]) and now[:half] == one.content[:half]:
        names = [name for name, before, after in zip(now[:half], one.content[half:], now[half:]) if not same(before, after)]
        return one.path + (f".{names[0]}" if names else "")
    return one.path


class Found(NamedTuple):
    """What a function did that its graph won't do, in words; `what` is empty if there is nothing."""

    what: str = ""
    is_undone: bool = True  # whether the host is as it was before, so that the function itself may run
    is_lost: bool = False  # whether, if it is not, something of the trace is left on the host
    draw: str = ""  # the first draw of random numbers
    reads: str = ""  # the first read of what guards compare
    environment: tuple = ()  # the variables of the environment that it has read, by name, as bytes
    is_once: bool = False  # whether the next call may be captured, since it finds the work done


_num_undone = 0  # how many times a watch of any thread has put something back
_lock = threading.Lock()  # of that number


def _hooks_of_all_modules():
    """Returns where torch has the hooks that it calls for each module that the function calls; nothing that the function holds
    leads to them."""
    held = vars(torch.nn.modules.module)
    return [("hooks of all modules", VariablesOf(held, [name for name in held if name.startswith("_global_")]))]


class Watch:
    """Watches one capture from its beginning to its end; the profile events that watched() asks for come to `event`."""

    def __init__(self, can_run):
        self.capture = Capture()
        present.capture = self.capture if can_run else None
        self._can_run = can_run
        self._root = sys._getframe().f_back  # the frame that called the bindings, which have no frame
        self._states = {}  # the states that generators had before they were drawn from
        self._lasting = []  # the reasons that can't be undone
        self._hooked = {}  # tensors on which a hook was registered, and the hooks that they had before
        self._made = {}  # generators that the function makes from a seed
        self._variables = {}  # context variables that the function uses, and what they were
        self._environment = {}  # variables of the environment that the function has read, and where
        self._left = {}  # what changed objects held when the function had run, by their ids: backwards are traced afterwards
        self._seen, self._copies = [], []
        self._runs = 0
        self._given = []  # what the arguments lead to
        self._libraries = libraries.Libraries(self.capture.known)
        self._switches = switches()
        self._undone_before, self._num_undone = _num_undone, 0  # by all watches, and by this one since
        self._numpy = self._state_of_numpy()
        walk([("", self._numpy)] if self._numpy is not None else [], self.capture.known, self._seen)

    @staticmethod
    def _state_of_numpy():
        """Returns the generator of numpy's functions, if numpy is loaded. numpy loads numpy.random when it is first asked for it,
        which the function that is captured may be the first to do."""
        if "numpy" in sys.modules:
            importlib.import_module("numpy.random")
        legacy = sys.modules.get("numpy.random.mtrand")
        return legacy._rand if legacy is not None else None

    def begin_trace(self):
        """Called before the arguments are looked at: the function that is traced again finds the host as it was, if that can be."""
        if self._runs:
            self._undo([*((one, now) for one, now in changes_in(self._seen) if one.contents.write is not None), *self._libraries.left()])

    def enter(self, function, args, kwargs, names):
        """Called before the function runs on stand-ins. Containers among the arguments are copies; `names` are those of
        parameters."""
        self.begin_trace()  # a function inside of another one is not told
        self._runs += 1
        capture = self.capture
        capture.lent.clear()
        capture.function = function
        module, before, others = module_of(function), set(capture.known), []
        is_all = walk([("closure", function), *_hooks_of_all_modules(), *([("module", module)] if module is not None else [])], capture.known, self._seen, others=others)
        named = [(names[i] if i < len(names) else f"args.{i - len(names)}", value) for i, value in enumerate(args)]
        capture.reached.update(capture.known.keys() - before)
        if not walk([*named, *kwargs.items()], capture.known, self._copies, others=others) or not is_all:
            self.note(f"leads to more than is looked at, {MOST_OBJECTS} objects or {LARGE} elements of one")
        self._libraries.look(others)
        self._look_at_objects(function)
        self._switches = switches()

    def _look_at_objects(self, function):
        """Looks for objects that may not be taken apart, since the function reaches them in another way, too."""
        known, reached = self.capture.known, self.capture.reached
        if meets_what_is_given(function, reached):
            self.note("leads to an object or a tensor that it is also given")
        classes = classes_of(function)
        kind = next((type(value) for value in known.values() if type(value) in classes), None) if classes else None
        if kind is not None:
            self.note(f"leads to a {kind.__name__}, such as it also takes apart")
        self._given = [value for key, value in known.items() if key not in reached]

    def leave(self, result):
        """Called after the function ran and returned `result`."""
        self.capture.reasons.extend(f"sets {name}" for name in put_back(self._switches))
        self.capture.reasons.extend(f"sets the context variable '{variable.name}'" for variable, _ in self._variables_left_set())
        if any(_core.value_number(tensor) != number or array.tobytes() != content for tensor, number, array, content in self.capture.lent):
            self.note("writes to memory that a tensor shares with an array, of numpy()")
        self._left = {id(one): now for one, now in changes_in(self._seen)}
        made = made_by_function(result, self.capture.known)
        if made:
            self.note(made)

    def event(self, kind, frame, function):
        """Called for a call of something watched: `frame` is the caller, or the frame of the call itself if that is
        Python code."""
        called = frame
        if function is None and kind is not MAKES:
            frame = frame.f_back
        if kind is MAKES:
            self._make(frame.f_locals["self"], frame.f_locals.get("x"), frame)
            return
        if kind is HOOKS and not self._hook(called.f_locals["self"] if function is None else function.__self__):
            return
        by = culprit(frame, kind, self._root)
        if by is None:
            return
        generator = getattr(function, "__self__", None)
        if kind is SETS:
            return self._set_generator(by)
        if isinstance(generator, contextvars.ContextVar) and not self._reads_from_outside(generator, function):
            return
        if isinstance(generator, random.Random):
            if id(generator) in self._made:
                return
            self._states.setdefault(id(generator), (generator, random.Random.getstate(generator)))
        asked = called.f_code.co_name if function is None else function.__name__
        if kind is ENVIRONMENT and asked == "__getitem__" and self._reads_variable(called.f_locals, by):
            return
        self._add_reason(kind, "os.environ" if kind is ENVIRONMENT and function is None else getattr(function, "__qualname__", asked), by)
        if kind in (FILES, SEEDS) or asked in _SETS:
            self._lasting.append(self.capture.reasons[-1])

    def called(self, frame):
        """Called for the first call of a piece of code. Returns whether it is one to be told of."""
        if is_of_host(str(frame.f_globals.get("__name__"))):
            return False
        self._libraries.called(frame)
        return True

    def _set_generator(self, frame):
        """Gives up the trace before the function seeds a generator, as no graph can."""
        if self._can_run:
            what = f"the function {SETS}, at {place(frame)}"
            _core.give_up(what)
            raise RuntimeError(f"a trace is given up: {what}")

    def _reads_variable(self, local, frame):
        """Whether a read of the environment is one of a variable, by whose value the capture is guarded."""
        environment, name = local["self"], local["key"]
        if not any(environment is one for one in (os.environ, getattr(os, "environb", None))) or not isinstance(name, (str, bytes)):
            return False
        name = name if isinstance(name, bytes) else os.fsencode(name)
        self._environment.setdefault(name, f"{ENVIRONMENT} (os.environ) at {place(frame)}")
        return True

    def _reads_from_outside(self, variable, method):
        """Whether a call of a context variable's method reads what the variable was before the function ran: what the function
        has set itself is its own, until it resets it."""
        now = variable.get(_MISSING)
        before = self._variables.setdefault(id(variable), (variable, now))[1]
        return method.__name__ == "get" and now is before

    def _variables_left_set(self):
        return [(variable, before) for variable, before in self._variables.values() if variable.get(_MISSING) is not before]

    def _add_reason(self, kind, name, frame):
        self.capture.reasons.append(f"{kind} ({name}) at {place(frame)}")

    def _make(self, generator, seed, frame):
        self._made[id(generator)] = generator
        by = culprit(frame, DRAWS, self._root) if seed is None else None
        if by is not None:
            self._add_reason(DRAWS, "random.Random", by)

    def _hook(self, tensor):
        """Whether a hook that is registered on this tensor stays there after the call. If so, remembers the hooks that
        the tensor had before."""
        if id(tensor) not in self.capture.known:
            return False
        hooks = {name: getattr(tensor, name) for name in ("_backward_hooks", "_post_accumulate_grad_hooks")}
        self._hooked.setdefault(id(tensor), (tensor, {name: dict(held or {}) for name, held in hooks.items()}))
        return True

    def note(self, what):
        self.capture.reasons.append(what)

    def finish(self):
        """Returns what was found. It is undone if it can be, so that the host is as it was."""
        present.capture = None
        left = self._libraries.left()
        changed, of_copies = list(changes_in(self._seen)), list(changes_in(self._copies))
        reasons = [*self.capture.reasons]
        for one, now in (*changed, *of_copies):
            reasons.append("draws random numbers of numpy" if one.path == "" else _words(one, now))
        if left:
            reasons.append(libraries.words(left))
        read = {"reads": next(iter(self._environment.values()), ""), "environment": tuple(self._environment)}
        if not reasons:
            if _num_undone - self._undone_before > self._num_undone:  # and what this function has changed may be among it
                return Found("is captured while a trace of another thread puts back what it has changed", is_once=True, **read)
            return Found(**read)
        taken = [_words(one, now) for one, now in (*changed, *of_copies) if one.contents.write is None]
        is_undone = not taken
        if is_undone:
            self._notice_places(changed, of_copies)
            self._undo([*changed, *of_copies])
        self._undo(left)
        is_lost = not is_undone and (self._runs > 1 or bool(left) or any(one.contents.write is not None for one, _ in of_copies) or any(holds_stand_in(now) for _, now in changed))
        draw = next((reason for reason in reasons if reason.startswith(DRAWS)), "")
        is_once = not self.capture.reasons and not of_copies and all(one.contents.is_cache for one, _ in changed)
        return Found([*taken, *reasons][0], is_undone, is_lost, draw, is_once=is_once, **read)

    def let_go(self):
        """Called last: drops what the watch has remembered."""
        self._seen, self._copies, self._given, self._left = [], [], [], {}
        self._libraries = None
        self.capture.known.clear(), self.capture.lent.clear(), self.capture.bound.clear()

    def _notice_places(self, changed, of_copies):
        """Tells the compiled function the Places into which its function puts tensors, if that is all that it does."""
        if of_copies:
            notice(self.capture.function, classes=classes_to_take_apart(self._given, [one.contents.holder for one, _ in of_copies]))
        if of_copies or not self._runs or any(reason not in self.capture.bound for reason in self.capture.reasons):
            return
        if any(id(one) not in self._left or not all(map(operator.is_, self._left[id(one)], now)) for one, now in changed):
            return  # a backward has changed it
        found = [places_of(one.path.lstrip("."), one.contents.holder, one.content, now) for one, now in changed]
        if None not in found:
            notice(self.capture.function, [place for places in (*self.capture.bound.values(), *found) for place in places])

    def forget(self, exception, is_too_late):
        """Called after an error: undoes what holds a tensor of the trace, which is dead. `exception`: the function's
        own, or None for a refusal.
        Returns None if the error may be raised as it is. An exception may not if the function has written to tensors or
        kept some: the trace has not done that for good, so the function itself must run. In that case everything is
        undone, and "" is returned; or, in words, what can't be undone."""
        present.capture = None
        changed = [*changes_in(self._seen), *changes_in(self._copies)]
        of_trace = [(one, now) for one, now in changed if one.contents.write is not None and (one.contents.is_cache or holds_stand_in(now))]
        of_trace += self._libraries.left()
        if exception is None:
            self._undo(of_trace)
            return None
        if not (is_too_late or self.capture.has_hidden_state or isinstance(exception, Anew) or self._hooked or of_trace or holds_stand_in([exception.args, vars(exception)])):
            return None
        unset = [f"sets the context variable '{variable.name}'" for variable, before in self._variables_left_set() if before is _MISSING]
        lasting = [*self._lasting, *unset, *(_words(one, now) for one, now in changed if one.contents.write is None)]
        try:
            self._undo(of_trace if lasting else [*changed, *of_trace])
        except Exception as error:  # noqa: BLE001  # the user's class may raise anything
            lasting.append(f"changes what raises {error!r} when it is set to what it was")
        put_back({} if lasting else self._switches)
        if isinstance(exception, Anew):
            exception.is_undone = not lasting
            return None
        return lasting[0] if lasting else ""

    def _undo(self, changed):
        self._count_undone(changed)
        try:
            self._put_back(changed)
        finally:  # a trace that began meanwhile has not seen the first count
            self._count_undone(changed)

    def _count_undone(self, changed):
        global _num_undone
        if changed:
            with _lock:
                _num_undone += 1
            self._num_undone += 1

    def _put_back(self, changed):
        for one, _ in changed:
            one.contents.write(one.content)
        for variable, before in self._variables_left_set():
            if before is not _MISSING:  # nothing makes a variable unset but the token that the function has
                variable.set(before)
        for generator, state in self._states.values():
            random.Random.setstate(generator, state)
        for tensor, hooks in self._hooked.values():
            for name, before in hooks.items():
                held = getattr(tensor, name)
                if held is not None:
                    held.clear()
                    held.update(before)


def _words(one, now):
    if one.contents.is_cache:
        return f"has functools.lru_cache keep a tensor, of '{one.path.lstrip('.')}'"
    verb = "changes" if one.contents.write is not None else "takes from"
    return f"{verb} '{_path_of_change(one, now).lstrip('.')}'"
