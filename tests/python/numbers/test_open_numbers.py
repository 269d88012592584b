"""item() in a captured function: numbers that go back into tensors, or are compared, are not guarded by value."""
import copy
import json
import math
import pickle
import statistics

import diptych
import pytest
import torch

INPUTS = [torch.tensor([float(i), 2.0 * i - 3, 0.5 - i]) for i in range(1, 30)]

# What is computed with the number `h` of item() and the tensor `x`, and the number of captures for all inputs.
RECORDED = {
    "mul": (lambda x, h: x * h, 1),
    "rmul": (lambda x, h: h * x, 1),
    "add": (lambda x, h: x + h, 1),
    "radd": (lambda x, h: h + x, 1),
    "sub": (lambda x, h: x - h, 1),
    "rsub": (lambda x, h: h - x, 1),
    "div": (lambda x, h: x / h, 1),
    "pow": (lambda x, h: x.abs() ** (h / 40), 1),
    "in place": (lambda x, h: x.clone().mul_(h).add_(h).div_(3.0), 1),
    "compare tensors": (lambda x, h: torch.where(x < h, x, -x), 1),
    "masked_fill": (lambda x, h: x.masked_fill(x > 0, h), 1),
    "where": (lambda x, h: torch.where(x > 0, x, h), 1),
    "clamp": (lambda x, h: x.clamp(-1.0, h), 1),
    "clamp min": (lambda x, h: x.clamp(min=h), 1),
    "fill_": (lambda x, h: x.clone().fill_(h), 1),
    "arithmetic": (lambda x, h: x * ((2 * h - 1) / 3 + abs(-h) - 0.5), 1),
    "quotient": (lambda x, h: x * (1 / (h * h + 1)), 1),
    "int tensor": (lambda x, h: x.to(torch.int64) * h, 1),
    "bool tensor": (lambda x, h: (x > 0) * h, 1),
    "half": (lambda x, h: x.to(torch.bfloat16) * h, 1),
    "zero-dim": (lambda x, h: x.sum() * h, 1),
    "double": (lambda x, h: x.double() * h, 1),
    "branch": (lambda x, h: x * 2 if h > 5 else x * 3, 2),
    "branch on arithmetic": (lambda x, h: x * h if h * 2 - 1 >= 9.5 else x + h, 2),
    "max of numbers": (lambda x, h: x / max(h, 4.0), 2),
    "int of it": (lambda x, h: x * int(h / 10), 3),
    "floor": (lambda x, h: x * math.floor(h / 10), 3),
    "in a tensor": (lambda x, h: x + torch.tensor([h, 1.0, 2.0]), None),
    "text": (lambda x, h: x * len(f"{h:.2f}"), None),
    "sqrt": (lambda x, h: x * math.sqrt(h) + math.sqrt(2.0), 1),
    "log": (lambda x, h: x * math.log(h), None),
    "not a number": (lambda x, h: x if math.isnan(h) or math.isinf(h / 2) or not math.isfinite(h) else x * h, 1),
    "alpha": (lambda x, h: torch.add(x, x, alpha=h), None),
    "full": (lambda x, h: x + torch.full((3,), h), None),
    "rounded": (lambda x, h: x * round(h, 1), None),
    "isinstance": (lambda x, h: x * h if isinstance(h, float) else x, 1),
    "key": (lambda x, h: x * {h: 2.0}[h], None),
    "json": (lambda x, h: x * len(str(h)), None),
}


def number(x):
    return (x.abs().sum() / 4).item()


@pytest.mark.parametrize("name", RECORDED)
def test_as_eager(name):
    compute, captures = RECORDED[name]

    def function(x):
        return compute(x, number(x))

    compiled = diptych.aot_function(function, path_limit=64)
    for x in INPUTS:
        expected, got = function(x), compiled(x)
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=0)
    stats = compiled.stats()
    assert stats.originals == 0
    if captures is not None:
        assert stats.entries == captures, stats.last_miss


@pytest.mark.parametrize("backend", ["interpreter", "native"])
def test_gradients(backend):
    """No gradient passes through a number, and the tensor that it came from keeps its own."""

    def function(x, w):
        scale = (x * w).sum().abs().item()
        return (x * scale + w / (scale + 1)).tanh().sum() * scale

    compiled = diptych.aot_function(function, backend=backend)
    for i in range(5):
        leaves = [torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(i)).requires_grad_() for _ in range(2)]
        expected = torch.autograd.grad(function(*leaves), leaves, create_graph=True)
        got = torch.autograd.grad(compiled(*leaves), leaves, create_graph=True)
        torch.testing.assert_close(got, expected)
        second = [torch.autograd.grad(sum(g.square().sum() for g in grads), leaves) for grads in (got, expected)]
        torch.testing.assert_close(*second)
    assert compiled.stats().entries == 1


def test_a_number_is_what_the_tensor_was():
    """A later change of the tensor does not reach the number."""

    def function(x):
        x = x * 1
        h = x[0].item()
        x[0] = 100.0
        return x * h

    compiled = diptych.aot_function(function)
    for x in INPUTS[:3]:
        torch.testing.assert_close(compiled(x), function(x))
    assert compiled.stats().entries == 1


def test_roots_and_what_is_no_number():
    def function(x):
        h = x.sum().item()
        return x * 0 if math.isnan(h) else x * math.sqrt(h)

    compiled = diptych.aot_function(function)
    for x in ([1.0, 3.0], [math.nan, 1.0], [2.0, 2.0]):
        torch.testing.assert_close(compiled(torch.tensor(x)), function(torch.tensor(x)), equal_nan=True)
    assert compiled.stats().entries == 2
    with pytest.raises(ValueError, match="math domain error"):
        compiled(torch.tensor([-1.0, 0.0]))


