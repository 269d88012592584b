"""Objects that hold tensors, as arguments that a function changes and as results."""
import copy

import diptych
import pytest
import torch
from beside_eager import Cases
from torch import nn

CALLS = 5


class Box:
    def __init__(self, **held):
        vars(self).update(held)


class Layer:
    def __init__(self):
        self.keys, self.is_ready = None, False

    def update(self, x):
        self.keys = x if not self.is_ready else torch.cat((self.keys, x))
        self.is_ready = True
        return self.keys


class Cache:
    def __init__(self):
        self.layers = []

    def update(self, index, x):
        while len(self.layers) <= index:
            self.layers.append(Layer())
        return self.layers[index].update(x)


CASES = Cases()  # (function of x and an object, maker of the object)


@CASES
def makes_and_returns():
    return (lambda x, box: (Box(y=x * 2, n=3), x.sin())), lambda: None


@CASES
def changes_an_attribute():
    def f(x, box):
        box.h = torch.tanh(box.h + x)
        return box.h * 2

    return f, lambda: Box(h=torch.zeros(3))


@CASES
def changes_and_returns():
    def f(x, box):
        box.h, box.last = box.h + x, x * 2
        return box, {"again": box}, box.h.sum()

    return f, lambda: Box(h=torch.zeros(3))


@CASES
def grows_a_cache():
    def f(x, cache):
        keys = cache.update(0, x[None]) + cache.update(1, x[None] * 2)
        return keys.sum(0) * x, cache

    return f, Cache


@CASES
def nested_and_shared():
    def f(x, box):
        box.a.h = box.b.h * x
        box.list[0] = box.a
        box.dict["new"] = Box(h=x + 1)
        return box.a.h + box.list[0].h

    def make():
        inner = Box(h=torch.ones(3))
        return Box(a=inner, b=inner, list=[None, inner], dict={"x": torch.ones(2)})

    return f, make


@CASES
def keeps_what_it_is_given():
    def f(x, box):
        box.x, box.all = x, [*box.all[-1:], x * 2]
        return box.x * 3

    return f, lambda: Box(all=[])


@CASES
def deletes_an_attribute():
    def f(x, box):
        box.new = x * box.old
        del box.old
        box.old = box.new.detach()
        return box.new

    return f, lambda: Box(old=torch.ones(3))


@CASES
def counts_as_well():
    def f(x, box):
        box.n, box.h = box.n + 1, x * box.n
        return box.h

    return f, lambda: Box(n=0, h=torch.zeros(3))


def told(value, met=None):
    """A tree of what an object holds; an object that comes again is told by its number."""
    met = {} if met is None else met
    if isinstance(value, torch.Tensor):
        return value.detach(), value.requires_grad
    if isinstance(value, (Box, Cache, Layer, list, dict)):
        if id(value) in met:
            return met[id(value)]
        met[id(value)] = len(met)
        held = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else vars(value)
        return [len(met), {str(name): told(part, met) for name, part in held.items()}]
    return [told(part, met) for part in value] if isinstance(value, tuple) else (0 if value is None else value)


def called(function, make, call, differentiates):
    torch.manual_seed(0)
    box, found = make(), []
    for number in range(CALLS):
        x = torch.randn(3, requires_grad=differentiates)
        result = call(x, box)
        if number == 3:
            box = make()  # another object of the kind
        tensors = [part for part in (result if isinstance(result, tuple) else (result,)) if isinstance(part, torch.Tensor)]
        gradient = torch.autograd.grad(sum(tensor.sum() for tensor in tensors), x, retain_graph=True) if differentiates else ()
        found.append((told((result, box)), gradient))
    return found


# Whose results do not all depend on what the object keeps with a history.
APART = ("changes_and_returns", "nested_and_shared", "keeps_what_it_is_given", "deletes_an_attribute")


@pytest.mark.parametrize("differentiates", (True, False))
@pytest.mark.parametrize("name", CASES)
def test_objects(name, differentiates):
    function, make = CASES[name]()
    compiled = diptych.aot_function(function)
    torch.testing.assert_close(called(function, make, compiled, differentiates), called(function, make, function, differentiates))
    stats = compiled.stats()
    assert stats.originals <= 1 or name == "counts_as_well" or differentiates and name in APART, stats


def test_results_are_the_objects_that_were_given():
    function, make = CASES["changes_and_returns"]()
    compiled, box = diptych.aot_function(function), make()
    h = box.h
    for call in range(4):
        result = compiled(torch.ones(3), box)
        assert result[0] is box and result[1]["again"] is box and box.h is not h
        torch.testing.assert_close(box.h, torch.full((3,), call + 1.0))
    assert compiled.stats().hits >= 2


