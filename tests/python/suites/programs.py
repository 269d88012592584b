"""The table of programs that people write: each wraps a function or a module of its own, and returns what a caller calls.

A program takes `wrap`, which compiles what it is given, so that it can do things round the call, too. It may return (call, tensors) to have the tensors
compared after each call; parameters and buffers of wrapped modules are compared as they are.
"""
from typing import Any, NamedTuple

import torch

PROGRAMS = {}


class Program(NamedTuple):
    """make: see above. arguments: functions of the number of the call. captures: how many the calls may need at most. steps: the number of calls. order: of
    derivatives."""

    make: Any
    arguments: Any
    captures: int
    steps: int
    order: int


def program(*arguments, captures=1, steps=4, order=1):
    """Registers a program. arguments: for each a tuple of sizes, of a leaf, or a function of the number of the call that makes it."""

    def register(make):
        add(make.__name__, arguments, make, captures, steps, order)
        return make

    return register


def add(name, arguments, make, captures=1, steps=4, order=1):
    assert name not in PROGRAMS, name
    PROGRAMS[name] = Program(make, arguments, captures, steps, order)


def add_functions(prefix, rows):
    """Programs that are a function alone: {name: (arguments, function)} or (arguments, function, captures)."""
    for name, (arguments, function, *captures) in rows.items():
        add(f"{prefix}_{name}", arguments, lambda wrap, function=function: wrap(function), *captures)


def leaf(*sizes):
    return lambda step: torch.randn(sizes, requires_grad=True)


def positive(*sizes):
    return lambda step: (torch.rand(sizes) + 0.5).requires_grad_()


def signed(*sizes):
    """The sign of the sum changes from call to call."""
    return lambda step: (torch.randn(sizes) + (1 if step % 2 else -1)).requires_grad_()


def integers(high, *sizes):
    return lambda step: torch.randint(high, sizes)


def mask(*sizes):
    """As many true elements as the number of the call says."""
    return lambda step: torch.arange(torch.Size(sizes).numel()).reshape(sizes) < step + 2


def growing(*sizes):
    """Another first size in each call."""
    return lambda step: torch.randn(sizes[0] + step, *sizes[1:], requires_grad=True)


import programs_autograd  # noqa: E402, F401  # they fill the table
import programs_hosts  # noqa: E402, F401
import programs_modules  # noqa: E402, F401
import programs_operators  # noqa: E402, F401
import programs_values  # noqa: E402, F401
