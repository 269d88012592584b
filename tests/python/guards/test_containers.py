"""What containers, modules, defaults and threads give a function, changed between two calls."""
import collections
import functools
import threading
import types

import diptych
import numpy
import pytest
import torch

from beside_eager import Cases
from changes import check_value_and_gradient

SCALE = 2.0
# make() gives a function of a tensor and a change of what it computes.
change = Cases()


def raise_the_scale():
    global SCALE
    SCALE += 1


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


@pytest.mark.parametrize("name", change)
def test_a_change_is_seen(name):
    check_value_and_gradient(*change[name]())


def test_an_array_as_an_argument():
    compiled, x, array = diptych.aot_function(lambda x, array: x * float(array[0])), torch.ones(2), numpy.array([2.0])
    torch.testing.assert_close(compiled(x, array), x * 2)
    array[0] = 3.0
    torch.testing.assert_close(compiled(x, array), x * 3)
