"""What a function reads besides tensors, changed between two calls: the second must not be served by the capture of the first."""
import collections
import dataclasses
import enum
import functools
import types
from collections.abc import Callable
from typing import Any

import diptych
import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass
class Options:
    scale: Any = 2.0
    inner: Any = None


class Plain:
    def __init__(self, scale=2.0, inner=None):
        self.scale, self.inner = scale, inner

    def __call__(self, x):
        return x * self.scale


class Other(Plain):
    def __call__(self, x):
        return x + self.scale


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale=2.0):
        self.scale = scale


class Mode(enum.Enum):
    SINE = 1
    COSINE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Reader(nn.Module):
    """Its forward is given as a function of itself."""

    def __init__(self, forward, **attributes):
        super().__init__()
        self.linear = nn.Linear(3, 16)
        self.run = forward
        self.__dict__.update(attributes)

    def forward(self, x):
        return self.run(self, self.linear(x))


def scaled_by_options(self, x):
    return x * self.options.scale


@dataclasses.dataclass
class Change:
    """f(x) before and after change(); both differ, as eager shows."""

    function: Callable
    change: Callable


CHANGES = {}


def change(make):
    CHANGES[make.__name__] = make
    return make


def attribute_of_a_module(value, other):
    module = Reader(scaled_by_options, options=value)
    return Change(module, lambda: setattr(module, "options", other))


@change
def a_dataclass_of_a_module():
    return attribute_of_a_module(Options(2.0), Options(3.0))


@change
def a_field_of_a_dataclass_of_a_module():
    module = Reader(scaled_by_options, options=Options())
    return Change(module, lambda: setattr(module.options, "scale", 3.0))


@change
def an_object_of_a_module():
    return attribute_of_a_module(Plain(2.0), Plain(3.0))


@change
def an_object_inside_an_object_of_a_module():
    module = Reader(lambda self, x: x * self.options.inner.scale, options=Plain(inner=Plain()))
    return Change(module, lambda: setattr(module.options.inner, "scale", 3.0))


@change
def a_namespace_of_a_module():
    return attribute_of_a_module(types.SimpleNamespace(scale=2.0), types.SimpleNamespace(scale=3.0))


@change
def an_enumeration_of_a_module():
    module = Reader(lambda self, x: x.sin() if self.mode is Mode.SINE else x.cos(), mode=Mode.SINE)
    return Change(module, lambda: setattr(module, "mode", Mode.COSINE))


@change
def a_scalar_of_numpy_of_a_module():
    module = Reader(lambda self, x: x * float(self.scale), scale=numpy.float64(2))
    return Change(module, lambda: setattr(module, "scale", numpy.float64(3)))


@change
def a_set_of_a_module():
    module = Reader(lambda self, x: x * len(self.names), names={"a"})
    return Change(module, lambda: module.names.add("b"))


@change
def a_deque_of_a_module():
    module = Reader(lambda self, x: x * self.values[0], values=collections.deque([2.0]))
    return Change(module, lambda: module.values.appendleft(3.0))


@change
def a_function_of_a_module():
    module = Reader(lambda self, x: self.activation(x), activation=F.relu)
    return Change(module, lambda: setattr(module, "activation", F.gelu))


@change
def a_closure_of_a_module():
    scales = [2.0]
    return Change(Reader(lambda self, x: x * scales[0]), lambda: scales.append(scales.pop() + 1))


@change
def a_partial_of_a_module():
    module = Reader(lambda self, x: self.scaled(x), scaled=functools.partial(torch.mul, other=2.0))
    return Change(module, lambda: setattr(module, "scaled", functools.partial(torch.mul, other=3.0)))


@change
def a_module_in_a_list_of_a_module():
    module = Reader(lambda self, x: self.others[0](x), others=[nn.LeakyReLU(0.1)])
    return Change(module, lambda: setattr(module.others[0], "negative_slope", 0.5))


@change
def a_tuple_as_key_of_a_module():
    module = Reader(lambda self, x: x * self.table[1, 2], table={(1, 2): 2.0})
    return Change(module, lambda: module.table.update({(1, 2): 3.0}))


@change
def the_class_of_a_captured_object():
    held = [Plain()]
    return Change(lambda x: held[0](x), lambda: held.append(held.pop() and Other()))


@change
def a_slot_of_a_captured_object():
    held = Slotted()
    return Change(lambda x: x * held.scale, lambda: setattr(held, "scale", 3.0))


@change
def an_object_inside_a_captured_object():
    held = Plain(inner=Plain())
    return Change(lambda x: x * held.inner.scale, lambda: setattr(held.inner, "scale", 3.0))


@change
def a_captured_enumeration():
    held = [Mode.SINE]
    return Change(lambda x: x.sin() if held[0] is Mode.SINE else x.cos(), lambda: held.append(held.pop() and Mode.COSINE))


@change
def a_captured_number_of_an_enumeration():
    held = [Level.LOW]
    return Change(lambda x: x * held[0], lambda: held.append(held.pop() and Level.HIGH))


@change
def a_captured_scalar_of_numpy():
    held = [numpy.float32(2)]
    return Change(lambda x: x * float(held[0]), lambda: held.append(held.pop() + 1))


@change
def a_captured_partial():
    held = [functools.partial(torch.mul, other=2.0)]
    return Change(lambda x: held[0](x), lambda: held.append(held.pop() and functools.partial(torch.mul, other=3.0)))


