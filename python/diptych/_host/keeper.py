"""Compiled functions that keep tensors on the host between calls, or are given objects that hold tensors.

Note [Places]: a graph writes to no place of the host, and a guard knows a tensor that is found there by its identity. So once a
trace has shown that all a function does on the host is to put other tensors into some places, the function is captured anew with
these places among its arguments and its results: what a place holds goes in, what the function has left there comes out, and is
put there after the call. While the call runs, something that guards take for a constant stands in the places. A call of which no
graph can be made runs the function itself, on the places as they were before.
"""
import functools
import inspect
import threading
import weakref
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree

from .. import _core
from .._cache_stats import together
from .hidden_tensors import refuse_hidden_tensors
from .objects import Objects, Unfit, like
from .places import HELD, UNCHANGED, can_be_given, can_be_returned, paths_of
from .reach import OBJECTS, SEVERED, has_history, misjudged, severed
from .register import Anew, fails_with_state, hold, is_tracing, known_objects, let_go, may_do, noticed, present

_MOST_PLACES, _MOST_LESSONS, _MOST_USELESS = 64, 8, 32
_SEVERED = "(without history)"  # stands in the state for the numbers of places
_ITSELF = object()  # what a call returns that has to run the function itself
_ANEW = object()  # what a call returns whose trace has found classes to take apart
_NOT_APART = "returns an object that is not taken apart now"


class Outcome(NamedTuple):
    """What a function returns that takes what its places hold."""

    out: Any
    state: dict
    objects: list


class _Call(NamedTuple):
    """A call of a function that takes what its places hold."""

    function: Any
    state: dict
    objects: Objects

    def meets(self, reached):
        """Whether what it is given apart from its arguments has an object, a list, a dict or a tensor with one of these ids."""
        tensors = [leaf for leaf in _pytree.tree_leaves([self.state, *self.objects.values()]) if isinstance(leaf, torch.Tensor)]
        return self.objects.meet(reached) or any(id(tensor) in reached for tensor in tensors)


