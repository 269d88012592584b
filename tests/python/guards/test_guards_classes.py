"""What classes, modules and containers give a function besides what its objects hold, changed between two calls."""
import collections
import functools
import threading
import types

import diptych
import numpy
import pytest
import torch
from torch import nn

CHANGES = {}
SCALE = 2.0


def change(make):
    """make() gives a function of a tensor and a change of what it computes."""
    CHANGES[make.__name__] = make
    return make


def raise_the_scale():
    global SCALE
    SCALE += 1


def class_with(**members):
    return type("Made", (), {"own": 1.0, **members})


@change
def an_attribute_of_a_class_through_an_object():
    kind = class_with(scale=2.0)
    held = kind()
    return lambda x: x * held.scale, lambda: setattr(kind, "scale", 3.0)


@change
def an_attribute_of_a_base():
    base = class_with(scale=2.0)
    held = type("Derived", (base,), {})()
    return lambda x: x * held.scale, lambda: setattr(base, "scale", 3.0)


@change
def an_attribute_of_a_base_of_a_named_class():
    base = class_with(scale=2.0)
    derived = type("Derived", (base,), {})
    return lambda x: x * derived.scale, lambda: setattr(base, "scale", 3.0)


@change
def an_attribute_of_a_metaclass():
    meta = type("Meta", (type,), {"scale": 2.0})
    kind = meta("Made", (), {})
    return lambda x: x * kind.scale, lambda: setattr(meta, "scale", 3.0)


@change
def an_attribute_by_name():
    kind = class_with(scale=2.0)
    held = kind()
    return lambda x: x * getattr(held, "scale"), lambda: setattr(kind, "scale", 3.0)  # noqa: B009


@change
def a_property_that_is_replaced():
    kind = class_with(scale=property(lambda self: 2.0))
    held = kind()
    return lambda x: x * held.scale, lambda: setattr(kind, "scale", property(lambda self: 3.0))


@change
def a_global_in_a_property():
    held = class_with(scale=property(lambda self: SCALE))()
    return lambda x: x * held.scale, raise_the_scale


@change
def a_method_that_is_replaced():
    kind = class_with(scaled=lambda self, x: x * 2)
    held = kind()
    return lambda x: held.scaled(x), lambda: setattr(kind, "scaled", lambda self, x: x * 3)


@change
def a_method_of_a_module_that_is_replaced():
    class Net(nn.Module):
        def scaled(self, x):
            return x * 2

        def forward(self, x):
            return self.scaled(x)

    return Net(), lambda: setattr(Net, "scaled", lambda self, x: x * 3)


@change
def a_method_that_is_replaced_in_an_object():
    held = class_with(scaled=lambda self, x: x * 2)()
    return lambda x: held.scaled(x), lambda: setattr(held, "scaled", lambda x: x * 3)


@change
def a_global_in_a_method():
    held = class_with(scaled=lambda self, x: x * SCALE)()
    return lambda x: held.scaled(x), raise_the_scale


@change
def a_global_in_a_static_method_of_a_named_class():
    kind = class_with(scaled=staticmethod(lambda x: x * SCALE))
    return lambda x: kind.scaled(x), raise_the_scale


@change
def a_global_in_a_class_method():
    kind = class_with(scaled=classmethod(lambda cls, x: x * SCALE))
    return lambda x: kind.scaled(x), raise_the_scale


@change
def a_global_in_an_operator():
    held = class_with(__rmul__=lambda self, x: x.mul(SCALE))()
    return lambda x: held.__rmul__(x), raise_the_scale


@change
def a_global_in_a_subscript():
    held = class_with(__getitem__=lambda self, key: SCALE)()
    return lambda x: x * held["scale"], raise_the_scale


@change
def a_global_in_getattr():
    held = class_with(__getattr__=lambda self, name: SCALE)()
    return lambda x: x * held.scale, raise_the_scale


@change
def a_global_in_a_descriptor():
    class Descriptor:
        def __get__(self, instance, owner=None):
            return SCALE

    held = class_with(scale=Descriptor())()
    return lambda x: x * held.scale, raise_the_scale


@change
def what_a_descriptor_holds():
    class Descriptor:
        value = 2.0

        def __get__(self, instance, owner=None):
            return self.value

    descriptor = Descriptor()
    held = class_with(scale=descriptor)()
    return lambda x: x * held.scale, lambda: setattr(descriptor, "value", 3.0)


@change
def a_cached_property_that_is_computed_anew():
    held = class_with()()
    prop = functools.cached_property(lambda self: SCALE)
    prop.__set_name__(type(held), "scale")
    type(held).scale = prop

    def f(x):
        held.__dict__.pop("scale", None)
        return x * held.scale

    held.scale  # noqa: B018  # the call leaves it as it was
    return f, lambda: (raise_the_scale(), held.__dict__.pop("scale"), held.scale)


