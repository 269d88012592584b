"""Programs that do something on the host: draws, settings, counters, containers, classes of data."""
import collections
import contextlib
import contextvars
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import os
import random
import time
import typing
from types import SimpleNamespace

import numpy
import torch
from programs import add, add_functions, leaf, program
from torch import nn


def dropped_layers(x, draw):
    for scale in (2.0, 3.0, 4.0):
        if draw() < 0.5:
            continue
        x = x * scale
    return x


def shuffled(parts):
    random.shuffle(parts)
    return parts


add_functions("draws", {
    "random": ((leaf(3),), lambda x: x * random.random()),
    "layer_drop": ((leaf(3),), lambda x: dropped_layers(x, random.random), 8),
    "layer_drop_by_numpy": ((leaf(3),), lambda x: dropped_layers(x, numpy.random.rand), 8),
    "uniform": ((leaf(3),), lambda x: x * random.uniform(0.5, 2) + numpy.random.uniform(-1, 1)),
    "gauss": ((leaf(3),), lambda x: x * random.gauss(0, 1)),
    "normalvariate": ((leaf(3),), lambda x: x * random.normalvariate(0, 1)),
    "randint_steers": ((leaf(3),), lambda x: x * random.randint(1, 3), 3),
    "randint_is_a_size": ((leaf(8),), lambda x: x[: random.randint(1, 3)].sin(), 3),
    "choice": ((leaf(3),), lambda x: random.choice([torch.sin, torch.cos])(x), 2),
    "shuffle": ((leaf(3),), lambda x: torch.cat(shuffled([x.sin(), x.cos()])), 2),
    "sample": ((leaf(6),), lambda x: x[random.sample(range(6), 2)].sin(), 4),
    "randn_of_numpy": ((leaf(3),), lambda x: x + torch.from_numpy(numpy.random.randn(3)).float()),
    "randn_of_numpy_alone": ((leaf(3),), lambda x: x * numpy.random.randn()),
    "normal_of_numpy": ((leaf(3),), lambda x: x * numpy.random.normal(0.0, 0.1)),
    "randint_of_numpy": ((leaf(8),), lambda x: x[: numpy.random.randint(1, 4)].sin(), 3),
    "mask_of_numpy": ((leaf(2, 8),), lambda x: x * torch.from_numpy(numpy.random.rand(2, 8) < 0.5)),
    "span_mask_of_numpy": ((leaf(2, 8),), lambda x: x.masked_fill(torch.tensor(span_mask(2, 8)), 0.0)),
    "permutation_of_numpy": ((leaf(4),), lambda x: x[torch.from_numpy(numpy.random.permutation(4))]),
    "choice_of_numpy": ((leaf(4),), lambda x: x[int(numpy.random.choice(4))].sin(), 4),
    "mixup": ((leaf(4, 2),), lambda x: mixed(x, numpy.random.beta(0.4, 0.4), torch.randperm(4))),
    "manual_seed": ((leaf(3),), lambda x: (torch.manual_seed(0), x * torch.rand(3))[1]),
    "fork_rng": ((leaf(3),), lambda x: forked(x)),
    "fork_rng_and_seed": ((leaf(3),), lambda x: forked(x, 5)),
    "rand_of_torch": ((leaf(3),), lambda x: x * torch.rand(3) + torch.randn_like(x) + torch.randperm(3)),
    "seed_of_rand_of_torch": ((leaf(3),), lambda x: x * torch.rand(()).item()),
})  # fmt: skip


def span_mask(rows, columns):
    found = numpy.zeros((rows, columns), dtype=bool)
    for row in range(rows):
        starts = numpy.random.choice(numpy.arange(columns - 1), 2, replace=False)
        found[row, starts] = found[row, starts + 1] = True
    return found


def mixed(x, share, order):
    return share * x + (1 - share) * x[order]


def forked(x, seed=None):
    with torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        noise = torch.rand(3)
    return x * noise + torch.rand(3)


@program(leaf(3))
def draws_generator_of_numpy(wrap):
    generator = numpy.random.default_rng(3)
    return wrap(lambda x: x * generator.random() + generator.normal())


@program(leaf(3))
def draws_generator_of_python(wrap):
    generator = random.Random(3)
    return wrap(lambda x: x * generator.random())