class Keeper:
    """A compiled function with its places and the classes whose objects it takes apart. `compile` makes a compiled function of one;
    `core` is the present one, `plain` the one that knows of nothing. `module`: the one whose forward the function is."""

    def __init__(self, function, compile, module=None):
        self._function, self._compile, self._module = function, compile, None if module is None else weakref.ref(module)
        self._lock = threading.RLock()
        self._earlier = []  # the statistics of the captures that did not know all places
        self.calls = []  # an element for each call that knows no places, as long as it runs
        self.is_plain = True
        self._places, self._paths, self._likes = [], [], {}
        self._num_itself, self._why_itself = 0, ""
        self._num_given_up = 0  # calls whose first trace has ended with Anew
        self._reset()
        self._take(function)
        self.plain = self.core

    def _reset(self):
        self._num_calls = self._num_traced = 0
        self.is_traced = False  # whether the present call has been
        self.severed = set()  # the numbers of places whose tensors are given without their history
        self._judged = set()  # those that were so once

    def _take(self, compiled):
        self.core, self._compiled, self._id = self._compile(compiled), compiled, id(compiled)
        self._let_go = weakref.finalize(self, let_go, self._id)
        hold(self._id, self._module, self._likes)

    def parts(self):
        """Returns what watches look at: the function, and the module whose forward it is."""
        return self._function, self._module and self._module()

    def learn(self):
        """Has the function captured anew if a trace has found something; while another call that knows of nothing runs, later."""
        if self._id not in noticed:
            return
        with self._lock:
            places, classes = noticed.pop(self._id, ((), ()))
            known = {place.name for place in self._places}
            added = list({place.name: place for place in places if place.name not in known}.values())
            if not (added or classes) or len(self._places) + len(added) > _MOST_PLACES or len(self._earlier) == _MOST_LESSONS:
                return
            was_plain, self.is_plain = self.is_plain, False  # before the calls are counted, as a call counts before it asks
            if was_plain and self.calls:
                self.is_plain, noticed[self._id] = True, (places, classes)
                return
            self._earlier.append(self.core.stats())
            self.core.clear()
            self._let_go()
            self._places = [*self._places, *added]
            self._likes = {**self._likes, **{kind: like(kind) for kind in classes}}
            self._paths = paths_of(self._places)
            self._reset()
            self._take(self._with_state())

    def call(self, args, kwargs):
        """Calls the function with what its places hold, and puts there what it leaves. Other threads wait."""
        if is_tracing():  # inside another function, whose watch sees what this one does
            return self.plain(*args, **kwargs)
        with self._lock:
            num_lessons, (outcome, why) = len(self._earlier), self._outcome(args, kwargs)
            while outcome is _ANEW and len(self._earlier) > num_lessons:
                num_lessons, (outcome, why) = len(self._earlier), self._outcome(args, kwargs)
        if outcome is not _ITSELF and outcome is not _ANEW:
            return outcome
        if why:
            self._num_itself, self._why_itself = self._num_itself + 1, why
        return self._function(*args, **kwargs)

    def _outcome(self, args, kwargs):
        """Returns the result, _ITSELF or _ANEW, and why the function itself has to run, or ""."""
        given, objects, why = self._given(args, kwargs)
        if why:
            return _ITSELF, why
        try:
            return self._captured(given, objects), ""
        except Anew as refusal:
            self.heed(refusal)
            return _ANEW, _NOT_APART

    def heed(self, refusal):
        """Called when a trace has ended with Anew. Errors: the same where that ends another function's trace, too; UserError where what
        it has done on the host stays."""
        if is_tracing():
            raise refusal
        if not refusal.is_undone:
            raise _core.UserError(*refusal.args) from None
        self._num_given_up += 1

    def _given(self, args, kwargs):
        """Returns the arguments as trees, the objects in them, and why the function itself has to run, or ""."""
        objects, given = Objects(self._likes), (args, kwargs)
        if self.is_plain:
            return given, objects, _NOT_APART
        if torch._C._functorch.peek_interpreter_stack() is not None:
            return given, objects, "changes the host inside a transform"
        if self._num_traced > _MOST_USELESS and self._num_traced > self._num_calls / 2:
            return given, objects, "keeps something else each time"
        for place in self._places:
            if not place.is_there() or not can_be_given(place):
                return given, objects, f"finds in '{place.path}' something else than tensors of its own"
        if self._likes:
            try:
                given = tuple(map(objects.pack, args)), {name: objects.pack(value) for name, value in kwargs.items()}
            except Unfit as words:
                return given, objects, f"is given an object that is not taken apart: {words}"
        return given, objects, ""

    def _captured(self, given, objects):
        self._num_calls += 1
        self.is_traced = False
        try:
            severed = None
            while severed != self.severed:  # which a trace may find wrong
                severed = self.severed
                outcome = self._run(*given, objects)
                if outcome is not _ITSELF:
                    break
                self._num_itself -= severed != self.severed  # as the captures count what is called anew
            return outcome
        finally:
            self._num_traced += self.is_traced
            if noticed:
                self.learn()

    def judge(self, verdicts):
        """Called by a trace that has found on which tensors with a history the results depend, and has called the function with the wrong
        ones. Each place changes sides once."""
        added = {key for key, verdict in verdicts.items() if verdict is SEVERED and key != OBJECTS} - self._judged
        self._judged |= added
        self.severed = (self.severed | added) - {key for key, verdict in verdicts.items() if verdict is not SEVERED}

    def _state(self, before, given):
        """Returns what the places hold as the function is given it, and {id of a tensor without its history: the tensor}."""
        state = dict(zip(self._paths, before))
        keys = [key for key in self.severed if any(map(has_history, _pytree.tree_leaves(before[key])))] if torch.is_grad_enabled() else []
        if not keys:
            return state, {}
        others = [leaf for key, value in enumerate(before) if key not in keys for leaf in _pytree.tree_leaves(value)]
        met = {id(leaf) for leaf in (*others, *_pytree.tree_leaves(given)) if isinstance(leaf, torch.Tensor)}
        keys = [key for key in keys if not any(id(leaf) in met for leaf in _pytree.tree_leaves(before[key]))]  # which the function may compare
        made = {}
        state.update((self._paths[key], severed(before[key], made)) for key in keys)
        state[_SEVERED] = tuple(sorted(keys))
        return state, {id(one): value for one, value in made.values()}

    def _run(self, args, kwargs, objects):
        places, before = self._places, [place.read() for place in self._places]
        state, known = self._state(before, (args, kwargs))
        call = _Call(self._compiled, state, objects)
        earlier, present.call = present.call, call
        try:
            for place in places:
                place.write(HELD)
            outcome = self.core(state, *args, **kwargs)
        finally:
            present.call = earlier
            for place, value in zip(places, before):
                place.write(value)
        if outcome is _ITSELF:
            return _ITSELF
        if known:  # tensors without their history are the function's own
            outcome = _pytree.tree_map(lambda leaf: known.get(id(leaf), leaf), outcome)
        for place, path in zip(places, self._paths):
            if outcome.state[path] is not UNCHANGED:
                place.write(outcome.state[path])
        objects.is_given = False
        objects.fill_all(outcome.objects)
        return objects.unpack(outcome.out) if self._likes else outcome.out

    def _with_state(self):
        """The function as one that takes what its places hold first, by their paths, and also returns what it leaves there."""
        function, runner = self._function, _Runner(self)

        def run(state, args, kwargs):
            return runner(state, args, kwargs)

        @functools.wraps(function)
        def with_state(state, /, *args, **kwargs):
            return run(state, args, kwargs)

        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            return with_state
        name = "state"
        while name in parameters:
            name += "_"
        first = inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY)
        with_state.__signature__ = inspect.Signature([first, *parameters.values()], __validate_parameters__=False)
        return with_state

    def clear(self):
        self.core.clear()
        self._reset()

    def stats(self):
        """The counters of all captures together."""
        if not (self._earlier or self._num_itself):
            return self.core.stats()
        stats = together([*self._earlier, self.core.stats()])
        stats.misses -= self._num_given_up
        stats.originals += self._num_itself
        stats.last_original = self._why_itself or stats.last_original
        return stats


