"""Objects, functions and trees as arguments, methods that are compiled, and hooks of all modules: what of them a call is guarded by."""
import collections
import dataclasses
import enum
import functools

import diptych
import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from changes import Plain, Reader


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


SCALE = 2.0


class Model:
    def __init__(self):
        self.w, self.scale = torch.randn(3, requires_grad=True), 2.0

    @diptych.aot_function
    def loss(self, x):
        return (x * self.w).sum() * self.scale


def test_a_decorated_method_sees_its_object():
    model, x = Model(), torch.randn(3)

    def expect():
        torch.testing.assert_close(model.loss(x), (x * model.w).sum() * model.scale)

    expect()
    model.scale = 3.0
    expect()
    model.w = torch.randn(3, requires_grad=True)
    expect()
    (gradient,) = torch.autograd.grad(model.loss(x), model.w)
    torch.testing.assert_close(gradient, x * 3)


def test_an_object_as_an_argument():
    compiled, x, given = diptych.aot_function(lambda x, options: x * options.scale), torch.randn(3), Plain()
    torch.testing.assert_close(compiled(x, given), x * 2)
    given.scale = 3.0
    torch.testing.assert_close(compiled(x, given), x * 3)


def test_a_function_as_an_argument():
    compiled, x = diptych.aot_function(lambda x, act: act(x)), torch.randn(3)
    for act in (torch.sin, F.gelu, lambda x: x * SCALE, functools.partial(torch.mul, other=2.0)):
        torch.testing.assert_close(compiled(x, act), act(x))


def test_numbers_of_other_classes_as_arguments():
    compiled, x = diptych.aot_function(lambda x, n: (x * n, type(n).__name__)), torch.randn(3)
    for n in (2, 2.0, numpy.float64(2), Level.HIGH, numpy.float32(0.1), True):
        result, name = compiled(x, n)
        torch.testing.assert_close(result, x * n)
        assert name == type(n).__name__


def test_the_order_of_a_dict_is_seen():
    compiled = diptych.aot_function(lambda d: torch.cat([*d.values()]))
    a, b = torch.ones(2), torch.zeros(3)
    for d in ({"a": a, "b": b}, {"b": b, "a": a}, {"a": a, "b": b}):
        torch.testing.assert_close(compiled(d), torch.cat([*d.values()]))
    assert compiled.stats().misses == 2


def test_the_order_of_keywords_is_seen():
    compiled = diptych.aot_function(lambda first=None, **rest: torch.cat([*rest.values()]))
    a, b = torch.ones(2), torch.zeros(3)
    torch.testing.assert_close(compiled(a=a, b=b), torch.cat([a, b]))
    torch.testing.assert_close(compiled(b=b, a=a), torch.cat([b, a]))
    torch.testing.assert_close(compiled(b=b, first=a, a=a), torch.cat([b, a]))


def test_a_dict_of_ones_own():
    class Config(dict):
        __getattr__ = dict.__getitem__

    compiled = diptych.aot_function(lambda c: type(c)({"y": c.x * 2, "z": c["x"]}))
    x = torch.randn(3)
    result = compiled(Config(x=x))
    assert type(result) is Config
    torch.testing.assert_close(result.y, x * 2)
    kinds = diptych.aot_function(lambda d: d["x"] * (2 if isinstance(d, collections.OrderedDict) else 3))
    torch.testing.assert_close(kinds({"x": x}), x * 3)
    torch.testing.assert_close(kinds(collections.OrderedDict(x=x)), x * 2)


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    late: torch.Tensor = dataclasses.field(init=False)

    def __post_init__(self):
        self.mask = self.x > 0

    @functools.cached_property
    def double(self):
        return self.x * 2


def test_what_a_dataclass_holds_besides_its_fields():
    compiled = diptych.aot_function(lambda batch: batch.x * batch.mask + batch.double)
    for _ in range(2):
        batch = Batch(torch.randn(3))
        batch.double  # noqa: B018  # fills the cache
        torch.testing.assert_close(compiled(batch), batch.x * batch.mask + batch.double)
    assert compiled.stats().misses == 1


def test_an_object_with_a_number_among_its_attributes():
    held = Plain()
    held.__dict__[3] = 4
    compiled, x = diptych.aot_function(lambda x: x * held.scale), torch.randn(3)
    torch.testing.assert_close(compiled(x), x * 2)


def test_objects_that_hold_each_other():
    module = Reader(lambda self, x: x * self.parent.scale, parent=Plain())
    module.parent.inner = module
    module.linear.parent = [module]
    compiled, x = diptych.aot_module(module), torch.randn(3)
    torch.testing.assert_close(compiled(x), module(x))
    module.parent.scale = 3.0
    torch.testing.assert_close(compiled(x), module(x))


def test_addresses_that_are_used_again():
    held = {}
    compiled, x = diptych.aot_function(lambda x: held["act"](x)), torch.randn(3)
    for scale in range(2, 40):
        held["act"] = functools.partial(torch.mul, other=float(scale))
        torch.testing.assert_close(compiled(x), x * scale)


def test_layers_that_differ_are_refused():
    class Activated(nn.Module):
        def __init__(self, act):
            super().__init__()
            self.linear, self.act = nn.Linear(4, 4), act

        def forward(self, x):
            return self.act(self.linear(x))

    stacks = (
        [nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())],
        [Activated(F.relu), Activated(F.gelu)],
        [nn.LeakyReLU(0.1), nn.LeakyReLU(0.2)],
    )
    for layers in stacks:
        with pytest.raises(diptych.UserError, match="scan_layers"):
            diptych.scan_layers(layers, torch.randn(2, 4))
    diptych.scan_layers([Activated(F.relu), Activated(F.relu)], torch.randn(2, 4))


FACTORS = {"factor": 2.0}
HOOKS_OF_ALL_MODULES = {
    "forward": (nn.modules.module.register_module_forward_hook, lambda module, inputs, result: result * FACTORS["factor"]),
    "forward_pre": (nn.modules.module.register_module_forward_pre_hook, lambda module, inputs: (inputs[0] * FACTORS["factor"],)),
    "backward": (nn.modules.module.register_module_full_backward_hook, lambda module, given, taken: (given[0] * FACTORS["factor"],)),
}


@pytest.mark.parametrize("name", HOOKS_OF_ALL_MODULES)
def test_a_hook_of_all_modules_is_seen(name, monkeypatch):
    register, hook = HOOKS_OF_ALL_MODULES[name]
    layer = nn.Linear(3, 3)

    def gradient(function):
        x = torch.linspace(0, 1, 6).view(2, 3).requires_grad_()
        return torch.autograd.grad(function(x).sum(), x)[0]

    def function(x):
        return layer(x).sin()

    compiled = diptych.aot_function(function)
    before = gradient(function)
    torch.testing.assert_close(gradient(compiled), before)
    handle = register(hook)
    try:
        assert not torch.equal(gradient(function), before)
        torch.testing.assert_close(gradient(compiled), gradient(function))
        monkeypatch.setitem(FACTORS, "factor", 3.0)
        torch.testing.assert_close(gradient(compiled), gradient(function))
    finally:
        handle.remove()
    torch.testing.assert_close(gradient(compiled), before)


def test_what_a_hook_of_all_modules_writes():
    layer, calls = nn.Linear(3, 3), []
    compiled = diptych.aot_function(lambda x: layer(x))
    handle = nn.modules.module.register_module_forward_hook(lambda module, inputs, result: calls.append(1))
    try:
        for n in range(1, 4):
            compiled(torch.randn(2, 3))
            assert len(calls) == n
    finally:
        handle.remove()
