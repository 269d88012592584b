"""Samples of PyTorch's databases of operators: made once, as are eager's results, for all that judges by them.

Note [Samples of operators]: The suites of operators go through the database together (run.py --together), and what one of them made of an operator
is there for the others: once() keeps it until another operator is asked for. Whoever asks for samples gets copies, so that nobody meets what
another wrote into them.

OpInfo.sample_inputs() is not called: for each sample it looks for a case of unittest on the stack, and for the line of source of each frame, which
takes ten times as long as to judge the sample. The seeds are those that it sets.
"""
import copy
import dataclasses
import functools
import itertools
from collections.abc import Callable

from torch.testing._internal.common_utils import SEED

import judge
from device import DEVICE

_kept = {"operator": None}


@dataclasses.dataclass
class Sample:
    """A call of an operator. part: what the database takes of a result whose gradient is defined for a part of it alone."""

    arguments: tuple
    keywords: dict
    part: Callable

    @classmethod
    def of(cls, sample):
        return cls((sample.input, *sample.args), dict(sample.kwargs), sample.output_process_fn_grad)


def once(op, key, make):
    """What make() gives or raises, made for the first who asks by the key while the operator is judged."""
    if _kept["operator"] is not op:
        _kept.clear()
        _kept["operator"] = op
    if key not in _kept:
        try:
            _kept[key] = make(), None
        except Exception as error:
            _kept[key] = None, error.with_traceback(None)  # whose frames hold tensors
    made, error = _kept[key]
    if error is not None:
        raise error
    return made


def eager_once(op, key, look):
    """A thunk that observes eager, as look() does, but once for all who ask by the key; where the judge asks for other numbers than a sample has, it looks."""
    return lambda: look() if judge.settings.wide or judge.settings.shaken else once(op, ("eager", *key), look)


def seeded(make, *args, **kwargs):
    """What a function of a database gives, one after the other; the numbers in each follow from none of the others."""
    judge.seed(5)
    found = iter(make(*args, **kwargs))
    while True:
        judge.seed(SEED)
        try:
            yield next(found)
        except StopIteration:
            return


def samples(op, dtype, requires_grad, limit=None):
    """The operator's samples on the CPU, copies of those that are kept."""
    make = functools.partial(seeded, op.sample_inputs_func, op, DEVICE, dtype, requires_grad)
    kept = once(op, (dtype, requires_grad), lambda: itertools.tee(map(Sample.of, make()), 1)[0])
    for sample in itertools.islice(copy.copy(kept), limit):
        yield Sample(*judge.clone((sample.arguments, sample.keywords)), sample.part)


def wrong_samples(op):
    """The calls of which the database says itself that they are refused."""
    if op.error_inputs_func is not None:
        yield from (Sample.of(error.sample_input) for error in seeded(op.error_inputs_func, op, DEVICE))


def name_of(op):
    return f"{op.name}.{op.variant_test_name}".rstrip(".")


def operators():
    """PyTorch's database of operators. Many random ones come wrapped in a function that seeds the generator, which a capture refuses; the judge seeds it
    before it calls one, so that draws are compared."""
    from torch.testing._internal import common_methods_invocations

    common_methods_invocations.wrapper_set_seed = lambda operator, *args, **kwargs: operator(*args, **kwargs)
    return common_methods_invocations.op_db
