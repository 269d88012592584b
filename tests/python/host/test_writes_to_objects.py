"""Arguments, iterators, large and deep objects that a function writes to, and what a trace that failed has written."""
import dataclasses
import itertools

import diptych
import pytest
import torch
from host_cases import agrees_with_eager


def test_a_list_argument_is_added_to():
    def f(x, log):
        log.append(x.shape[0])
        return x * len(log)

    compiled, x = diptych.aot_function(f), torch.ones(3)
    log, expected = [], []
    for _ in range(3):
        torch.testing.assert_close(compiled(x, log), f(x, expected))
        assert log == expected


def test_a_generator_as_an_argument():
    def scales():
        yield from (1.0, 2.0, 3.0)

    compiled, given = diptych.aot_function(lambda x, scales: x * next(scales)), scales()
    for scale in (1.0, 2.0, 3.0):
        torch.testing.assert_close(compiled(torch.ones(2), given), torch.full((2,), scale))


def test_dict_and_dataclass_arguments_are_changed():
    @dataclasses.dataclass
    class Batch:
        x: torch.Tensor
        calls: int = 0

    def f(batch, d):
        batch.calls += 1
        d["y"] = batch.x * 2
        return d["y"] * batch.calls

    compiled, batch, d = diptych.aot_function(f), Batch(torch.ones(3)), {}
    for call in range(1, 4):
        torch.testing.assert_close(compiled(batch, d), torch.full((3,), 2.0 * call))
        assert batch.calls == call
        torch.testing.assert_close(d["y"], torch.full((3,), 2.0))


def test_what_the_trace_wrote_is_taken_back():
    results = []

    def f(x):
        results.append(x * 2)
        return x.sum().item() * x

    compiled = diptych.aot_function(f, path_limit=0)
    with pytest.raises(diptych.UserError):
        compiled(torch.ones(3))
    assert results == []


def test_an_iterator_that_cannot_be_put_back():
    values, kept = iter([1.0, 2.0]), []

    def f(x):
        kept.append(x * next(values))
        return kept[-1]

    with pytest.raises(diptych.UserError, match=r"\[capture\] the function .*takes from.*can't be undone"):
        diptych.aot_function(f)(torch.ones(3))


class Link:
    def __init__(self, inside=None):
        self.inside, self.count = inside, 0


def in_the_middle_of_much():
    values = [0] * 50_000

    def f(x):
        values[20_000] += 1
        return x * 2

    return f, lambda: values[20_000]


def in_a_large_dict():
    counts = dict.fromkeys(range(50_000), 0)

    def f(x):
        counts[7] += 1
        return x * counts[7]

    return f, lambda: counts[7]


def counts_inside(links, result):
    innermost = link = Link()
    for _ in range(links):
        link = Link(link)

    def f(x):
        at = link
        while at.inside is not None:
            at = at.inside
        at.count += 1
        return result(x, at)

    return f, lambda: innermost.count


def far_inside():
    return counts_inside(12, lambda x, at: x * 2)


def further_than_is_looked_at():
    return counts_inside(60, lambda x, at: x * at.count)


@pytest.mark.parametrize("make", [in_the_middle_of_much, in_a_large_dict, far_inside])
def test_writes_to_large_and_deep_objects(make):
    assert agrees_with_eager(make).originals == 4


def test_what_is_too_deep_to_be_watched_runs_itself():
    function, look = further_than_is_looked_at()
    compiled = diptych.aot_function(function)
    compiled(torch.ones(2))
    before = look()
    for call in range(1, 4):
        torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), float(before + call)))
    assert look() == before + 3 and compiled.stats().originals == 4
    assert "leads to more than is looked at" in compiled.stats().last_original


def bound_append():
    log = []
    append = log.append
    return lambda x: (append(1), x * 2)[1], lambda: len(log)


def bound_add():
    seen = set()
    add = seen.add
    return lambda x: (add(len(seen)), x * 2)[1], lambda: len(seen)


def bound_next():
    following = itertools.count(1).__next__
    return lambda x: x * following(), lambda: 0


def private_slot():
    class Counter:
        __slots__ = ("__count",)

        def __init__(self):
            self.__count = 0

        def __call__(self):
            self.__count += 1
            return self.__count

    counter = Counter()
    return lambda x: x * counter(), lambda: 0


def under_no_grad():
    counts = [0]

    @torch.no_grad()
    def count():
        counts[0] += 1

    return lambda x: (count(), x * 2)[1], lambda: counts[0]


@pytest.mark.parametrize("make", [bound_append, bound_add, bound_next, private_slot, under_no_grad])
def test_what_is_written_is_written_at_each_call(make):
    (function, look), (own, look_at_own) = make(), make()
    compiled = diptych.aot_function(own)
    for _ in range(4):
        torch.testing.assert_close(compiled(torch.ones(2)), function(torch.ones(2)))
        assert look() == look_at_own()
    assert compiled.stats().originals >= 3
