"""Functions that keep tensors from one call to the next: in buffers, attributes, variables, dicts and lists."""
import collections
import copy
import threading
import types

import diptych
import pytest
import torch
from beside_eager import Cases
from torch import nn
from torch.utils import _pytree

CALLS = 5
STATE = None


class Averaging(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.weight = nn.Parameter(torch.full((3,), 0.5))

    def forward(self, x):
        self.mean = self.mean * 0.9 + x.detach().mean(0) * 0.1
        return x * self.weight + self.mean


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), 0.5))
        self.last = None

    def forward(self, x):
        self.last = x * self.weight
        return self.last.sin()


class Recurrent(nn.Module):
    """Keeps a state that is made at the first call, and what it was made of."""

    def __init__(self, detaches):
        super().__init__()
        self.cell = nn.GRUCell(3, 3)
        self.detaches = detaches

    def forward(self, x):
        state = self.state if hasattr(self, "state") else torch.zeros(4, 3)
        self.state = self.cell(x, state.detach() if self.detaches else state)
        self.pair = (self.state * 2, {"x": x, "n": 3})
        return self.state.tanh()


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Averaging(), Remembering()

    def forward(self, x):
        return self.second(self.first(x)) + self.first.mean


class Statistics(nn.Module):
    """Changes one buffer in place and binds another one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.count.add_(1)
        self.total = self.total + x.detach().sum(0)
        return x - self.total / self.count


class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.best = torch.full((), -100.0)

    def forward(self, x):
        if x.mean() > self.best:
            self.best = x.detach().mean()
        return x * self.best


MODULES = {
    "averaging": Averaging,
    "remembering": Remembering,
    "recurrent": lambda: Recurrent(True),
    "recurrent through time": lambda: Recurrent(False),
    "nested": Nested,
    "statistics": Statistics,
}


def held_by(module):
    return [{name: value for name, value in {**child._buffers, **child.__dict__}.items() if not name.startswith("_") and name != "training"} for child in module.modules()]


def trained(module, call, calls=CALLS):
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1) if list(module.parameters()) else None
    found = []
    loss = 0
    for _ in range(calls):
        x = torch.randn(4, 3).requires_grad_()
        y = call(x)
        loss = loss + y.square().sum()
        found.append((y.detach(), y.requires_grad, *map(copied, held_by(module))))
        if not isinstance(module, Recurrent) or module.detaches:
            loss.backward(retain_graph=isinstance(module, Recurrent))
            found.append(x.grad)
            loss = 0
            if optimizer:
                optimizer.step()
    if isinstance(loss, torch.Tensor):
        loss.backward()
    return found, [parameter.grad for parameter in module.parameters()], module.state_dict()


def copied(tree):
    return _pytree.tree_map_only(torch.Tensor, lambda tensor: (tensor.detach().clone(), tensor.requires_grad, tensor.is_leaf), tree)


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    torch.manual_seed(1)
    module = MODULES[name]()
    other = copy.deepcopy(module)
    compiled = diptych.aot_module(other, eager_fallback=False)
    expected = trained(module, module)
    torch.testing.assert_close(trained(other, compiled), expected, rtol=1e-5, atol=1e-5)
    stats = compiled.stats()
    assert stats.originals == 1 and stats.hits >= CALLS - 3, stats


FUNCTIONS = Cases()  # makers of (function of x, what it keeps)


@FUNCTIONS
def variable_of_a_closure():
    state = torch.zeros(3)

    def f(x):
        nonlocal state
        state = state * 0.5 + x.detach()
        return x * state

    return f, lambda: state


@FUNCTIONS
def global_variable():
    global STATE
    STATE = torch.ones(3)

    def f(x):
        global STATE
        STATE = STATE + x.detach() * 2
        return x + STATE

    return f, lambda: STATE


@FUNCTIONS
def entry_of_a_dict():
    held = {"other": 3}

    def f(x):
        held["y"] = x.sin()
        return held["y"] * held["other"]

    return f, lambda: held


@FUNCTIONS
def element_of_a_list():
    held = [torch.zeros(3), 1]

    def f(x):
        held[0] = held[0] + x.detach()
        return held[0] * x * held[1]

    return f, lambda: held


@FUNCTIONS
def attribute_of_an_object():
    held = types.SimpleNamespace(h=torch.ones(3), n=2.0)

    def f(x):
        held.h = torch.tanh(held.h + x.detach())
        return x * held.h * held.n

    return f, lambda: vars(held)


@FUNCTIONS
def method():
    class Filter:
        def __init__(self):
            self.state = torch.zeros(3)

        def __call__(self, x):
            return self.step(x)

        def step(self, x):
            self.state = self.state + (x.detach() - self.state) * 0.1
            return x - self.state

    held = Filter()
    return held.step, lambda: held.state


@FUNCTIONS
def several_places():
    held, state = {"a": torch.zeros(3)}, torch.ones(3)

    def f(x):
        nonlocal state
        held["a"], state = state * 0.5, held["a"] + x.detach()
        return x * state

    return f, lambda: (held, state)


@FUNCTIONS
def tree():
    held = types.SimpleNamespace(pair=None)

    def f(x):
        before = 0 if held.pair is None else held.pair[0].detach()
        held.pair = (x * 2 + before, [x.cos(), 4])
        return held.pair[0] * held.pair[1][0]

    return f, lambda: held.pair


@FUNCTIONS
def argument_and_result():
    held = {}

    def f(x):
        y = x * 2
        held["x"], held["y"], held["again"] = x, y, y
        return y

    return f, lambda: held


@FUNCTIONS
def random_numbers():
    held = [torch.zeros(3)]

    def f(x):
        held[0] = torch.rand(3) + held[0]
        return nn.functional.dropout(x, 0.5) * held[0]

    return f, lambda: held


@FUNCTIONS
def view_of_what_is_kept():
    held = {"all": torch.zeros(6)}

    def f(x):
        held["all"] = torch.cat((held["all"][3:], x.detach()))
        held["first"] = held["all"][:3]
        return x * held["first"]

    return f, lambda: held


@FUNCTIONS
def kept_or_not_by_a_value():
    held = [torch.zeros(())]

    def f(x):
        if x.sum() > held[0]:
            held[0] = x.detach().sum()
        return x * held[0]

    return f, lambda: held


def called(make, compiles):
    function, look = make()
    call = diptych.aot_function(function) if compiles else function
    torch.manual_seed(3)
    found = []
    for _ in range(CALLS):
        x = torch.randn(3).requires_grad_()
        y = call(x * 1)
        (gradient,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
        found.append((y, gradient, copied(look()), torch.rand(1)))
    return found, call


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    expected, _ = called(FUNCTIONS[name], False)
    found, compiled = called(FUNCTIONS[name], True)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    stats = compiled.stats()
    assert stats.originals <= 2 and stats.hits >= 1, stats


def test_what_is_kept_is_what_was_returned_or_given():
    held = {}

    def f(x):
        y = x * 2
        held["x"], held["y"], held["again"], held["half"] = x, y, y, y[:2]
        return y

    compiled = diptych.aot_function(f)
    for call in range(4):
        x = torch.ones(3, requires_grad=True)
        y = compiled(x)
        assert held["x"] is x and held["y"] is y and held["again"] is y, call
        assert held["half"].data_ptr() == y.data_ptr() and held["half"]._base is (y if y._base is None else y._base), call
    assert compiled.stats().hits == 2


def test_a_cache_in_a_module_grows():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.key = nn.Linear(3, 3)
            self.cache = {"k": torch.zeros(1, 0, 3)}

        def forward(self, x):
            self.cache["k"] = torch.cat((self.cache["k"], self.key(x)), 1)
            return x @ self.cache["k"].transpose(1, 2)

    module = Attention()
    other = copy.deepcopy(module)
    compiled = diptych.aot_module(other, eager_fallback=False, dynamic=True)
    for _ in range(6):
        x = torch.randn(1, 2, 3)
        torch.testing.assert_close(compiled(x), module(x))
        torch.testing.assert_close(other.cache, module.cache)
    assert compiled.stats().originals == 1 and compiled.stats().hits >= 2, compiled.stats()
