"""Kernels at the ends of what a dtype holds: infinities, NaN, halves between integers, the largest and the smallest number, as near to float64 as eager is."""
import math

import diptych
import pytest
import torch
from as_near import Judge
from torch import special
from torch.nn import functional

INTEGERS = [0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 33, 63, 64, 65, 100, -100, 127, -128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
# Of 89 eager has an infinite sinh or a finite one by the place in the tensor, and of 1e38 % 0.1 no remainder.
FLOATS = [0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 0.75, 3.3, -3.3, 20.0, 88.0, -88.0, -104.0, 170.0, 709.0, 65504.0, 1e6, 1e20, -1e20, 1e38, -1e38,
          math.inf, -math.inf, math.nan]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool]

OF_ONE = [getattr(torch, name) for name in (
    "abs neg sign sgn floor ceil round trunc frac sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc "
    "erfinv lgamma digamma sigmoid logit reciprocal square isnan isinf isfinite isposinf isneginf logical_not bitwise_not relu nan_to_num sinc deg2rad angle i0").split()]
OF_ONE += [getattr(functional, name) for name in (
    "silu gelu elu selu celu softplus hardswish hardsigmoid mish relu6 leaky_relu hardtanh logsigmoid softsign tanhshrink hardshrink softshrink").split()]
OF_ONE += [getattr(special, name) for name in "entr ndtr log_ndtr erfcx i0e i1 i1e ndtri".split()]
OF_ONE += [lambda x, to=to: x.to(to) for to in DTYPES]

OF_TWO = [getattr(torch, name) for name in (
    "add sub mul div floor_divide remainder fmod pow maximum minimum fmax fmin eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor "
    "bitwise_left_shift bitwise_right_shift atan2 hypot copysign nextafter logaddexp xlogy heaviside ldexp").split()]
OF_TWO += [lambda x, y, mode=mode: torch.div(x, y, rounding_mode=mode) for mode in ("floor", "trunc")]
OF_TWO += [lambda x, y: torch.where(x > y, x, y), lambda x, y: x.clamp(min=y), lambda x, y: torch.lerp(x, y, 0.3), functional.smooth_l1_loss, functional.mse_loss]

OF_MANY = [lambda x, name=name: getattr(x, name)(0) for name in "amax amin argmax argmin any all logsumexp softmax log_softmax var cumsum".split()]


def values(dtype):
    if dtype == torch.bool:
        return torch.tensor([True, False])
    if dtype.is_floating_point:
        return torch.tensor(FLOATS, dtype=torch.float64).to(dtype)
    ends = torch.iinfo(dtype)
    return torch.tensor([number for number in INTEGERS if ends.min <= number <= ends.max], dtype=dtype)


def runs(operator, *arguments):
    try:
        operator(*arguments)
    except RuntimeError:  # eager has no such operator for the dtype, or divides by zero
        return False
    return True


def check(operators, *arguments):
    operators = [operator for operator in operators if runs(operator, *arguments)]
    assert len(operators) >= 5

    def function(x, *more):
        copy = torch.where(x == x, x, x)  # so that each is in the middle of a kernel
        return [operator(copy, *more) for operator in operators]

    pairs = zip(operators, function(*arguments), diptych.aot_function(function)(*arguments))
    wrong = {operator: Judge(operator, arguments).wrong(got, expected) for operator, expected, got in pairs}
    assert not {operator: found for operator, found in wrong.items() if found}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_of_one(dtype):
    check(OF_ONE, values(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_of_two(dtype):
    x = values(dtype)
    check(OF_TWO, x.repeat_interleave(len(x)), x.repeat(len(x)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_of_many(dtype):
    x = values(dtype)
    if dtype.is_floating_point:
        x = x[x.isfinite() & (x.abs() < 1e6)]  # sums of larger ones depend on their order
    check(OF_MANY, x[torch.randint(len(x), (24, 16), generator=torch.Generator().manual_seed(3))])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_whole_quotients_of_halves_are_rounded_as_eager_rounds_them(mode, dtype):
    generator = torch.Generator().manual_seed(0)
    x, y = 20 * torch.randn(4000, generator=generator).to(dtype), torch.randn(4000, generator=generator).to(dtype)
    for divisor in (y, y[0], 0.3):
        def function(x, divisor=divisor):
            return torch.div(x + x, divisor, rounding_mode=mode)

        assert torch.equal(diptych.aot_function(function)(x), function(x))
