"""What leads a function to its state by ways of Python's own: bound methods of builtins, views, slots, decorators, modules inside packages."""
import collections
import enum
import functools
import operator
import sys
import types
import typing
import weakref

import diptych
import numpy
import pytest
import torch

from beside_eager import Cases
# make() gives a function of a tensor, and what changes what it reads; it must see the change each time.
change = Cases()


class Holder:
    pass


@change
def a_bound_get():
    d = {"a": 1.0}
    get = d.get
    return lambda x: x * get("a"), lambda n: d.update(a=float(n))


@change
def a_bound_item():
    values = [1.0]
    item = values.__getitem__
    return lambda x: x * item(0), lambda n: values.__setitem__(0, float(n))


@change
def a_bound_method_of_a_number():
    holder = Holder()
    holder.add = (0.0).__add__
    return lambda x: x * holder.add(1.0), lambda n: setattr(holder, "add", float(n).__add__)


@change
def views_of_a_dict():
    d = {"a": 1.0, "b": 2.0}
    values, entries = d.values(), d.items()
    return lambda x: x * (sum(values) + len(entries)), lambda n: d.update({str(n): float(n)})


@change
def keys_of_a_dict():
    d = {1: 1.0, 2: 2.0}
    keys = d.keys()
    return lambda x: x * sum(keys), lambda n: d.update({n + 5: 1.0})


@change
def an_object_by_a_weak_reference():
    held = Holder()
    held.scale = 1.0
    reference, proxy = weakref.ref(held), weakref.proxy(held)
    return lambda x: x * reference().scale + proxy.scale, lambda n, held=held: setattr(held, "scale", float(n))


@change
def an_address_that_comes_again():
    holder, values = Holder(), [2.0, 5.0]

    def replace(n):
        holder.item = None
        holder.item = operator.itemgetter(n % 2)

    replace(0)
    return lambda x: x * holder.item(values), replace


@change
def a_private_slot():
    class Slotted:
        __slots__ = ("__scale",)

        def __init__(self):
            self.__scale = 1.0

        def scale(self):
            return self.__scale

        def set(self, value):
            self.__scale = value

    slotted = Slotted()
    return lambda x: x * slotted.scale(), lambda n: slotted.set(float(n))


@change
def an_object_that_is_met_deeper_first():
    a, b = Holder(), Holder()
    a.b, b.c = b, Holder()
    b.c.value = 1.0
    return lambda x: x * b.c.value * (0.0 if a is None else 1.0), lambda n: setattr(b.c, "value", float(n))


@change
def objects_that_hold_each_other():
    a, b = Holder(), Holder()
    a.b, b.a, a.scale = b, a, 1.0
    return lambda x: x * b.a.scale, lambda n: setattr(a, "scale", float(n))


@change
def an_attribute_of_a_partial():
    partial = functools.partial(max, 1)
    partial.scale = 1.0
    return lambda x: x * partial.scale, lambda n: setattr(partial, "scale", float(n))


@change
def an_attribute_of_a_cached_function():
    @functools.lru_cache
    def one():
        return 1

    one.scale = 1.0
    return lambda x: x * one.scale, lambda n: setattr(one, "scale", float(n))


@change
def an_attribute_under_no_grad():
    @torch.no_grad()
    def times(x):
        return x * times.scale

    times.scale = 1.0
    return lambda x: x + times(x), lambda n: setattr(times, "scale", float(n))


class Kind(enum.Enum):
    ONE = 1


@change
def an_attribute_of_a_member():
    Kind.ONE.scale = 1.0
    return lambda x: x * Kind.ONE.scale, lambda n: setattr(Kind.ONE, "scale", float(n))


def subclass(base, *arguments):
    def make():
        value = type("Own", (base,), {})(*arguments)
        value.scale = 1.0
        return lambda x: x * value.scale, lambda n: setattr(value, "scale", float(n))

    make.__name__ = f"an_attribute_of_a_{base.__name__}"
    return make


class Pair(typing.NamedTuple):
    a: float


for made in (subclass(tuple, [2.0]), subclass(set, [2.0]), subclass(dict), subclass(list), subclass(Pair, 1.0), subclass(collections.deque), subclass(bytearray)):
    change(made)