def test_division_by_zero_is_an_error():
    compiled = diptych.aot_function(lambda x: x * (1 / x[0].item()))
    torch.testing.assert_close(compiled(torch.tensor([2.0])), torch.tensor([1.0]))
    with pytest.raises(ZeroDivisionError):
        compiled(torch.tensor([0.0]))
    torch.testing.assert_close(compiled(torch.tensor([4.0])), torch.tensor([1.0]))


class Box:
    pass


def test_a_number_that_is_returned_is_a_float():
    """It is a constant of the result, so the capture holds for it alone."""
    compiled = diptych.aot_function(lambda x: {"loss": x * 2, "value": x.sum().item(), "list": [x[0].item()]})
    for x in INPUTS[:4]:
        got = compiled(x)
        assert type(got["value"]) is float and got["value"] == x.sum().item()
        assert type(got["list"][0]) is float and got["list"][0] == x[0].item()


def test_a_number_that_is_kept_is_a_float():
    box = Box()

    def function(x):
        box.last = x.sum().item()
        return x * box.last

    compiled = diptych.aot_function(function)
    for x in INPUTS[:3]:
        torch.testing.assert_close(compiled(x), x * x.sum())
        assert type(box.last) is float and box.last == x.sum().item()


def test_a_number_that_escapes_is_a_float_by_its_value():
    """What keeps a number where no watch looks has a float's stand-in for good."""
    kept = []

    class Sly(torch.nn.Module):
        def forward(self, x):
            h = x.sum().item()
            kept.append.__self__.append(h)
            return x * h

    compiled = diptych.aot_module(Sly())
    x = INPUTS[0]
    torch.testing.assert_close(compiled(x), x * x.sum())
    h = kept[-1]
    torch.testing.assert_close(x * h, x * x.sum())
    assert h + 1 == x.sum().item() + 1 and f"{h:.1f}" == f"{x.sum().item():.1f}"
    assert pickle.loads(pickle.dumps(h)) == float(h) and copy.deepcopy(h) == h and json.loads(str(h)) == h


def test_what_takes_no_open_number_runs_the_function_itself():
    compiled = diptych.aot_function(lambda x: x * len(json.dumps({"loss": x.sum().item()})))
    for x in INPUTS[:3]:
        torch.testing.assert_close(compiled(x), x * len(json.dumps({"loss": x.sum().item()})))
    assert compiled.stats().originals == 3


class Quantized(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.scale = x.abs().max().item() / 127
        return (x / ctx.scale).round() * ctx.scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.scale if isinstance(ctx.scale, float) else gradient


def test_numbers_that_a_backward_reads():
    def hooked(x):
        h = x.sum().item()
        y = x * 1
        y.register_hook(lambda g: torch.add(g * h, g, alpha=h).clamp(-h, h))
        return y.sum()

    for function in (lambda x: Quantized.apply(x).sum(), hooked):
        compiled = diptych.aot_function(function)
        for x in INPUTS[:3]:
            found = []
            for call in (function, compiled):
                leaf = x.clone().requires_grad_()
                found.append(torch.autograd.grad(call(leaf), leaf))
            torch.testing.assert_close(*found)


def test_second_derivatives_beside_a_number():
    def function(x):
        h = x.sum().item()
        y = x * 1
        y[0] = 2.0
        return (y * x).sum() * h

    found = []
    for call in (function, diptych.aot_function(function)):
        x = INPUTS[2].clone().requires_grad_()
        (gradient,) = torch.autograd.grad(call(x), x, create_graph=True)
        found.append(torch.autograd.grad(gradient.sum(), x))
    torch.testing.assert_close(*found)


def test_the_class_of_a_number_makes_floats():
    compiled = diptych.aot_function(lambda x: x * type(x.sum().item())(0.5) + statistics.mean([v.item() for v in x]))
    for x in INPUTS[:3]:
        torch.testing.assert_close(compiled(x), x * 0.5 + x.mean())


def test_numbers_in_bodies():
    """The body of an operator captures a number as a tensor; arithmetic in it is by value."""

    def function(x):
        h = x.sum().item()
        return diptych.scan(lambda c, row: (c + row * h, c * (h + 1)), x[0] * 0, x)

    compiled = diptych.aot_function(function, path_limit=64)
    for x in INPUTS[:3]:
        torch.testing.assert_close(compiled(x), function(x))
    plain = diptych.aot_function(lambda x, h=None: diptych.map(lambda row: row * x.max().item(), x) if h else x)
    torch.testing.assert_close(plain(INPUTS[0]), INPUTS[0])

    def only_tensors(x):
        h = x.sum().item()
        return diptych.map(lambda row: row * h, x)

    compiled = diptych.aot_function(only_tensors)
    for x in INPUTS[:3]:
        torch.testing.assert_close(compiled(x), only_tensors(x))


def test_clipping_by_a_norm():
    """As gradients are clipped in training loops: the norm steers, and scales."""

    def clip(gradients, limit):
        total = sum(g.square().sum().item() for g in gradients) ** 0.5
        return gradients if total <= limit else [g * (limit / total) for g in gradients]

    compiled = diptych.aot_function(clip, path_limit=64)
    for x in INPUTS:
        torch.testing.assert_close(compiled([x, x * 2], 10.0), clip([x, x * 2], 10.0))


def test_outside_of_traces_nothing_changes():
    assert type(torch.tensor(2.5).item()) is float and type(torch.tensor(2).item()) is int
    pair = diptych.capture(lambda x: x * 2, torch.ones(2))
    assert pair is not None
    with pytest.raises(diptych.UserError, match="needs the values of a tensor"):
        diptych.capture(lambda x: x * x.sum().item(), torch.ones(2))
