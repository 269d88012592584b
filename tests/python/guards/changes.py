"""Functions that read something besides tensors, and changes of what they read."""
import dataclasses
from collections.abc import Callable

import diptych
import torch
from torch import nn


class Plain:
    def __init__(self, scale=2.0, inner=None):
        self.scale, self.inner = scale, inner

    def __call__(self, x):
        return x * self.scale


class Other(Plain):
    def __call__(self, x):
        return x + self.scale


class Reader(nn.Module):
    """Its forward is given as a function of itself."""

    def __init__(self, forward, **attributes):
        super().__init__()
        self.linear = nn.Linear(3, 16)
        self.run = forward
        self.__dict__.update(attributes)

    def forward(self, x):
        return self.run(self, self.linear(x))


@dataclasses.dataclass
class Change:
    """function(x) before and after change(); both differ, as eager shows."""

    function: Callable
    change: Callable


def check_change(case):
    torch.manual_seed(0)
    compiled, x = diptych.aot_function(case.function), torch.randn(3)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), case.function(x))
    assert compiled.stats().misses == 1, compiled.stats().last_miss
    before = case.function(x)
    case.change()
    assert not torch.equal(before, case.function(x)), "the case does not change anything"
    for _ in range(2):
        torch.testing.assert_close(compiled(x), case.function(x))
    assert compiled.stats().misses == 2, compiled.stats().last_miss


def value_and_gradient(function, x):
    leaf = x.clone().requires_grad_()
    y = function(leaf)
    (gradient,) = torch.autograd.grad(y.abs().sum(), leaf)
    return y.detach(), gradient


def check_value_and_gradient(function, alter):
    compiled, x = diptych.aot_function(function), torch.tensor([1.0, 2.0, 4.0])
    for _ in range(2):
        before = value_and_gradient(function, x)
        torch.testing.assert_close(value_and_gradient(compiled, x), before)
    stats = compiled.stats()
    assert stats.misses == 1 or stats.originals, stats.last_miss
    alter()
    after = value_and_gradient(function, x)
    assert not (torch.equal(before[0], after[0]) and torch.equal(before[1], after[1])), "the case does not change anything"
    for _ in range(2):
        torch.testing.assert_close(value_and_gradient(compiled, x), after)
    assert compiled.stats().misses == 2 or stats.originals, compiled.stats().last_miss
