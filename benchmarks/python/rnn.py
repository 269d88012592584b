"""The recurrent network of the scan suite in torch: h' = tanh(x W + h U + b), a loop; cpp/rnn.h holds the same."""

import torch

LENGTHS = (16, 64, 256, 1024, 4096)
BATCH, HIDDEN = 32, 256


def state_bytes(length):
    """Returns the bytes of the states of all steps, the least that a backward needs."""
    return length * BATCH * HIDDEN * 4


def params(length):
    """Returns W, U, b, the first state and x; a gradient is wanted for each."""
    weight = lambda: torch.randn(HIDDEN, HIDDEN) * (0.8 / HIDDEN**0.5)  # noqa: E731
    values = [weight(), weight(), torch.zeros(HIDDEN), torch.randn(BATCH, HIDDEN)]
    values.append(torch.randn(length, BATCH, HIDDEN) * 0.5)
    return [value.requires_grad_() for value in values]


def loss(params):
    """Returns the sum of all states."""
    w, u, b, h, xs = params
    states = []
    for x in xs.unbind(0):
        h = torch.tanh(x @ w + h @ u + b)
        states.append(h)
    return torch.stack(states).sum()