@change
def a_method_of_a_base_that_super_finds():
    class Base:
        def scaled(self, x):
            return x * 2

    class Derived(Base):
        def scaled(self, x):
            return super().scaled(x) + 1

    held = Derived()
    return lambda x: held.scaled(x), lambda: setattr(Base, "scaled", lambda self, x: x * 3)


@change
def a_global_in_the_operator_of_a_base():
    class Base:
        def __call__(self, x):
            return x * SCALE

    class Derived(Base):
        def __call__(self, x):
            return super().__call__(x) + 1

    held = Derived()
    return lambda x: held(x), raise_the_scale


@change
def what_a_function_by_types_reads():
    held = [2.0]

    @functools.singledispatch
    def scaled(x):
        raise TypeError

    @scaled.register
    def _(x: torch.Tensor):
        return x * held[0]

    return lambda x: scaled(x), lambda: held.__setitem__(0, 3.0)


@change
def a_class_attribute_of_an_object_further_inside():
    kind = class_with(scale=2.0)
    held = types.SimpleNamespace(a=types.SimpleNamespace(b=kind()))
    return lambda x: x * held.a.b.scale, lambda: setattr(kind, "scale", 3.0)


@change
def the_class_of_an_object():
    two, three = class_with(scale=2.0), class_with(scale=3.0)
    held = two()
    return lambda x: x * held.scale, lambda: setattr(held, "__class__", three)


@change
def what_a_class_makes():
    class Scaler:
        def __init__(self):
            self.scale = SCALE

    return lambda x: x * Scaler().scale, raise_the_scale


@change
def a_property_of_a_named_tuple():
    class Pair(collections.namedtuple("Pair", "a b")):
        @property
        def total(self):
            return self.a * SCALE

    held = [Pair(1.0, 2.0)]
    return lambda x: x * held[0].total, raise_the_scale


@change
def the_order_of_an_ordered_dict():
    held = collections.OrderedDict(a=2.0, b=3.0)
    return lambda x: x * next(iter(held.values())), lambda: held.move_to_end("a")


@change
def the_order_of_a_dict():
    held = {"a": 2.0, "b": 3.0}
    return lambda x: x * next(iter(held.values())), lambda: held.update(a=held.pop("a"))


@change
def an_attribute_of_a_dict_of_ones_own():
    class Config(dict):
        pass

    held = Config()
    held.scale = 2.0
    return lambda x: x * held.scale, lambda: setattr(held, "scale", 3.0)


@change
def an_element_of_a_list_of_ones_own():
    class Values(list):
        pass

    held = Values([2.0])
    return lambda x: x * held[0], lambda: held.__setitem__(0, 3.0)


@change
def an_element_of_a_user_list():
    held = collections.UserList([2.0])
    return lambda x: x * held[0], lambda: held.__setitem__(0, 3.0)


@change
def a_read_only_view_of_a_dict():
    inside = {"scale": 2.0}
    held = types.MappingProxyType(inside)
    return lambda x: x * held["scale"], lambda: inside.update(scale=3.0)


@change
def an_element_of_an_array():
    held = numpy.array([1.0, 2.0])
    return lambda x: x * float(held[1]), lambda: held.__setitem__(1, 3.0)


@change
def an_element_of_a_strided_array():
    array = numpy.arange(10.0)
    held = array[::3]
    return lambda x: x * float(held[1]), lambda: array.__setitem__(3, 7.0)


@change
def an_element_of_an_array_of_objects():
    held = numpy.array([1.0, "a"], dtype=object)
    return lambda x: x * held[0], lambda: held.__setitem__(0, 3.0)


@change
def a_byte():
    held = bytearray(b"abc")
    return lambda x: x * held[0], lambda: held.__setitem__(0, 3)


@change
def a_complex_number():
    held = [1j]
    return lambda x: x * held[0], lambda: held.__setitem__(0, 2j)


@change
def what_a_thread_keeps():
    held = threading.local()
    held.scale = 2.0
    return lambda x: x * held.scale, lambda: setattr(held, "scale", 3.0)


@change
def a_variable_of_a_module():
    settings = types.ModuleType("settings")
    settings.scale = 2.0
    globals()["SETTINGS"] = settings
    return lambda x: x * SETTINGS.scale, lambda: setattr(settings, "scale", 3.0)  # noqa: F821


@change
def a_function_of_a_module():
    library = types.ModuleType("library")
    exec("scale = 2.0\ndef scaled(x):\n    return x * scale\n", vars(library))  # noqa: S102
    globals()["LIBRARY"] = library
    return lambda x: LIBRARY.scaled(x), lambda: setattr(library, "scale", 3.0)  # noqa: F821


def doubled(x):
    return x * 2


@change
def a_global_function_that_is_replaced():
    globals()["HELPER"] = doubled
    return lambda x: HELPER(x), lambda: globals().update(HELPER=lambda x: x * 3)  # noqa: F821