@program(leaf(3))
def draws_generator_of_torch(wrap):
    generator = torch.Generator().manual_seed(3)
    return wrap(lambda x: x * torch.rand(3, generator=generator))


def with_environment(call, values):
    """Calls with a variable set to another value each time."""
    steps = itertools.count()

    def wrapped(*arguments):
        value = values[next(steps) % len(values)]
        os.environ.pop("PROGRAM_FLAG", None)
        if value is not None:
            os.environ["PROGRAM_FLAG"] = value
        try:
            return call(*arguments)
        finally:
            os.environ.pop("PROGRAM_FLAG", None)

    return wrapped


ENVIRONMENT = {
    "get": lambda x: x.sin() if os.environ.get("PROGRAM_FLAG", "0") == "1" else x.cos(),
    "getenv": lambda x: x.sin() if os.getenv("PROGRAM_FLAG", "0") == "1" else x.cos(),
    "in": lambda x: x.sin() if "PROGRAM_FLAG" in os.environ else x.cos(),
    "item": lambda x: x * len(os.environ["PATH"]),
    "upper": lambda x: x.sin() if os.environ.get("PROGRAM_FLAG", "no").upper() in {"1", "YES"} else x.cos(),
    "all": lambda x: x * len([name for name in os.environ if name.startswith("PROGRAM_")]),
}
for _name, _function in ENVIRONMENT.items():
    add(f"environment_{_name}", (leaf(3),), lambda wrap, function=_function: with_environment(wrap(function), ["0", "1", None, "1"]), 3)


class Kind(enum.Enum):
    SIN = 1
    COS = 2


class Flag(enum.IntFlag):
    DOUBLE = 1
    NEGATE = 2


@dataclasses.dataclass
class Output:
    value: torch.Tensor
    hidden: list
    extra: typing.Any = None


torch.utils._pytree.register_dataclass(Output)


@dataclasses.dataclass(frozen=True)
class Config:
    scale: float = 2.0
    kind: Kind = Kind.COS


class Named(typing.NamedTuple):
    value: torch.Tensor
    rest: tuple


State = collections.namedtuple("State", "h c")
level = contextvars.ContextVar("level", default=2.0)
settings = SimpleNamespace(scale=2.0, calls=0)


def in_context(x):
    token = level.set(3.0)
    try:
        return x * level.get()
    finally:
        level.reset(token)


add_functions("containers", {
    "dataclass_result": ((leaf(3),), lambda x: Output(x.sin(), [x.cos(), None])),
    "dataclass_argument": ((lambda step: Output(leaf(3)(step), [torch.ones(3)]),), lambda out: Output(out.value * out.hidden[0], out.hidden, "kept")),
    "frozen_dataclass": ((leaf(3), lambda step: Config()), lambda x, config: x.sin() * config.scale if config.kind is Kind.SIN else x.cos() * config.scale),
    "named_tuples": ((leaf(3), lambda step: State(torch.ones(3), None)), lambda x, state: Named(x * state.h, (state, State(x, 1)))),
    "deque": ((leaf(3),), lambda x: sum(collections.deque([x, x.sin(), x.cos()], maxlen=2))),
    "deque_argument": ((lambda step: collections.deque([torch.ones(3), torch.zeros(3)]), leaf(3)), lambda parts, x: [part * x for part in parts]),
    "ordered_dict": ((leaf(3),), lambda x: collections.OrderedDict(b=x.sin(), a=x.cos())),
    "defaultdict": ((leaf(3),), lambda x: grouped(x)),
    "enums": ((leaf(3), lambda step: Kind(step % 2 + 1), lambda step: Flag.DOUBLE | Flag.NEGATE), lambda x, kind, flag: (x.sin() if kind is Kind.SIN else x.cos()) * int(flag), 2),
    "complex_number": ((leaf(3), lambda step: 1 + 2j), lambda x, z: (x * z).abs()),
    "fractions": ((leaf(3), lambda step: fractions.Fraction(1, 3), lambda step: decimal.Decimal("0.5")), lambda x, a, b: x * float(a) + float(b)),
    "date": ((leaf(3), lambda step: datetime.date(2026, 1, 2)), lambda x, date: x * date.day),
    "slices": ((leaf(6), lambda step: slice(1, 4), lambda step: range(3)), lambda x, s, r: x[s] * len(r)),
    "dtypes_and_devices": ((leaf(3), lambda step: torch.float64, lambda step: torch.device("cpu")), lambda x, dtype, device: x.to(device, dtype)),
    "numpy_scalar": ((leaf(3), lambda step: numpy.float32(2.5)), lambda x, s: x * s),
    "array_argument": ((leaf(3), lambda step: numpy.ones(3, dtype=numpy.float32)), lambda x, a: x * torch.from_numpy(a), 4),  # an object to a guard
    "bytes_and_sets": ((leaf(3), lambda step: b"ab", lambda step: {"a", "b"}), lambda x, b, s: x * len(b) * len(s)),
    "keywords": ((leaf(3),), lambda x: (lambda *args, scale=1.0, **rest: args[0] * scale * rest["other"])(x, scale=2.0, other=3.0)),
    "generator_expression": ((leaf(3),), lambda x: sum(x * i for i in itertools.chain([1, 2], (3,)))),
    "memoized": ((leaf(3),), lambda x: x * fibonacci(6)),
    "context_variable": ((leaf(3),), in_context),
    "match": ((leaf(3),), lambda x: matched({"kind": "scale", "by": 2.0}, x)),
})  # fmt: skip