class _Runner:
    """Runs a function with what it is given in its places, and with objects made of the trees that it is given. Behind a function
    of a library, guards see neither the places nor what their holders lead to."""

    def __init__(self, keeper):
        self._keeper = weakref.ref(keeper)
        self._function, self._places, self._paths, self._likes = keeper._function, keeper._places, keeper._paths, keeper._likes

    def __call__(self, state, args, kwargs):
        """Returns the Outcome, or _ITSELF if these are the arguments of a call and no trace has replaced them. What was in the places
        before is put back, unless the function leaves what no graph makes, which is for the watch of the trace to see."""
        call = present.call
        if call is not None and call.state is state:
            return _ITSELF
        keeper = self._keeper()
        if keeper is not None:
            keeper.is_traced = True
        names, present.names = present.names, {place.name for place in self._places}
        try:
            return self._outcome(state, args, kwargs)
        finally:
            present.names = names

    def _outcome(self, state, args, kwargs):
        places, before, given = self._places, [place.read() for place in self._places], [state[path] for path in self._paths]
        objects = Objects(self._likes, known_objects())
        objects.is_given = False
        fails_with_state()  # whatever fails from here on, a backward among it, the function itself shows
        if self._likes:
            args, kwargs = [objects.unpack(part) for part in args], {name: objects.unpack(part) for name, part in kwargs.items()}
        contents = objects.contents()
        try:
            for place, value in zip(places, given):
                place.write(value)
            result = self._function(*args, **kwargs)
            after = [place.read() for place in places]
            after = [UNCHANGED if old is new else new for old, new in zip(given, after)]
        except BaseException:
            for place, value in zip(places, before):
                place.write(value)
            raise
        if can_be_returned([value for value in after if value is not UNCHANGED], result, known_objects()):
            for place, value in zip(places, before):
                place.write(value)
        before_it = [held for _, _, content in contents for held in (content if type(content) is list else content.values())]
        self._judge(given, state, result, [after, list(objects.values())], before_it)
        try:
            states, out = objects.states(contents), objects.pack(result) if self._likes else result
        except Unfit as words:
            is_original = may_do(f"changes an object in a way that is not followed: {words}")
            states, out = [], torch.empty(0) if is_original else result  # no call returns that
        refuse_hidden_tensors(out)
        return Outcome(out, dict(zip(self._paths, after)), states)

    def _judge(self, given, state, result, kept, objects):
        """Sees to it that tensors are given with their history where results depend on them, and that this trace is of no use if not."""
        wrong = misjudged(given, state.get(_SEVERED, ()), objects, result, kept)
        if wrong:
            may_do("keeps a history that not all results have")
            keeper = self._keeper()
            if keeper is not None:
                keeper.judge(wrong)
