"""Functions that make objects which hold tensors: their first call is captured, too, with the objects taken apart."""
import os
import random
import threading

import diptych
import pytest
import torch


class Box:
    def __init__(self, **held):
        vars(self).update(held)


def other_class(number):
    return type(f"Other{number}", (), {"__init__": lambda self, y: setattr(self, "y", y)})


def test_the_first_call_is_captured():
    compiled = diptych.aot_function(lambda x: Box(y=x * 2, inner=Box(z=x.sin())))
    for call in range(3):
        x = torch.randn(3, requires_grad=True)
        result = compiled(x)
        (gradient,) = torch.autograd.grad(result.y.sum() + result.inner.z.sum(), x)
        torch.testing.assert_close(gradient, 2 + x.cos())
        stats = compiled.stats()
        assert (stats.originals, stats.misses, stats.hits, stats.entries) == (0, 1, call, 1)


def test_classes_that_are_met_one_after_another():
    kinds = [other_class(number) for number in range(12)]
    compiled = diptych.aot_function(lambda x: kinds[len(x) % 12](x * 2))
    for call in range(30):
        x = torch.randn(call % 12 + 1)
        result = compiled(x)
        assert type(result) is kinds[len(x) % 12]
        torch.testing.assert_close(result.y, x * 2)


def test_what_the_first_trace_has_done_is_undone():
    seen, numbers = [], []

    def f(x, given):
        numbers.append(random.random())
        given.append(x + 1)
        x.mul_(2)
        return Box(y=x * torch.rand(()), number=len(numbers))

    def run(call):
        random.seed(3)
        torch.manual_seed(3)
        numbers.clear()
        for _ in range(3):
            x, given = torch.ones(2), []
            result = call(x, given)
            seen.append([result.y, result.number, x, given, *numbers, random.random(), torch.rand(1)])
        return seen[-3:]

    assert str(run(diptych.aot_function(f))) == str(run(f))


def test_a_first_trace_that_cannot_be_undone():
    def f(x):
        os.environ["DIPTYCH_TEST_BOX"] = "1"
        return Box(y=x * 2)

    try:
        with pytest.raises(diptych.UserError, match="the function returned an object that holds a tensor"):
            diptych.aot_function(f)(torch.ones(2))
    finally:
        os.environ.pop("DIPTYCH_TEST_BOX", None)


def test_inside_another_compiled_function():
    inner = diptych.aot_function(lambda x: Box(y=x * 2))
    compiled = diptych.aot_function(lambda x: inner(x).y + inner(x * 2).y)
    for call in range(2):
        torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 6.0))
    returns = diptych.aot_function(lambda x: inner(x))
    for call in range(3):
        torch.testing.assert_close(returns(torch.ones(2)).y, torch.full((2,), 2.0))


def test_first_calls_of_several_threads():
    compiled = diptych.aot_function(lambda x: Box(y=x * 2))
    results, barrier = [], threading.Barrier(6)

    def work(number):
        barrier.wait()
        results.extend((number, compiled(torch.full((2,), float(number))).y) for _ in range(20))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 120
    for number, result in results:
        torch.testing.assert_close(result, torch.full((2,), 2.0 * number))


def test_a_cache_whose_sizes_stay_static_is_captured_at_each():
    """Each miss is traced at several sizes, which does not make its captures useless."""

    def f(x, box):
        box.rows = [*torch.stack([*box.rows, x])]
        return torch.stack(box.rows).sum(0)

    compiled, box = diptych.aot_function(f, dynamic=True), Box(rows=[])
    for call in range(12):
        torch.testing.assert_close(compiled(torch.ones(2), box), torch.full((2,), call + 1.0))
    assert compiled.stats().originals <= 1
