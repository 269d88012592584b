"""What objects and modules hold that a function reads, changed between two calls: the second must not be served by the capture of the first."""
import collections
import dataclasses
import enum
import functools
import types
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from beside_eager import Cases
from changes import Change, Other, Plain, Reader, check_change


@dataclasses.dataclass
class Options:
    scale: Any = 2.0
    inner: Any = None


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


def scaled_by_options(self, x):
    return x * self.options.scale


# make() gives a Change.
change = Cases()


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


@pytest.mark.parametrize("name", change)
def test_a_change_is_seen(name):
    check_change(change[name]())
