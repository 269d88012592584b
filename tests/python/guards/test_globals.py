"""Globals, functions and classes that a function reads, changed between two calls: the second must not be served by the capture of the first."""
import functools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from beside_eager import Cases
from changes import Change, Other, Plain, check_change

# make() gives a Change.
change = Cases()


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


@pytest.mark.parametrize("name", change)
def test_a_change_is_seen(name):
    check_change(change[name]())
