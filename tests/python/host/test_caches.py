"""Caches of functools that a function fills while it is traced: they keep no tensor of the trace."""
import functools

import diptych
import pytest
import torch


def tables_of(cache):
    @cache
    def table(n):
        return torch.ones(n) * 2

    return table


@pytest.mark.parametrize("cache", [functools.cache, functools.lru_cache, functools.lru_cache(maxsize=2)], ids=["cache", "lru_cache", "limited"])
def test_a_cache_of_functools_keeps_no_tensor_of_a_trace(cache):
    table = tables_of(cache)
    compiled = diptych.aot_function(lambda x: x * table(x.shape[0]), dynamic=False)
    kept = table(7)
    for _ in range(3):
        for n in (2, 3, 4):
            torch.testing.assert_close(compiled(torch.ones(n)), torch.full((n,), 2.0))
            torch.testing.assert_close(table(n) + 1, torch.full((n,), 3.0))
    if table.cache_info().maxsize != 2:  # else eager, too, makes them again and again
        assert table(7) is kept
        table(4).add_(1)
        torch.testing.assert_close(compiled(torch.ones(4)), table(4))
        assert compiled.stats().originals == 3 and compiled.stats().hits >= 3


def test_a_cache_of_a_method_and_of_a_result_in_containers():
    class Rotary:
        @functools.lru_cache
        def tables(self, n):
            angles = torch.arange(float(n))
            return {"cos": angles.cos(), "sin": angles.sin()}

        def __call__(self, x):
            tables = self.tables(x.shape[0])
            return x * tables["cos"] + x.flip(0) * tables["sin"]

    rotary, x = Rotary(), torch.arange(4.0)
    compiled = diptych.aot_function(lambda x: rotary(x))
    expected = Rotary()(x)
    for _ in range(4):
        torch.testing.assert_close(compiled(x), expected)
        torch.testing.assert_close(rotary(x), expected)
    assert compiled.stats().originals == 1 and compiled.stats().hits == 2


def test_a_cache_of_numbers_costs_no_graph():
    @functools.cache
    def scale(n):
        return n * 2.0

    compiled = diptych.aot_function(lambda x: x * scale(x.shape[0]))
    for _ in range(3):
        torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 6.0))
    assert compiled.stats().originals == 0


def test_a_cache_after_a_trace_that_failed():
    table = tables_of(functools.cache)

    def f(x):
        return x * table(2) * x.sum().item()

    for _ in range(2):
        with pytest.raises(diptych.UserError):
            diptych.aot_function(f, path_limit=0)(torch.ones(2))
        assert table.cache_info().currsize == 0
    torch.testing.assert_close(f(torch.ones(2)), torch.full((2,), 4.0))


def test_a_pair_leaves_no_tensor_in_a_cache():
    table = tables_of(functools.lru_cache)
    pair = diptych.capture(lambda x: x * table(2), torch.ones(2))
    assert len(pair.forward.inputs) == 1
    torch.testing.assert_close(table(2), torch.full((2,), 2.0))


def test_a_cache_that_is_filled_often_is_no_reason_to_give_up():
    table = tables_of(functools.cache)
    compiled = diptych.aot_function(lambda x: x * table(x.shape[0]), dynamic=False)
    for n in range(2, 22):
        for _ in range(3):
            torch.testing.assert_close(compiled(torch.ones(n)), torch.full((n,), 2.0))
    assert compiled.stats().originals == 20 and compiled.stats().hits == 20
