"""dynamic=True: whatever a function does by its sizes is as in eager, and few captures serve many sizes."""
import math
import random

import diptych
import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F


def run(function, *shapes, seed, dtype=torch.float32):
    """Results and gradients of `function` at these shapes."""
    generator = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    torch.manual_seed(seed)
    grads = torch.autograd.grad([o for o in outputs if o.requires_grad], inputs, [torch.rand_like(o) for o in outputs if o.requires_grad], allow_unused=True)
    return (*outputs, *grads)


def captures(function, all_shapes, dtype=torch.float32, **options):
    """Compares with eager at all shapes, and says how many captures they took."""
    compiled = diptych.aot_function(function, dynamic=True, **options)
    for seed, shapes in enumerate(all_shapes):
        for got, expected in zip(run(compiled, *shapes, seed=seed, dtype=dtype), run(function, *shapes, seed=seed, dtype=dtype), strict=True):
            torch.testing.assert_close(got, expected, msg=lambda text, shapes=shapes: f"at {shapes}: {text}")
    return compiled.stats().misses


def lengths(first, last):
    return [((n, 3),) for n in (*range(first, last), *range(last, first, -1))]


BRANCHES = {
    "remainder": lambda x: x * 3 if x.shape[0] % 3 else x.sin(),
    "between": lambda x: x * 2 if 10 < x.shape[0] < 14 else x * 3,
    "size()": lambda x: x * 2 if x.size(0) == 13 else x * 3,
    "size() unpacked": lambda x: (lambda n, m: x * 2 if n > 4 * m else x * 3)(*x.size()),
    "len": lambda x: x * 2 if len(x) & 1 else x * 3,
    "numel": lambda x: x * 2 if x.numel() > 40 else x * 3,
    "stride": lambda x: x.t().contiguous() * (2 if x.t().contiguous().stride(0) in (7, 11) else 3),
    "range": lambda x: sum(x * i for i in range(x.shape[0] // 6 + 1)),
    "iteration": lambda x: x * 2 if sum(1 for _ in x) == 9 else x * 3,
    "dict key": lambda x: x * {5: 1.5, 8: 2.5}.get(x.shape[0], 3.5),
    "set": lambda x: x * 2 if x.shape[0] in {6, 17, 18} else x * 3,
    "text": lambda x: x * 2 if "1" in f"{x.shape[0]}" else x * 3,
    "hidden in an int": lambda x: x * 2 if int(str(x.shape[0])[::-1]) > 50 else x * 3,
    "math": lambda x: x * 2 if math.isqrt(x.shape[0]) ** 2 == x.shape[0] else x * 3,
    "log": lambda x: x * math.floor(math.log2(x.shape[0])),
    "gcd": lambda x: x * math.gcd(x.shape[0], 12),
    "numpy": lambda x: x * 2 if numpy.prod(x.shape) % 5 == 0 else x * 3,
    "numpy value": lambda x: x * float(numpy.sin(x.shape[0])),
    "bits": lambda x: x * (x.shape[0].bit_length() + (x.shape[0] >> 2)),
    "torch.Size": lambda x: x * 2 if x.shape > torch.Size((9, 1)) else x * 3,
    "hash": lambda x: x * (hash(x.shape) % 3 + 1),
    "max": lambda x: x[: max(4, x.shape[0] - 5)] * min(x.shape[0], 10),
    "new_zeros": lambda x: x + x.new_zeros(x.shape[0], 1) + x.new_ones(x.shape[0] // 4 + 1, 1, 1).sum(),
    "slice": lambda x: x[x.shape[0] // 3 : -1],
    "a result's size": lambda x: (lambda y: y * 2 if y.shape[0] > 7 else y * 3)(x[::2]),
}


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_branch_on_a_size_is_as_in_eager(branch):
    captures(BRANCHES[branch], [((4, 3),), ((8, 3),), ((16, 3),), ((9, 3),), *lengths(5, 28)])


def test_captures_of_branches_are_few():
    assert captures(BRANCHES["remainder"], lengths(4, 60)) <= 3
    assert captures(BRANCHES["between"], lengths(4, 60)) <= 5
    assert captures(BRANCHES["numel"], lengths(4, 60)) <= 3


NUMBERS = {
    "n": lambda x: x * x.shape[0],
    "sum / n": lambda x: x.sum() / x.shape[0],
    "n / 2": lambda x: x * (x.shape[0] / 2),
    "n // 2": lambda x: x + x.shape[0] // 2,
    "1 / n": lambda x: x * (1 / x.shape[0]),
    "n - 1 of n": lambda x: x * ((x.shape[0] - 1) / x.shape[0]),
    "root": lambda x: x / math.sqrt(x.shape[0]),
    "inverse root": lambda x: x * (1 / math.sqrt(x.numel())),
    "log": lambda x: x + math.log(x.shape[0]),
    "alpha": lambda x: torch.add(x, x.sin(), alpha=x.shape[0]),
    "power": lambda x: x + x.detach().abs().pow(1 / x.shape[0]),
    "var": lambda x: (x.var(0), x.std()),
    "rsub": lambda x: x.shape[0] - x,
    "clamp": lambda x: x.clamp(-1 / x.shape[0], x.shape[0]),
    "where": lambda x: torch.where(x > 0, x, x.shape[0]),
    "arange": lambda x: x * torch.arange(x.shape[0])[:, None],
    "linspace": lambda x: x * torch.linspace(0, 1, x.shape[0])[:, None],
    "full": lambda x: x + torch.full((x.shape[0], 1), 1 / x.shape[0]),
}


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_that_comes_from_a_size_is_one_capture(number):
    assert captures(NUMBERS[number], lengths(3, 30)) <= 3


def test_layers_that_round_lengths():
    torch.manual_seed(0)
    conv, strided = nn.Conv1d(3, 4, 3), nn.Conv1d(4, 5, 3, stride=2, padding=1)
    shapes = [((2, 3, n),) for n in range(20, 50)]
    assert captures(lambda x: F.max_pool1d(conv(x), 2), shapes) <= 3
    assert captures(lambda x: strided(F.avg_pool1d(conv(x), 3, 2)).relu().flatten(1).sin(), shapes) <= 3
    assert captures(lambda x: F.interpolate(conv(x), scale_factor=2).mean(2), shapes) <= 3


def test_images_of_any_height_and_width():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4).eval())
    shapes = [((2, 2, h, w),) for h, w in [(16, 16), (20, 18), (17, 23), (31, 16), (32, 32), (19, 40), (21, 21), (16, 17), (28, 30), (25, 44)]]
    assert captures(lambda x: layers(x), shapes) <= 4


@pytest.mark.parametrize("shape", [lambda n: (5, n, 3), lambda n: (n, 2, 3)], ids=["batch", "length"])
def test_lstm(shape):
    if shape(7)[0] == 7 and not torch._C._get_mkldnn_enabled():
        pytest.skip("without oneDNN an LSTM is its steps, so that each length is a graph of its own")
    torch.manual_seed(0)
    lstm = nn.LSTM(3, 4)
    assert captures(lambda x: lstm(x)[0], [(shape(n),) for n in range(3, 20)]) <= 3


def test_sizes_are_checked_once():
    compiled = diptych.aot_function(lambda x: x * 2, dynamic=True)
    for n in (4, 6, 50, 51, 50, 51, 50):
        compiled(torch.ones(n))
    stats = compiled.stats()
    assert (stats.misses, stats.size_checks, stats.hits) == (2, 2, 5)


def test_without_checks_only_likely_sizes_are_seen():
    f = diptych.aot_function(lambda x: x * 2 if x.shape[0] == 21 else x * 3, dynamic=True, check_sizes=False)
    assert [f(torch.ones(n))[0].item() for n in (4, 8, 30, 21)] == [3, 3, 3, 3]
    assert f.stats().size_checks == 0


class BranchingBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * 2 if g.shape[0] % 3 == 0 else g.cos()


def test_a_backward_that_branches_on_a_size():
    assert captures(BranchingBackward.apply, lengths(4, 20)) <= 4


def test_a_captured_backward_that_branches_on_a_size():
    diptych.backward_capture.reset()
    for n in (4, 8, 16, 9, 10, 12, 33, 64, 9, 99):
        x = torch.randn(n, requires_grad=True)
        with diptych.backward_capture.capture():
            BranchingBackward.apply(x).square().sum().backward()
        tangent = 2 * x.detach()
        torch.testing.assert_close(x.grad, tangent * 2 if n % 3 == 0 else tangent.cos())


CONDITIONS = [
    lambda n, m, a, b: n > a,
    lambda n, m, a, b: n % b == 0,
    lambda n, m, a, b: n == a,
    lambda n, m, a, b: a <= n < a + b,
    lambda n, m, a, b: n * m > a * b,
    lambda n, m, a, b: n > 3 * m,
    lambda n, m, a, b: n & (n - 1) == 0,
    lambda n, m, a, b: n in (a, a + b, 2 * a),
    lambda n, m, a, b: hash((n, m)) % b == 0,
    lambda n, m, a, b: str(n).endswith(str(b)),
    lambda n, m, a, b: n // b % 2 == 0,
]
CHANGES = [
    lambda x, b: x.sin(),
    lambda x, b: x * x.shape[0],
    lambda x, b: x / (1 + len(x)),
    lambda x, b: x[x.shape[0] // b :],
    lambda x, b: torch.cat((x, x[: (x.shape[0] + 1) // 2])),
    lambda x, b: x - x.mean(0),
    lambda x, b: x.flatten().reshape(x.shape) + x.shape[0] % b,
    lambda x, b: x * math.sqrt(x.numel()),
    lambda x, b: x[:: 1 + (x.shape[0] > 7)],
    lambda x, b: sum(x / (i + 1) for i in range(1 + x.shape[0] % b)),
    lambda x, b: torch.stack([row for row in x][::-1]) if len(x) < b else x.flip(0),
    lambda x, b: x + b,
]


def program(seed):
    """A function that branches on the sizes of its argument."""
    draw = random.Random(seed)
    steps = [(draw.choice(CONDITIONS), draw.randint(2, 20), draw.randint(2, 6), draw.choice(CHANGES), draw.choice(CHANGES)) for _ in range(4)]

    def f(x):
        for condition, a, b, yes, no in steps:
            x = (yes if condition(x.shape[0], x.shape[1], a, b) else no)(x, b)
        return x

    return f


@pytest.mark.parametrize("seed", range(40))
def test_programs_that_branch_on_sizes(seed):
    draw = random.Random(-1 - seed)
    shapes = [((draw.randint(1, 40), draw.choice((2, 5, 9)) if seed % 3 == 0 else 4),) for _ in range(25)]
    captures(program(seed), shapes, dtype=torch.float64)  # the sine of a thousand has few digits in float32


@pytest.mark.parametrize("function", [
    lambda x: x.sum(-1),
    lambda x: x.mean(0) * 3,
    lambda x: torch.nn.functional.dropout(x, 0.5),
    lambda x: torch.nn.functional.pad(x, (1, 2)).sum(0),
])
def test_gradients_that_read_no_more_than_sizes_are_differentiated_again(function):
    compiled = diptych.aot_function(function, dynamic=True)
    for size in (3, 5, 8, 4):
        results = []
        for each in (function, compiled):
            torch.manual_seed(size)
            x = torch.ones(2, size, requires_grad=True)
            result = each(x)
            tangent = torch.arange(result.numel()).reshape(result.shape).add(1.0).requires_grad_()
            (gradient,) = torch.autograd.grad(result, x, tangent, create_graph=True)
            results.append((gradient, *torch.autograd.grad(gradient.square().sum(), tangent)))
        torch.testing.assert_close(results[1], results[0])