def test_another_object_of_the_class_is_no_other_capture():
    function, make = CASES["grows_a_cache"]()
    compiled = diptych.aot_function(function, dynamic=True)
    for generation in range(3):
        cache, expected = make(), make()
        for _ in range(6):
            x = torch.randn(3)
            torch.testing.assert_close(compiled(x, cache)[0], function(x, expected)[0])
        torch.testing.assert_close([layer.keys for layer in cache.layers], [layer.keys for layer in expected.layers])
        if generation == 1:
            misses = compiled.stats().misses
    assert compiled.stats().misses == misses and compiled.stats().originals <= 1, compiled.stats()


def test_modules_with_a_cache():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.key = nn.Linear(3, 3)

        def forward(self, x, cache=None):
            keys = (cache if cache is not None else Cache()).update(0, self.key(x))
            return x @ keys.t(), cache

    module = Attention()
    compiled = diptych.aot_module(copy.deepcopy(module), eager_fallback=False)
    cache, expected = Cache(), Cache()
    for _ in range(4):
        x = torch.randn(2, 3)
        torch.testing.assert_close(compiled(x, cache=cache)[0], module(x, cache=expected)[0])
        torch.testing.assert_close(compiled(x)[0], module(x)[0])
        torch.testing.assert_close(cache.layers[0].keys, expected.layers[0].keys)


def test_pairs_refuse_an_object_that_holds_a_tensor():
    with pytest.raises(diptych.UserError, match="returned an object that holds a tensor"):
        diptych.capture(lambda x: Box(y=x * 2), torch.ones(3))


def test_an_object_that_the_function_reaches_as_well():
    held = Box(h=torch.zeros(3))

    def f(x, box):
        box.h = box.h + x
        return held.h * 2

    compiled = diptych.aot_function(f)
    for call in range(4):
        torch.testing.assert_close(compiled(torch.ones(3), held), torch.full((3,), call * 2.0 + 2))
    other = Box(h=torch.ones(3))
    for call in range(3):
        torch.testing.assert_close(compiled(torch.ones(3), other), torch.full((3,), 8.0))
        torch.testing.assert_close(other.h, torch.full((3,), call + 2.0))
    torch.testing.assert_close(compiled(torch.ones(3), held), torch.full((3,), 10.0))


def test_an_object_of_a_closure_that_is_returned():
    held = Box(h=torch.zeros(3), other=Box(h=None))

    def f(x):
        held.h = held.h + x
        held.other.h = x * 2
        return x * 3, [held.other.h]

    compiled = diptych.aot_function(lambda x: (f(x), Box(h=x * 2, held=held.other))[1], eager_fallback=True)
    for call in range(4):
        result = compiled(torch.ones(3))
        assert result.held is held.other
        torch.testing.assert_close((held.h, result.h, held.other.h), (torch.full((3,), call + 1.0), torch.full((3,), 2.0), torch.full((3,), 2.0)))


def test_the_same_object_twice():
    def f(x, a, b):
        a.h = x * 2
        return b.h * 3, a is b

    compiled, one, other = diptych.aot_function(f), Box(h=torch.zeros(3)), Box(h=torch.ones(3))
    for first, second in ((one, one), (one, one), (one, other), (one, other), (other, one), (one, one)):
        before = second.h.clone()
        y, are_same = compiled(torch.ones(3), first, second)
        assert are_same == (first is second)
        torch.testing.assert_close(y, (torch.full((3,), 2.0) if are_same else before) * 3)
    assert compiled.stats().hits >= 2


def test_exceptions_and_checked_calls():
    def f(x, box, fails):
        box.h = box.h + x
        if fails:
            raise KeyError("mine")
        return box.h

    for options in {}, {"check": 1}:
        compiled, box, expected = diptych.aot_function(f, **options), Box(h=torch.zeros(3)), Box(h=torch.zeros(3))
        for fails in (False, False, True, False, False):
            for call, given in ((compiled, box), (f, expected)):
                try:
                    call(torch.ones(3), given, fails)
                except KeyError:
                    assert fails
            torch.testing.assert_close(box.h, expected.h)


def test_under_transforms():
    def f(x, box):
        box.h = x * 2
        return box.h.sum()

    compiled, box = diptych.aot_function(f), Box(h=torch.zeros(3))
    for _ in range(3):
        compiled(torch.ones(3), box)
    torch.testing.assert_close(torch.func.grad(lambda x: compiled(x, box))(torch.ones(3)), torch.full((3,), 2.0))
    with torch.no_grad():
        compiled(torch.ones(3), box)
    torch.testing.assert_close(box.h, torch.full((3,), 2.0))
