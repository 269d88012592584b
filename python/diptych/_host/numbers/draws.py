"""Random numbers of Python and numpy in a trace: an operator of the graph, which draws anew in each call.

random.random() and its kin give open numbers (see floats.py): they scale as operands, and steer by comparisons that the
capture is guarded by. A call asks these questions with the generators set back, and then draws once. Functions that hold the
methods themselves (from random import random), draws of arrays and other generators are seen by the watch: there the function
itself runs.
"""
import functools
import math
import pickle
import random
import sys

import torch

from ... import _core
from ..events import STAND_INS
from ..register import is_tracing
from ..replaced import while_tracing
from .floats import OpenFloat
from .integers import OpenInt


def _recording(torchs, draw, number):
    """Returns a function that records a draw in a trace, and is the host's elsewhere. `number` makes of a draw what the arguments
    ask for, or NotImplemented for arguments that it does not know."""

    @functools.wraps(torchs)
    def drawn(*args, **kwargs):
        if not is_tracing() or not _core.may_draw():
            return torchs(*args, **kwargs)
        made = number(draw, *args, **kwargs)
        return torchs(*args, **kwargs) if made is NotImplemented else made

    STAND_INS[id(drawn.__code__)] = drawn.__code__
    return drawn


def _standard(draw, *args, **kwargs):
    return NotImplemented if args or kwargs else OpenFloat(draw())


def _uniform(draw, a=None, b=None, *more, **others):
    """As both libraries compute it: a + (b - a) * random()."""
    if more or others or not all(isinstance(bound, (int, float)) and math.isfinite(bound) for bound in (a, b)):
        return NotImplemented
    return a + (b - a) * OpenFloat(draw())


def _uniform_of_numpy(draw, low=0.0, high=1.0, *more, **others):
    return _uniform(draw, low, high, *more, **others)


class _Generator:
    """A generator of the host. Each distribution is a generator to a graph, with the state that they have in common."""

    def __init__(self, get_state, set_state):
        self._get_state, self._set_state = get_state, set_state

    def recorded(self, draw):
        """Returns a function that records draw() in a trace, as a tensor f64[]. Graphs keep what they draw by for good."""
        return _core.host_draw(draw, lambda: pickle.dumps(self._get_state()), lambda state: self._set_state(pickle.loads(state)))

    def _sample(self, method, args):
        """Returns what a draw may look like, and draws nothing; None for arguments that the host refuses."""
        state = self._get_state()
        try:
            return method(*args)
        except Exception:  # noqa: BLE001  # the host will raise it again
            return None
        finally:
            self._set_state(state)

    def rows(self, module, standard, draw, others):
        """Returns (module, name, the host's function, ours): `standard` has functions of _recording() by name, which scale draw();
        `others` are methods whose arguments say what is drawn."""
        recorded = self.recorded(draw)
        found = [(module, name, theirs, _recording(theirs, recorded, number)) for name, (theirs, number) in standard.items()]
        return found + [(module, name, theirs, _recording(theirs, None, self._by_arguments(theirs))) for name, theirs in others.items()]

    def _by_arguments(self, method):
        recorded = functools.lru_cache(None, typed=True)(lambda *args: self.recorded(lambda: method(*args)))

        def number(_, *args, **kwargs):
            if kwargs or not all(type(one) in (int, float) and abs(one) < _LARGE for one in args):
                return NotImplemented
            kind = type(self._sample(method, args))
            if kind is float:
                return OpenFloat(recorded(*args)())
            return OpenInt(recorded(*args)().to(torch.int64), _BITS) if kind is int else NotImplemented

        return number

    def choice(self, below):
        """Returns a function for _recording(): random.choice() by a method that draws an integer below another."""
        index = self._by_arguments(below)

        def number(_, seq):
            return seq[int(index(None, len(seq)))] if isinstance(seq, (list, tuple, range, str)) and seq else NotImplemented

        return number


_BITS = 53  # of an integer that is a float without rounding
_LARGE = 2.0 ** (_BITS - 1)
_OF_PYTHON = ("betavariate", "expovariate", "gammavariate", "gauss", "lognormvariate", "normalvariate", "paretovariate", "randint", "randrange",
              "triangular", "vonmisesvariate", "weibullvariate")
_OF_NUMPY = ("beta", "binomial", "chisquare", "exponential", "gamma", "gumbel", "laplace", "logistic", "lognormal", "normal", "poisson", "randint",
             "standard_exponential", "standard_normal", "triangular")


def _methods(generator, names):
    return {name: getattr(generator, name) for name in names}


@functools.cache
def _of_python():
    # The methods of the one generator that the module's functions are, whatever a program has put in their places.
    generator = random._inst
    standard = {"random": (generator.random, _standard), "uniform": (generator.uniform, _uniform)}
    ours = _Generator(generator.getstate, generator.setstate)
    standard["choice"] = (generator.choice, ours.choice(generator._randbelow))
    return ours.rows(random, standard, generator.random, _methods(generator, _OF_PYTHON))


@functools.cache
def _of_numpy():
    library = sys.modules["numpy"].random
    generator = library.mtrand._rand
    standard = {name: (getattr(generator, name), _standard) for name in ("rand", "random", "random_sample")}
    standard["uniform"] = (generator.uniform, _uniform_of_numpy)
    others = {**_methods(generator, _OF_NUMPY), "randn": generator.randn}
    return _Generator(generator.get_state, generator.set_state).rows(library, standard, generator.random_sample, others)


def _of_loaded_numpy():
    return _of_numpy() if "numpy.random" in sys.modules else ()


def replace():
    """Has draws of Python's generator and of numpy's recorded in a trace."""
    while_tracing(_of_python)
    while_tracing(_of_loaded_numpy)
