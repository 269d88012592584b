"""Captured backwards beside eager, and a Function with any number of results."""
import diptych
import torch
from torch import autograd

backend = diptych.default_backend()  # what runs captured passes: see conftest.py


def capture():
    return diptych.backward_capture.capture(backend)


def same(found, expected):
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            same(one, other)
    elif isinstance(expected, torch.Tensor):
        assert found.layout == expected.layout and found.shape == expected.shape and found.dtype == expected.dtype
        torch.testing.assert_close(found.to_dense(), expected.to_dense())
    else:
        assert found == expected


def beside_eager(look, passes=3):
    """look() in eager, and several times with passes captured; returns the statistics of the latter."""
    expected = look()
    with capture() as captured:
        for _ in range(passes):
            same(look(), expected)
    return captured.stats()


class Fan(autograd.Function):
    """As many results as it is told."""

    @staticmethod
    def forward(ctx, x, count, *flags):
        ctx.count = count
        ctx.set_materialize_grads("undefined" not in flags)
        results = tuple(x * (i + 1) for i in range(count))
        if "dead" in flags and count > 1:
            ctx.mark_non_differentiable(results[-1])
        ctx.save_for_backward(*(x for _ in range(count)))
        return results if "tuple" in flags or count > 1 else results[0]

    @staticmethod
    def backward(ctx, *gradients):
        assert len(gradients) == ctx.count == len(ctx.saved_tensors)
        total = None
        for i, gradient in enumerate(gradients):
            if gradient is not None:
                total = gradient * (i + 1) if total is None else total + gradient * (i + 1)
        return (total, None, *(None for _ in range(len(ctx.needs_input_grad) - 2)))
