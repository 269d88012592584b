"""item() of integers in a captured function: counts that go back into tensors, or are compared, are not guarded by value."""
import copy
import operator
import pickle

import diptych
import pytest
import torch
import torch.nn.functional as F

X = torch.arange(12.0) - 4
MASKS = [torch.arange(12) < i for i in range(1, 12)]
NUM = len(MASKS)

# What is computed with the count `n` of item() and the tensor `x`, and the number of captures for all masks; None for any.
RECORDED = {
    "divide": (lambda x, n: x / n, 1),
    "divided by": (lambda x, n: n / x.exp(), 1),
    "mul": (lambda x, n: x * n, 1),
    "rmul": (lambda x, n: n * x, 1),
    "add": (lambda x, n: x + n, 1),
    "rsub": (lambda x, n: n - x, 1),
    "in place": (lambda x, n: x.clone().mul_(n).sub_(n).div_(n), 1),
    "pow": (lambda x, n: (x / 20).abs() ** n, 1),
    "floor_divide": (lambda x, n: x // n, 1),
    "remainder": (lambda x, n: x % n, 1),
    "compare tensors": (lambda x, n: torch.where(x < n, x, -x), 1),
    "masked_fill": (lambda x, n: x.masked_fill(x > 0, n), 1),
    "where": (lambda x, n: torch.where(x > 0, x, n), 1),
    "clamp": (lambda x, n: x.clamp(-1, n), 1),
    "clamp max": (lambda x, n: x.clamp(max=n), 1),
    "fill_": (lambda x, n: x.clone().fill_(n), 1),
    "int tensor": (lambda x, n: x.to(torch.int64) * n, NUM),
    "int tensor divided": (lambda x, n: x.to(torch.int64) / n, NUM),
    "int32 tensor": (lambda x, n: x.to(torch.int32) + n, NUM),
    "bool tensor": (lambda x, n: (x > 0) * n, NUM),
    "half": (lambda x, n: x.to(torch.bfloat16) * n, 1),
    "zero-dim": (lambda x, n: x.sum() * n, 1),
    "zero-dim int": (lambda x, n: x.sum().to(torch.int32) * n, NUM),
    "arithmetic": (lambda x, n: x * (2 * n - 1 + n * n - (3 - n)), 1),
    "signs": (lambda x, n: x * (-n + abs(-n) - +n), 1),
    "true division": (lambda x, n: x * (n / 4 + 1 / n + n / (n + 1)), 1),
    "floor division": (lambda x, n: x * (n // 3) + n % 3 + (-n) // 3 + (-n) % 3, 1),
    "with floats": (lambda x, n: x * (n * 0.5 + 2.5 - n), 1),
    "with a float of item()": (lambda x, n: x * (n * x.sum().item() + x.sum().item() / n), 1),
    "branch": (lambda x, n: x * 2 if n > 5 else x * 3, 2),
    "branch on equality": (lambda x, n: x * 2 if n == 5 else x * 3, 2),
    "branch on a float": (lambda x, n: x * 2 if n > 5.5 else x * 3, 2),
    "branch on arithmetic": (lambda x, n: x * n if 2 * n + 1 >= 12 else x + n, 2),
    "branch on truth": (lambda x, n: x / n if n else x, 1),
    "branch on parity": (lambda x, n: x * 2 if n % 2 == 0 else x / n, 2),
    "max of numbers": (lambda x, n: x / max(n, 4), 2),
    "max first": (lambda x, n: x / max(1, n), None),
    "isinstance": (lambda x, n: x * n if isinstance(n, int) else x, 1),
    "index": (lambda x, n: x[n] * 2, NUM),
    "slice": (lambda x, n: x[:n].sum(), NUM),
    "size": (lambda x, n: x.sum() * torch.ones(n).sum(), NUM),
    "sizes": (lambda x, n: x[: n // 2 * 2].view(-1, 2).sum(1).new_zeros(n, 2), NUM),
    "narrow": (lambda x, n: x.narrow(0, 0, n), NUM),
    "split": (lambda x, n: x.split([n, 12 - n])[1], NUM),
    "expand": (lambda x, n: x[:1].expand(n), NUM),
    "repeat": (lambda x, n: x.repeat(n), NUM),
    "roll": (lambda x, n: x.roll(n), NUM),
    "arange": (lambda x, n: x.sum() + torch.arange(n), NUM),
    "full": (lambda x, n: x + torch.full((12,), n), NUM),
    "topk": (lambda x, n: x.topk(n)[0], NUM),
    "pad": (lambda x, n: F.pad(x, (0, n)), NUM),
    "one_hot": (lambda x, n: F.one_hot(torch.arange(2), n + 1) * 1.0, NUM),
    "assignment": (lambda x, n: assigned(x.clone(), n), None),
    "range": (lambda x, n: sum(x * i for i in range(n)) + x, NUM),
    "list": (lambda x, n: x * [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13][n], NUM),
    "key": (lambda x, n: x * {n: 2.0}[n], NUM),
    "text": (lambda x, n: x * len(f"{n:04d}"), NUM),
    "bits": (lambda x, n: x * (n & 3) + (n << 1) + (1 ^ n) + ~n, NUM),
    "power": (lambda x, n: x * 2**n + n**2, NUM),
    "tensor": (lambda x, n: x + torch.tensor([n, 1, 2]).sum(), NUM),
    "large": (lambda x, n: x * float(n * 2**40 * 2**40 > 2**81), NUM),
    "int of it": (lambda x, n: x * int(n), NUM),
    "methods": (lambda x, n: x * n.bit_length() + n.real, NUM),
    "divmod": (lambda x, n: x * divmod(n, 3)[0] + divmod(13, n)[1], NUM),
}


def assigned(x, n):
    x[0] = n
    return x


@pytest.mark.parametrize("name", RECORDED)
def test_as_eager(name):
    compute, captures = RECORDED[name]

    def function(x, mask):
        return compute(x, mask.sum().item())

    compiled = diptych.aot_function(function, path_limit=64)
    for mask in MASKS * 2:
        expected, got = function(X, mask), compiled(X, mask)
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=0)
    stats = compiled.stats()
    assert stats.originals == 0, stats.last_original
    if captures is not None:
        assert stats.entries == captures, stats.last_miss


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_dtypes(dtype):
    compiled = diptych.aot_function(lambda x, t: (x * t.item(), x.double() + t.item(), x / (t.item() * 300)))
    for value in (1, 100, 7):
        torch.testing.assert_close(compiled(X, torch.tensor([value], dtype=dtype)), (X * value, X.double() + value, X / (value * 300)))
    assert compiled.stats().entries == 1


@pytest.mark.parametrize("value", [2**62, -(2**63), 2**63 - 1, 2**31, 2**53 + 1])
def test_large_integers_are_exact(value):
    """Python's integers have no end; what may not fit is by value."""

    def function(x, t):
        n = t.item()
        return x * float(n * 4 > 2**63) + float(n + n) / 2**60 + abs(n) / 2**60 + float(n > 2**53) + (n == 2**53 + 1) + (n == float(2**53))

    compiled = diptych.aot_function(function)
    for number in (3, value, 5, value):
        torch.testing.assert_close(compiled(X, torch.tensor(number)), function(X, torch.tensor(number)))
    assert compiled.stats().originals == 0


@pytest.mark.parametrize("value", [2**31, -(2**31), 2**40 + 5, 2**61, 7])
def test_torchs_constructors(value):
    """They cut a symbolic integer to 32 bits."""

    def function(x, t):
        n = t.item()
        return torch.tensor(n), torch.tensor([n, 1]), torch.as_tensor(n * 3), x.new_tensor(n), torch.full((2,), n), torch.tensor(n, dtype=torch.float64), x * n

    compiled = diptych.aot_function(function)
    for number in (3, value, value):
        torch.testing.assert_close(compiled(X, torch.tensor(number)), function(X, torch.tensor(number)))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16])
@pytest.mark.parametrize("function", [
    lambda a, n: a / n.item(), lambda a, n: a * n.item(), lambda a, n: a ** n.item(), lambda a, n: a.clone().fill_(n.item()),
    lambda a, n: a.clamp(n.item()), lambda a, n: torch.where(a > 0, a, n.item()),
], ids=["div", "mul", "pow", "fill", "clamp", "where"])
def test_narrow_tensors(function, dtype):
    """Among these eager counts modulo theirs, or raises an error by the value."""

    def look(f, *arguments):
        try:
            return f(*arguments)
        except RuntimeError:
            return "an error"

    for a in (torch.tensor(1, dtype=dtype), torch.ones(3, dtype=dtype)):
        compiled = diptych.aot_function(function)
        for value in (3, 300, -2, 70000, 2**40):
            got, expected = look(compiled, a, torch.tensor(value)), look(function, a, torch.tensor(value))
            assert got == expected if isinstance(expected, str) else got.dtype == expected.dtype and torch.equal(got, expected)


@pytest.mark.parametrize("backend", ["interpreter", "native"])
def test_gradients(backend):
    def loss(x, w, mask):
        return ((x * w).tanh() * mask).sum() / mask.sum().item()

    compiled = diptych.aot_function(loss, backend=backend)
    for mask in MASKS:
        leaves = [torch.randn(12, dtype=torch.float64, requires_grad=True) for _ in range(2)]
        expected = torch.autograd.grad(loss(*leaves, mask), leaves)
        torch.testing.assert_close(torch.autograd.grad(compiled(*leaves, mask), leaves), expected)
    assert compiled.stats().entries == 1


def test_division_by_zero_is_an_error():
    compiled = diptych.aot_function(lambda x, mask: x * (1 / mask.sum().item()))
    torch.testing.assert_close(compiled(X, MASKS[3]), X / 4)
    with pytest.raises(ZeroDivisionError):
        compiled(X, torch.zeros(12, dtype=torch.bool))
    torch.testing.assert_close(compiled(X, MASKS[1]), X / 2)


def test_a_tensor_divided_by_zero_is_infinite():
    compiled = diptych.aot_function(lambda x, mask: x / mask.sum().item())
    for mask in (MASKS[3], torch.zeros(12, dtype=torch.bool)):
        torch.testing.assert_close(compiled(X, mask), X / mask.sum().item(), equal_nan=True)
    assert compiled.stats().entries == 1


def test_a_number_that_is_returned_is_an_int():
    compiled = diptych.aot_function(lambda x, mask: {"x": x * 2, "n": mask.sum().item(), "list": [mask.sum().item() + 1]})
    for mask in MASKS[:3]:
        got, n = compiled(X, mask), mask.sum().item()
        assert type(got["n"]) is int and got["n"] == n
        assert type(got["list"][0]) is int and got["list"][0] == n + 1


class Box:
    pass


def test_a_number_that_is_kept_is_an_int():
    box = Box()

    def function(x, mask):
        box.last = mask.sum().item()
        return x * box.last

    compiled = diptych.aot_function(function)
    for mask in MASKS[:3]:
        torch.testing.assert_close(compiled(X, mask), X * mask.sum())
        assert type(box.last) is int and box.last == mask.sum().item()


def test_a_number_that_escapes_is_an_int_by_its_value():
    kept = []

    class Sly(torch.nn.Module):
        def forward(self, x, mask):
            n = mask.sum().item()
            object.__getattribute__(self, "hidden")(n)
            return x * n

    sly = Sly()
    sly.hidden = kept.append
    compiled = diptych.aot_module(sly)
    compiled(X, MASKS[4])
    n = kept[0]
    assert isinstance(n, int) and n == 5 and 5 == n and n < 6 and n + 1 == 6 and 1 + n == 6 and 11 // n == 2 and [0, 1, 2, 3, 4, 7][n] == 7
    assert f"{n}" == "5" and hash(n) == hash(5) and pickle.loads(pickle.dumps(n)) == 5 and copy.deepcopy(n) == 5 and operator.index(n) == 5
    torch.testing.assert_close(X * n, X * 5)
    torch.testing.assert_close(torch.ones(n), torch.ones(5))


def test_errors_are_eagers():
    compiled = diptych.aot_function(lambda x, mask: x[mask.sum().item() + 20])
    with pytest.raises(IndexError):
        compiled(X, MASKS[0])
    with pytest.raises(TypeError):
        diptych.aot_function(lambda x, mask: x * (mask.sum().item() + "a"))(X, MASKS[0])
