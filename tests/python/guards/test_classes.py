"""What classes give a function besides what its objects hold, changed between two calls: attributes, properties, methods, descriptors."""
import functools
import types

import diptych
import pytest
import torch
from torch import nn

from beside_eager import Cases
from changes import check_value_and_gradient

SCALE = 2.0
# make() gives a function of a tensor and a change of what it computes.
change = Cases()


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


@pytest.mark.parametrize("name", change)
def test_a_change_is_seen(name):
    check_value_and_gradient(*change[name]())


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