def grouped(x):
    groups = collections.defaultdict(list)
    for i in range(3):
        groups[i % 2].append(x[i])
    return {key: torch.stack(parts).sin() for key, parts in groups.items()}


@functools.lru_cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def matched(command, x):
    match command:
        case {"kind": "scale", "by": by}:
            return x * by
        case _:
            return x


def changing(change):
    """A program whose caller changes something before each call."""

    def register(make):
        def made(wrap):
            call, steps = make(wrap), itertools.count()

            def wrapped(*arguments):
                change(next(steps))
                return call(*arguments)

            return wrapped

        made.__name__ = make.__name__
        return made

    return register


@program(leaf(3), captures=4)
@changing(lambda step: setattr(settings, "scale", float(step)))
def hosts_setting_that_changes(wrap):
    return wrap(lambda x: x * settings.scale)


@program(leaf(3))
def hosts_literal_is_returned(wrap):
    f = wrap(lambda x: (torch.tensor(0.0), x.sum()))

    def call(x):
        total, s = f(x)
        total += s.detach()
        return total

    return call


@program(leaf(3))
def hosts_counter(wrap):
    settings.calls = 0

    def counted(x):
        settings.calls += 1
        return x * settings.calls

    return wrap(counted)


@program(leaf(3))
def hosts_list_of_results(wrap):
    kept = []

    def keeps(x):
        kept.append(x.detach().sum())
        return x * len(kept)

    return wrap(keeps)


@program(leaf(3))
def hosts_iterator(wrap):
    numbers = itertools.count(1)
    return wrap(lambda x: x * next(numbers))


@program(leaf(3))
def hosts_clock(wrap):
    def timed(x):
        begin = time.perf_counter()
        y = x.sin()
        settings.elapsed = time.perf_counter() - begin
        return y

    return wrap(timed)


@program(leaf(3))
def hosts_warning_once(wrap):
    import warnings

    def warns(x):
        warnings.warn("deprecated", stacklevel=2)
        return x.sin()

    return wrap(warns)


@program(leaf(3))
def hosts_print(wrap):
    def prints(x):
        with contextlib.redirect_stdout(None):
            print(x.shape)
        return x.sin()

    return wrap(prints)


@program(leaf(3))
def hosts_partial_and_method(wrap):
    class Scaler:
        def __init__(self):
            self.by = 2.0

        def scale(self, x, more):
            return x * self.by * more

    return wrap(functools.partial(Scaler().scale, more=3.0))


@program(lambda step: torch.ones(3))
def hosts_arrays_share_memory(wrap):
    f = wrap(lambda t, u: (t.mul_(10), u * 1)[1])

    def call(x):
        array = x.numpy()
        return f(torch.from_numpy(array), torch.from_numpy(array))

    return call


@program(leaf(3))
def hosts_cache_of_tensors(wrap):
    cache = {}

    def table(n):
        if n not in cache:
            cache[n] = torch.arange(n).float()
        return cache[n]

    return wrap(lambda x: x * table(3)), []


@program(leaf(3))
def hosts_class_attribute(wrap):
    class Layer(nn.Module):
        scale = 2.0

        @property
        def bias(self):
            return self.scale + 1

        def forward(self, x):
            return x * self.scale + self.bias

    return wrap(Layer())
