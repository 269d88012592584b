"""Random numbers of Python and numpy in a trace: an operator of the graph, which draws anew in each call.

random.random() and its kin give open numbers (see _host_numbers.py): they scale as operands, and steer by comparisons that the
capture is guarded by. A call asks these questions with the generators set back, and then draws once. Functions that hold the
methods themselves (from random import random), other distributions and other generators are seen by the watch: there the function
itself runs.
"""
import functools
import pickle
import random
import sys
import threading

from . import _core
from ._host_events import STAND_INS
from ._host_numbers import OpenFloat
from ._torch_checkpoint import is_tracing


def _recording(torchs, draw, number):
    """Returns a function that records a draw in a trace, and is the host's elsewhere. `number` makes of a draw what the arguments
    ask for, or None for arguments that it does not know."""

    @functools.wraps(torchs)
    def drawn(*args, **kwargs):
        if not is_tracing() or not _core.may_draw():
            return torchs(*args, **kwargs)
        made = number(lambda: OpenFloat(draw()), *args, **kwargs)
        return torchs(*args, **kwargs) if made is None else made

    STAND_INS.add(drawn.__code__)
    return drawn


def _standard(draw, *args, **kwargs):
    return None if args or kwargs else draw()


def _uniform(draw, a=None, b=None, **others):
    """As both libraries compute it: a + (b - a) * random()."""
    if others or not all(isinstance(bound, (int, float)) for bound in (a, b)):
        return None
    return a + (b - a) * draw()


def _uniform_of_numpy(draw, low=0.0, high=1.0, **others):
    return _uniform(draw, float(low), float(high), **others) if isinstance(low, (int, float)) and isinstance(high, (int, float)) else None


def _recorded(module, names, get_state, set_state, draw):
    """Returns (module, name, the host's function, ours) for each name."""
    recorded = _core.host_draw(draw, lambda: pickle.dumps(get_state()), lambda state: set_state(pickle.loads(state)))
    return [(module, name, getattr(module, name), _recording(getattr(module, name), recorded, number)) for name, number in names.items()]


@functools.cache
def _of_python():
    return _recorded(random, {"random": _standard, "uniform": _uniform}, random.getstate, random.setstate, random.random)


@functools.cache
def _of_numpy():
    library = sys.modules["numpy"].random
    standard = dict.fromkeys(("rand", "random", "random_sample"), _standard)
    return _recorded(library, {**standard, "uniform": _uniform_of_numpy}, library.get_state, library.set_state, library.random_sample)


class _Replaced:
    """What is replaced while functions are traced, on any thread: others see the host's functions as they are."""

    def __init__(self):
        self.lock, self.num_traces, self.rows = threading.Lock(), 0, []

    def begin(self):
        with self.lock:
            self.num_traces += 1
            if self.num_traces > 1:
                return
            self.rows = [*_of_python(), *(_of_numpy() if "numpy.random" in sys.modules else ())]
            for module, name, _, ours in self.rows:
                setattr(module, name, ours)

    def end(self):
        with self.lock:
            self.num_traces -= 1
            if self.num_traces:
                return
            for module, name, theirs, ours in self.rows:
                if getattr(module, name) is ours:  # or somebody has replaced it meanwhile
                    setattr(module, name, theirs)


_replaced = _Replaced()
begin, end = _replaced.begin, _replaced.end