@change
def an_attribute_of_an_array():
    array = numpy.ones(2).view(type("Array", (numpy.ndarray,), {}))
    array.scale = 1.0
    return lambda x: x * array.scale, lambda n: setattr(array, "scale", float(n))


SCALE = 1.0


def set_scale(n):
    globals()["SCALE"] = float(n)


@change
def a_partial_method():
    class Scaled:
        def times(self, x, by):
            return x * SCALE * by

        twice = functools.partialmethod(times, 2)

    scaled = Scaled()
    return lambda x: scaled.twice(x), set_scale


@change
def a_method_by_type():
    class Scaled:
        @functools.singledispatchmethod
        def times(self, by, x):
            return x

        @times.register
        def _(self, by: int, x):
            return x * SCALE * by

    scaled = Scaled()
    return lambda x: scaled.times(3, x), set_scale


class Called:
    def __init__(self):
        self.scale = 1.0

    def __call__(self, *_):
        return self.scale


@change
def a_property_by_an_object():
    called = Called()
    own = type("Own", (), {"scale": property(called), "other": staticmethod(called)})()
    return lambda x: x * own.scale + own.other(), lambda n: setattr(called, "scale", float(n))


@change
def a_static_method_by_a_partial():
    values = [1.0]
    own = type("Own", (), {"total": staticmethod(functools.partial(sum, values))})()
    return lambda x: x * own.total(), lambda n: values.append(float(n))


@change
def elements_of_a_derived_deque():
    values = type("Own", (collections.deque,), {})([1.0])
    return lambda x: x * values[-1], lambda n: values.append(float(n))


@change
def a_module_inside_a_package():
    package, sub = types.ModuleType("own_package"), types.ModuleType("own_package.sub")
    package.sub, sub.package, sub.SCALE = sub, package, 1.0
    sys.modules.update({"own_package": package, "own_package.sub": sub})

    def f(x):
        import own_package.sub

        return x * own_package.sub.SCALE

    return f, lambda n: setattr(sub, "SCALE", float(n))


@change
def what_the_rules_of_a_gradient_read():
    scale = [1.0]
    rules = diptych.custom_vjp(lambda x: x * 2, lambda x: (x * 2, x), lambda x, tangent: (tangent * scale[0],))
    return lambda x: rules(x) + rules(x) * scale[0], lambda n: scale.__setitem__(0, float(n))


def with_gradient(call, x):
    leaf = x.clone().requires_grad_()
    y = call(leaf)
    return [y.detach(), *torch.autograd.grad(y.sum(), leaf, allow_unused=True)]


@pytest.mark.parametrize("name", change)
def test_a_change_is_seen(name):
    function, make_change = change[name]()
    compiled, x = diptych.aot_function(function), torch.ones(2)
    for n in (0, 1, 1, 2, 3, 2):
        if n:
            make_change(n)
        torch.testing.assert_close(with_gradient(compiled, x), with_gradient(function, x), rtol=0, atol=0)
    assert compiled.stats().originals == 0


@pytest.mark.parametrize("name", change)
def test_what_stays_is_captured_once(name):
    function, _change = change[name]()  # which may hold what the function reads
    compiled = diptych.aot_function(function)
    for _ in range(3):
        compiled(torch.ones(2))
    assert compiled.stats().misses == 1 and compiled.stats().hits == 2


def test_rules_of_a_gradient_alone():
    scale = [1.0]
    compiled = diptych.aot_function(diptych.custom_vjp(lambda x: x * 2, lambda x: (x * 2, None), lambda _, tangent: (tangent * scale[0],)))
    for scale[0] in (1.0, 2.0, 3.0, 3.0):
        torch.testing.assert_close(with_gradient(compiled, torch.ones(2))[1], torch.full((2,), scale[0]))
    assert compiled.stats().hits == 1


def test_a_logger_costs_no_more_than_before():
    import logging

    logger = logging.getLogger("test_builtins")

    def f(x):
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("called")
        return x * 2

    compiled = diptych.aot_function(f)
    for _ in range(3):
        compiled(torch.ones(2))
    assert compiled.stats().hits == 2
