"""Random numbers of Python and numpy in a trace: an operator of the graph, which draws anew in each call.

random.random() and its kin give open numbers (see _host_numbers.py): they scale as operands, and steer by comparisons that the
capture is guarded by. A call asks these questions with the generators set back, and then draws once. Functions that hold the
methods themselves (from random import random), other distributions and other generators are seen by the watch: there the function
itself runs.
"""
import functools
import math
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


def _uniform(draw, a=None, b=None, *more, **others):
    """As both libraries compute it: a + (b - a) * random()."""
    if more or others or not all(isinstance(bound, (int, float)) and math.isfinite(bound) for bound in (a, b)):
        return None
    return a + (b - a) * draw()


def _uniform_of_numpy(draw, low=0.0, high=1.0, *more, **others):
    return _uniform(draw, low, high, *more, **others)


def _recorded(module, names, get_state, set_state, draw):
    """Returns (module, name, the host's function, ours) for each name."""
    recorded = _core.host_draw(draw, lambda: pickle.dumps(get_state()), lambda state: set_state(pickle.loads(state)))
    return [(module, name, theirs, _recording(theirs, recorded, number)) for name, (theirs, number) in names.items()]


@functools.cache
def _of_python():
    # The methods of the one generator that the module's functions are, whatever a program has put in their places.
    generator = random._inst
    names = {"random": (generator.random, _standard), "uniform": (generator.uniform, _uniform)}
    return _recorded(random, names, generator.getstate, generator.setstate, generator.random)


@functools.cache
def _of_numpy():
    library = sys.modules["numpy"].random
    generator = library.mtrand._rand
    names = {name: (getattr(generator, name), _standard) for name in ("rand", "random", "random_sample")}
    names["uniform"] = (generator.uniform, _uniform_of_numpy)
    return _recorded(library, names, generator.get_state, generator.set_state, generator.random_sample)


class _Replaced:
    """What is replaced while functions are traced, on any thread: others see the host's functions as they are."""

    def __init__(self):
        self.lock, self.num_traces, self.rows = threading.Lock(), 0, []

    def begin(self):
        with self.lock:
            self.num_traces += 1
            if self.num_traces > 1:
                return
            known = [*_of_python(), *(_of_numpy() if "numpy.random" in sys.modules else ())]
            self.rows = [row for row in known if getattr(row[0], row[1]) == row[2]]  # else somebody has replaced it
            for module, name, _, ours in self.rows:
                setattr(module, name, ours)

    def end(self):
        with self.lock:
            self.num_traces -= 1
            if self.num_traces:
                return
            for module, name, theirs, ours in self.rows:
                if getattr(module, name) is ours:
                    setattr(module, name, theirs)


_replaced = _Replaced()
begin, end = _replaced.begin, _replaced.end