@change
def a_default():
    def helper(x, scale=2.0):
        return x * scale

    return lambda x: helper(x), lambda: setattr(helper, "__defaults__", (3.0,))


@change
def a_keyword_default():
    def helper(x, *, scale=2.0):
        return x * scale

    return lambda x: helper(x), lambda: setattr(helper, "__kwdefaults__", {"scale": 3.0})


@change
def the_code_of_a_function():
    def helper(x):
        return x * 2

    return lambda x: helper(x), lambda: setattr(helper, "__code__", (lambda x: x * 3).__code__)


@change
def what_a_partial_of_a_partial_holds():
    scales = [2.0]
    held = functools.partial(functools.partial(lambda scales, x: x * scales[0], scales))
    return held, lambda: scales.__setitem__(0, 3.0)


@change
def a_number_deep_in_containers():
    held = {"a": [({"b": [2.0]},)]}
    return lambda x: x * held["a"][0][0]["b"][0], lambda: held["a"][0][0]["b"].__setitem__(0, 3.0)


def autograd_function(forward_scale, backward_scale):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * forward_scale()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * backward_scale()

    return Scale


@change
def a_global_in_the_forward_of_a_custom_function():
    scale = autograd_function(lambda: SCALE, lambda: 1.0)
    return lambda x: scale.apply(x), raise_the_scale


@change
def a_global_in_the_backward_of_a_custom_function():
    scale = autograd_function(lambda: 1.0, lambda: SCALE)
    return lambda x: scale.apply(x), raise_the_scale


@change
def a_global_in_a_custom_function_by_its_apply():
    apply = autograd_function(lambda: SCALE, lambda: SCALE).apply
    return lambda x: apply(x), raise_the_scale


@change
def a_list_that_a_custom_function_reads():
    held = [2.0]
    scale = autograd_function(lambda: held[0], lambda: held[0])
    return lambda x: scale.apply(x), lambda: held.__setitem__(0, 3.0)


@change
def a_custom_function_with_a_context_of_its_own():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.scale = SCALE

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.scale

    return lambda x: Scale.apply(x), raise_the_scale


@change
def a_custom_function_in_a_module():
    scale = autograd_function(lambda: SCALE, lambda: SCALE)

    class Net(nn.Module):
        def forward(self, x):
            return scale.apply(x)

    return Net(), raise_the_scale


@change
def the_backward_of_a_custom_function_that_is_replaced():
    scale = autograd_function(lambda: 1.0, lambda: 1.0)
    return lambda x: scale.apply(x), lambda: setattr(scale, "backward", staticmethod(lambda ctx, gradient: gradient * 3))


@change
def a_class_attribute_of_a_custom_function():
    class Scale(torch.autograd.Function):
        scale = 2.0

        @staticmethod
        def forward(ctx, x):
            return x * Scale.scale

        @staticmethod
        def backward(ctx, gradient):
            return gradient * Scale.scale

    return lambda x: Scale.apply(x), lambda: setattr(Scale, "scale", 3.0)


@pytest.fixture(autouse=True)
def the_scale_as_it_was():
    global SCALE
    SCALE = 2.0
    yield
    SCALE = 2.0


def value_and_gradient(function, x):
    leaf = x.clone().requires_grad_()
    y = function(leaf)
    (gradient,) = torch.autograd.grad(y.abs().sum(), leaf)
    return y.detach(), gradient


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name):
    function, alter = CHANGES[name]()
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


def test_a_class_that_is_put_back_is_known_again():
    kind = class_with(scale=2.0)
    held = kind()
    compiled, x = diptych.aot_function(lambda x: x * held.scale), torch.ones(2)
    for scale in (2.0, 3.0, 2.0, 3.0):
        kind.scale = scale
        torch.testing.assert_close(compiled(x), x * scale)
    assert compiled.stats().misses == 2


def test_what_no_code_names_does_not_count():
    kind = class_with(scale=2.0, calls=0)
    held = kind()
    compiled, x = diptych.aot_function(lambda x: x * held.scale), torch.ones(2)
    for _ in range(3):
        compiled(x)
        kind.calls += 1
    assert compiled.stats().misses == 1, compiled.stats().last_miss


def test_arguments_with_classes_that_change():
    class Config(dict):
        scale = 2.0

        @property
        def twice(self):
            return self.scale * 2

    compiled, x = diptych.aot_function(lambda x, c: x * c.scale * c.twice), torch.ones(2)
    config = Config(a=1)
    torch.testing.assert_close(compiled(x, config), x * 8)
    Config.scale = 3.0
    torch.testing.assert_close(compiled(x, config), x * 18)


def test_an_array_as_an_argument():
    compiled, x, array = diptych.aot_function(lambda x, array: x * float(array[0])), torch.ones(2), numpy.array([2.0])
    torch.testing.assert_close(compiled(x, array), x * 2)
    array[0] = 3.0
    torch.testing.assert_close(compiled(x, array), x * 3)
