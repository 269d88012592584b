"""Numbers that a dtype does not hold: eager refuses them in some operators, wraps them in others, and so do compiled functions."""
import diptych
import pytest
import torch
from torch.nn import functional

DTYPES = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.bool]
NUMBERS = [300, 70000, 2**40, -1, 2.5, -1e9, 1e30, 1e300, float("inf"), True]


def assigned(x, index, number):
    x[index] = number
    return x


# Each after x + x and before another sum, so that it is in the middle of a kernel.
PROGRAMS = {
    "masked_fill": lambda x, h: x.masked_fill(x > 1, h),
    "fill_": lambda x, h: x.fill_(h),
    "full_like": torch.full_like,
    "new_full": lambda x, h: x.new_full((2,), h),
    "assign": lambda x, h: assigned(x, 0, h),
    "assign by mask": lambda x, h: assigned(x, x > 1, h),
    "index_fill": lambda x, h: x.index_fill(0, torch.tensor([1]), h),
    "index_fill by a tensor": lambda x, h: x.index_fill(0, torch.tensor([1]), torch.tensor(h)),
    "clamp": lambda x, h: x.clamp(0, h),
    "clamp_min": lambda x, h: x.clamp_min(h),
    "where": lambda x, h: torch.where(x > 1, x, h),
    "threshold": lambda x, h: functional.threshold(x, 1, h),
    "hardtanh": lambda x, h: functional.hardtanh(x, -1, h),
    "elu": functional.elu,
    "leaky_relu": functional.leaky_relu,
    "add alpha": lambda x, h: torch.add(x, x, alpha=h),
    "sub alpha": lambda x, h: torch.sub(x, x, alpha=h),
    "addcmul": lambda x, h: torch.addcmul(x, x, x, value=h),
    "add": lambda x, h: x + h,
    "rsub": lambda x, h: h - x,
    "mul": lambda x, h: x * h,
    "remainder": lambda x, h: x % h,
    "floor": lambda x, h: torch.div(x, h, rounding_mode="floor"),
    "pow": lambda x, h: x**h,
    "gt": lambda x, h: (x > h).to(x.dtype),
    "pad": lambda x, h: functional.pad(x, (1, 1), value=h)[1:-1],
}


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except (RuntimeError, ValueError, diptych.UserError):
        return None


def differ(expected, got):
    if expected is None or got is None:
        return (expected is None) != (got is None)
    return got.dtype != expected.dtype or not torch.allclose(got.double(), expected.double(), rtol=1e-2, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_constants_in_kernels(name, dtype):
    def function(x, h):
        doubled = x + x
        return PROGRAMS[name](doubled, h) + x

    x = torch.tensor([1, 2]).to(dtype)
    wrong = []
    for number in NUMBERS:
        expected, got = (outcome(f, x) for f in (lambda x: function(x, number), diptych.aot_function(lambda x: function(x, number))))
        if differ(expected, got):
            wrong.append((number, expected, got))
    assert not wrong


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("of", [torch.float32, torch.int64], ids=str)
def test_open_numbers(name, dtype, of):
    def function(x, h):
        doubled = x + x
        return PROGRAMS[name](doubled, h.item()) + x

    compiled = diptych.aot_function(function, path_limit=100)
    x = torch.tensor([1, 2]).to(dtype)
    wrong = []
    # Of an open number is known that float32 holds it: what it doesn't hold is an error in eager, infinite here.
    for number in (1, 2, *(h for h in NUMBERS if h != 1e300 and (of.is_floating_point or (isinstance(h, int) and h is not True)))):
        h = torch.tensor(number, dtype=of)
        expected, got = outcome(function, x, h), outcome(compiled, x, h)
        if differ(expected, got):
            wrong.append((number, expected, got))
    assert not wrong
