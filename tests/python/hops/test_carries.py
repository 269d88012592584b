"""Carries of loops: numbers that become tensors, and containers that stay what they were."""
import collections
import dataclasses

import diptych
import pytest
import torch
from beside_eager import loop

TABLE = torch.arange(12.0).reshape(4, 3)
Counted = collections.namedtuple("Counted", "i x")


@dataclasses.dataclass(frozen=True)
class Kept:
    i: int
    x: tuple
    n: int


SCANS_OF_NUMBERS = {  # name: a body, its first carry and the dtype of the last one
    "an int": (lambda c, x: (c + 1, x * c), 0, torch.int64),
    "a float": (lambda c, x: (c * 0.5, x * c), 1.0, torch.float64),
    "a bool": (lambda c, x: (c ^ True, x * c), False, torch.bool),
    "an int that becomes a float": (lambda c, x: (c + 0.5, x * c), 1, torch.float64),
    "a sum of tensors": (lambda c, x: (c + x.sum(), x * c), 0, torch.float32),
    "the index of a table": (lambda c, x: (c + 1, x * TABLE[c]), 0, torch.int64),
}


@pytest.mark.parametrize("name", SCANS_OF_NUMBERS)
def test_a_number_of_a_carry_that_changes_is_a_tensor(name):
    step, init, dtype = SCANS_OF_NUMBERS[name]
    xs = torch.randn(3, 3).requires_grad_()
    expected, ys = loop(step, init, xs)
    for scan in (diptych.scan, diptych.aot_function(diptych.scan)):
        last, stacked = scan(step, init, xs)
        assert last.dtype == dtype and last.dim() == 0
        torch.testing.assert_close(last, torch.as_tensor(expected, dtype=dtype))
        torch.testing.assert_close(stacked, ys)
        torch.testing.assert_close(torch.autograd.grad(stacked.square().sum(), xs), torch.autograd.grad(ys.square().sum(), xs, retain_graph=True))


def test_a_number_of_a_carry_that_stays_is_that_number():
    def step(carry, x):
        return {"i": carry["i"] + 1, "n": carry["n"]}, x.reshape(carry["n"], 1) * carry["i"]

    last, _ = diptych.scan(step, {"n": 3, "i": 0}, torch.ones(2, 3))
    assert last["i"].equal(torch.tensor(2)) and type(last["n"]) is int and last["n"] == 3
    last = diptych.while_loop(lambda c: c[0] < c[1], lambda c: (c[0] + 1, c[1], c[2] * 2), (0, 3, torch.ones(2)))
    assert last[0].equal(torch.tensor(3)) and last[1] == 3
    torch.testing.assert_close(last[2], torch.full((2,), 8.0))
    with pytest.raises(diptych.UserError, match=r"\[scan\] .*return the same structure, and tensors for numbers that change"):
        diptych.scan(lambda c, x: (c + x, c), 0.0, torch.ones(2, 3))  # of other sizes
    with pytest.raises(diptych.UserError, match="tensors for numbers that change"):
        diptych.scan(lambda c, x: (c + 1, x), 2**70, torch.ones(2, 3))


def test_a_carry_keeps_the_containers_that_it_began_with():
    x = torch.ones(3)
    last, _ = diptych.scan(lambda c, y: ([c[0] + y.sum(), (c[1][0] * 2,)], y), (x.sum(), [x]), torch.ones(2, 3))
    assert type(last) is tuple and type(last[1]) is list and last[1][0].equal(x * 4)
    last = diptych.aot_function(lambda x: diptych.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, {"x": c[1]["x"] * 2}), [0, {"x": x}]))(x)
    assert type(last) is list and last[1]["x"].equal(x * 8)
    last = diptych.while_loop(lambda c: c.i < 3, lambda c: (c.i + 1, c.x * 2), Counted(0, x))
    assert type(last) is Counted and last.i.equal(torch.tensor(3)) and last.x.equal(x * 8)
    last = diptych.while_loop(lambda c: c.i < 3, lambda c: Kept(c.i + 1, [c.x[0] * 2], c.n), Kept(0, (x,), 7))
    assert type(last) is Kept and last.i.equal(torch.tensor(3)) and last.n == 7 and type(last.x) is tuple and last.x[0].equal(x * 8)
    sums = diptych.associative_scan(lambda a, b: [a[0] + b[0], a[1] * b[1]], (torch.ones(3), torch.full((3,), 2.0)))
    assert type(sums) is tuple and sums[1].equal(torch.tensor([2.0, 4.0, 8.0]))
