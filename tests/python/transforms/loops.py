"""Loops and their steps, in plain torch too, and the numbers that transforms are given."""
import torch

W = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)
X = torch.linspace(0.1, 2, 12, dtype=torch.float64).reshape(3, 4)
T = torch.linspace(2, 1, 12, dtype=torch.float64).reshape(3, 4)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def plain_loop(step, init, xs):
    ys = []
    for x in xs:
        init, y = step(init, x)
        ys.append(y)
    return init, torch.stack(ys)


def plain_while(condition, step, carry):
    while condition(carry):
        carry = step(carry)
    return carry


def cell(carry, x):
    carry = torch.tanh(carry * x + 0.5)
    return carry, carry * 2
