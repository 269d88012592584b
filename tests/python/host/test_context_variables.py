"""Context variables: what a function sets before it reads them is its own affair."""
from contextvars import ContextVar

import diptych
import pytest
import torch

VARIABLE = ContextVar("variable", default=None)
X = torch.arange(3.0)


def sets_and_resets(x):
    token = VARIABLE.set([])
    try:
        VARIABLE.get().append(x * 2)
        return VARIABLE.get()[0] + len(VARIABLE.get())
    finally:
        VARIABLE.reset(token)


def reads_first(x):
    return x * (VARIABLE.get() or 1)


def leaves_it_set(x):
    VARIABLE.set((VARIABLE.get() or 0) + 1) if VARIABLE.get() is not None else VARIABLE.set(1)
    return x * 2


def reads_after_it_has_reset(x):
    VARIABLE.reset(VARIABLE.set(3))
    return x * (VARIABLE.get() or 1)


def only_sets(x):
    VARIABLE.set(7)
    return x * 3


@pytest.fixture(autouse=True)
def unset():
    token = VARIABLE.set(None)
    yield
    VARIABLE.reset(token)


def test_one_that_is_set_and_reset_is_captured():
    compiled = diptych.aot_function(sets_and_resets)
    for outside in (None, 5, None):
        VARIABLE.set(outside)
        torch.testing.assert_close(compiled(X), sets_and_resets(X))
        assert VARIABLE.get() == outside
    assert (compiled.stats().hits, compiled.stats().originals) == (2, 0)


@pytest.mark.parametrize("function", [reads_first, reads_after_it_has_reset])
def test_one_that_is_read_from_outside_is_read_at_each_call(function):
    compiled = diptych.aot_function(function)
    for outside in (None, 5, 2):
        VARIABLE.set(outside)
        torch.testing.assert_close(compiled(X), function(X))


@pytest.mark.parametrize("function", [leaves_it_set, only_sets])
def test_one_that_is_left_set_is_set_at_each_call(function):
    compiled = diptych.aot_function(function)
    found = []
    for call in (function, compiled):
        VARIABLE.set(None)
        seen = []
        for _ in range(3):
            call(X)
            seen.append(VARIABLE.get())
            VARIABLE.set(seen[-1] if function is leaves_it_set else None)
        found.append(seen)
    assert found[0] == found[1] and compiled.stats().originals == 3
