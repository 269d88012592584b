"""Numbers where an operator takes a tensor."""
import re

import diptych
import pytest
import torch

from beside_eager import both


NUMBERS = [2, -3, 2.5, True, 2j]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.uint8, torch.int64, torch.bool, torch.complex64]
OPERATORS = ["floor_divide", "add", "sub", "mul", "div", "true_divide", "remainder", "fmod", "pow", "float_power", "maximum", "minimum", "eq", "ne",
             "lt", "le", "gt", "ge", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "copysign",
             "xlogy", "hypot", "ldexp", "logical_and", "rsub", "nextafter", "heaviside", "gcd", "lcm", "logaddexp", "subtract", "multiply", "divide",
             "greater", "less", "not_equal", "where", "clamp_min", "clamp_max", "special_zeta", "special_xlog1py", "arctan2", "fmax", "fmin"]


def of_operator(name, number, side):
    """A function with the number written in it."""
    operator = f"torch.{name}" if hasattr(torch, name) else f"torch.special.{name.removeprefix('special_')}"
    if name == "where":
        operator = "lambda a, b: torch.where(x != 0, a, b)"
    return eval(f"lambda x: ({operator})({f'x, {number}' if side == 'right' else f'{number}, x'})", {"torch": torch})  # noqa: S307


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", OPERATORS)
def test_numbers_on_either_side(name, side):
    for dtype in DTYPES:
        for number in NUMBERS:
            body = of_operator(name, number, side)
            for x in (torch.tensor([[1, 2, 3], [3, 1, 1]]).to(dtype), torch.tensor(3).to(dtype)):
                check_number(body, x, f"{name} {dtype} {number} {side}")


SYMBOLS = ["x // n", "n // x", "x % n", "n % x", "x**n", "n**x", "x << n", "x >> n", "x & n", "n | x", "x.clone().floor_divide_(n)",
           "x.clone().remainder_(n)", "x.clone().__ifloordiv__(n)", "torch.div(x, n, rounding_mode='floor')", "torch.div(x, n, rounding_mode='trunc')",
           "n - x", "n / x", "torch.floor_divide(x, torch.tensor(n))", "x.floor_divide(n).sum()", "torch.floor_divide(n, x)", "(x.sum() // n) + x"]


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_numbers_by_symbols(symbol):
    for dtype in DTYPES:
        for number in NUMBERS:
            body = eval("lambda x: " + re.sub(r"\bn\b", f"({number})", symbol), {"torch": torch})  # noqa: S307
            check_number(body, torch.tensor([[7, 2, 3], [3, 1, 5]]).to(dtype), f"{symbol} {dtype} {number}")


def check_number(body, x, what):
    try:
        wanted = body(x)
    except (RuntimeError, TypeError, ZeroDivisionError):
        return
    if wanted is NotImplemented:
        return
    try:
        got = diptych.aot_function(body)(x)
    except Exception as error:
        raise AssertionError(f"{what}: eager gives {wanted}, got {error}") from error
    assert got.dtype == wanted.dtype and got.shape == wanted.shape and torch.allclose(got.to(torch.complex128), wanted.to(torch.complex128), equal_nan=True), f"{what}: {got}, {wanted}"


def test_floor_division_trains():
    def body(x):
        return (x * (x // 2).detach()).sum()
    grads = []
    for function in both(body):
        x = torch.tensor([1.0, 5.0], requires_grad=True)
        function(x).backward()
        grads.append(x.grad)
    assert torch.equal(*grads)