@change
def a_captured_dict_with_other_keys():
    held = {Mode.SINE: 2.0, None: 1.0}
    return Change(lambda x: x * held[Mode.SINE] * held[None], lambda: held.update({None: 3.0}))


@change
def the_sizes_of_a_captured_tensor():
    held = [torch.ones(2)]
    return Change(lambda x: x * held[0].shape[0], lambda: held.append(held.pop() is not None and torch.ones(3)))


@change
def a_global_in_a_nested_function():
    def f(x):
        def inner(x):
            return x * SCALE

        return inner(x)

    return Change(f, raise_the_scale)


@change
def a_global_in_a_comprehension():
    return Change(lambda x: sum([y * SCALE for y in [x, x]]), raise_the_scale)


@change
def a_global_in_a_lambda_inside():
    return Change(lambda x: (lambda y: y * SCALE)(x), raise_the_scale)


@change
def a_global_in_the_forward_of_a_module():
    return Change(GlobalReader(), raise_the_scale)


@change
def a_global_in_a_method_of_a_module():
    return Change(MethodReader(), raise_the_scale)


@change
def a_global_in_a_submodule():
    return Change(nn.Sequential(nn.Tanh(), GlobalReader()), raise_the_scale)


@change
def a_global_in_a_callable_object():
    held = GlobalCaller()
    return Change(lambda x: held(x), raise_the_scale)


@change
def a_global_function_of_a_library():
    return Change(lambda x: ACTIVATION(x), lambda: globals().update(ACTIVATION=F.gelu))


@change
def a_global_class():
    return Change(lambda x: KLASS()(x), lambda: globals().update(KLASS=Other))


@change
def an_attribute_of_a_function():
    def f(x):
        return x * helper.scale

    def helper():
        pass

    helper.scale = 2.0
    return Change(f, lambda: setattr(helper, "scale", 3.0))


@change
def an_attribute_of_the_object_of_a_bound_method():
    held = Methods()
    return Change(held.scaled, lambda: setattr(held, "scale", 3.0))


@change
def a_method_that_a_method_calls():
    held = Methods()
    return Change(held.through_another, raise_the_scale)


@change
def an_attribute_of_a_class_that_is_named():
    return Change(lambda x: x * Settings.scale, lambda: setattr(Settings, "scale", 3.0))


@change
def an_attribute_of_the_class_of_a_module():
    return Change(ClassReader(), lambda: setattr(ClassReader, "scale", 3.0))


@change
def a_global_in_a_property_of_a_module():
    return Change(PropertyReader(), raise_the_scale)


@change
def a_global_in_a_static_method_of_a_module():
    return Change(StaticReader(), raise_the_scale)


@change
def a_global_in_a_decorated_function():
    return Change(lambda x: without_gradients(x), raise_the_scale)


@change
def a_global_in_a_decorated_forward():
    return Change(DecoratedReader(), raise_the_scale)


@change
def a_global_in_a_function_that_remembers():
    def f(x):
        remembering.cache_clear()
        return remembering(x.shape[0]) * x

    return Change(f, raise_the_scale)


@torch.no_grad()
def without_gradients(x):
    return x * SCALE


@functools.lru_cache
def remembering(n):
    return n * SCALE


class DecoratedReader(nn.Module):
    @torch.no_grad()
    def forward(self, x):
        return x * SCALE


class StaticReader(nn.Module):
    @staticmethod
    def scaled(x):
        return x * SCALE

    def forward(self, x):
        return self.scaled(x)


@change
def which_of_two_functions_a_list_holds():
    held = []

    def f(x):
        return 0 * (times_two(x) + times_three(x)) + held[0](x)

    held.append(times_two)
    return Change(f, lambda: held.append(held.pop() and times_three))


@change
def which_of_two_closures_of_one_code_a_list_holds():
    def times(scale):
        return lambda x: x * scale

    two, three = times(2.0), times(3.0)
    zheld = [two]  # cells are read by the order of their names
    return Change(lambda x: 0 * (three(x) + two(x)) + zheld[0](x), lambda: zheld.append(zheld.pop() and three))


def times_two(x):
    return x * 2


def times_three(x):
    return x * 3


class Settings:
    scale = 2.0


class ClassReader(nn.Module):
    scale = 2.0

    def forward(self, x):
        return x * self.scale


class PropertyReader(nn.Module):
    @property
    def scale(self):
        return SCALE

    def forward(self, x):
        return x * self.scale


SCALE = 2.0
ACTIVATION = F.relu
KLASS = Plain


def raise_the_scale():
    global SCALE
    SCALE += 1


class GlobalReader(nn.Module):
    def forward(self, x):
        return x * SCALE


class MethodReader(nn.Module):
    def forward(self, x):
        return self.scaled(x)

    def scaled(self, x):
        return x * SCALE


class GlobalCaller:
    def __call__(self, x):
        return x * SCALE


class Methods:
    scale = 2.0

    def __init__(self):
        self.scale = 2.0

    def scaled(self, x):
        return x * self.scale

    def through_another(self, x):
        return self.by_global(x)

    def by_global(self, x):
        return x * SCALE


@pytest.fixture(autouse=True)
def globals_as_they_were():
    before = {name: globals()[name] for name in ("SCALE", "ACTIVATION", "KLASS")}
    yield
    globals().update(before)
    Settings.scale = ClassReader.scale = 2.0


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name):
    torch.manual_seed(0)
    case = CHANGES[name]()
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
