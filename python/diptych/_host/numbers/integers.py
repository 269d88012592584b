"""item() of a tensor of integers in a trace: an integer that stays a tensor as long as nobody needs its value, as the floats of
floats.py do.

A count divides and scales: x / mask.sum().item(). Of an integer that may be large it is asked first whether it is small, by which
the capture is guarded; a large one is an int. Arithmetic is recorded where it can't leave 31 bits, since torch's constructors cut
what they take for a symbolic integer to 32. A size, an index or a text takes the value.
"""
import operator
import threading

import torch

from ... import _core
from .base import OPERATORS, ByValue, Closed, as_float, by_value, close, is_of_this_trace, keep, with_value, with_value_behind
from .floats import OpenFloat

_SMALL = 24  # bits of an integer of which it was asked whether it is small
_MOST = 31  # bits of an open integer
_COMPARED = 62  # bits of an int that an open one is compared with
_EXACT = 53  # bits of an integer that is a float without rounding


class _Known:
    """A number that LibTorch's C++ has computed of an open one: it knows the value."""

    def __init__(self, value):
        self.value = value

    def is_int(self):
        return type(self.value) is int

    def is_bool(self):
        return type(self.value) is bool

    def is_float(self):
        return type(self.value) is float

    def is_nested_int(self):
        return False

    is_symbolic = is_nested_int

    def has_hint(self):
        return True

    def maybe_as_int(self):
        return self.guard_int()

    def guard_int(self, *place):
        return self.value

    guard_float = guard_bool = expect_true = guard_size_oblivious = guard_or_false = guard_or_true = statically_known_true = guard_int
    int_ = bool_ = guard_int

    def wrap_int(self, value):
        return _Known(value)

    wrap_float = wrap_bool = wrap_int

    def clone(self):
        return self

    def sym_float(self):
        return _Known(float(self.guard_int()))

    def _graph_repr(self):
        return str(self.guard_int())

    str = __str__ = _graph_repr


def _ceiling(value):
    return value  # of an integer, as its floor


_OF_TWO = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge")},
    "int_truediv": operator.truediv, "float_truediv": operator.truediv, "int_floordiv": operator.floordiv, "float_pow": operator.pow,
    "pow_by_natural": operator.pow, "sym_min": min, "sym_max": max, "sym_and": lambda a, b: a and b, "sym_or": lambda a, b: a or b,
}  # fmt: skip
for _name, _compute in _OF_TWO.items():
    setattr(_Known, _name, lambda self, other, compute=_compute: _Known(compute(self.guard_int(), other.guard_int())))
for _name, _compute in {"neg": operator.neg, "sym_not": operator.not_, "ceil": _ceiling, "floor": _ceiling}.items():
    setattr(_Known, _name, lambda self, compute=_compute: _Known(compute(self.guard_int())))


class _Node(_Known):
    """What torch keeps of an open integer. bits: how many the value has at most."""

    def __init__(self, tensor, trace, bits):
        super().__init__(None)
        self.diptych_tensor, self.trace, self.thread, self.bits = tensor, trace, threading.get_ident(), bits

    def is_int(self):
        return True

    def is_symbolic(self):
        return True

    def maybe_as_int(self):
        return None

    def guard_int(self, *place):
        if self.value is None:
            self.value = _core.value_of_number(self.diptych_tensor, self.trace)
        return self.value


class OpenInt(ByValue, torch.SymInt):
    """An int that a traced function got from item()."""

    def __init__(self, tensor, bits):
        super().__init__(_Node(tensor, _core.lend_number(), bits))
        keep(self)

    @property
    def __class__(self):
        return int

    def __int__(self):
        return self.node.guard_int()

    __index__ = __int__

    def __bool__(self):
        return _decide(torch.ne, self, 0)

    def __pos__(self):
        return self

    __trunc__ = __floor__ = __ceil__ = __pos__

    def __neg__(self):
        return OpenInt(-self.node.diptych_tensor, self.node.bits) if _fits(self, _MOST) else -int(self)

    def __abs__(self):
        return OpenInt(self.node.diptych_tensor.abs(), self.node.bits) if _fits(self, _MOST) else abs(int(self))

    def __truediv__(self, other):
        return as_float(self) / other

    def __rtruediv__(self, other):
        return other / as_float(self)

    def _as_float(self):
        if not _fits(self, _EXACT):
            return float(int(self))
        return OpenFloat(self.node.diptych_tensor.to(torch.float64))


class ClosedInt(Closed):
    """What an OpenInt is after the capture, if something has kept it where nothing looks: an int by its value."""

    @property
    def __class__(self):
        return int

    def __int__(self):
        return self.node.value

    __index__ = __int__


OpenInt.CLOSED = ClosedInt


def _fits(number, bits):
    """Whether arithmetic with an open integer can be recorded, of which no more than so many bits may come."""
    if not is_of_this_trace(number):
        return False
    node = number.node
    small = min(bits, _SMALL)
    if node.bits > bits and bool((node.diptych_tensor.abs() < 2**small) & (node.diptych_tensor != -(2**63))):
        node.bits = small
    return node.bits <= bits


def _is_plain(number):
    return type(number) in (int, bool)


def _bits(number):
    return number.node.bits if type(number) is OpenInt else int(number).bit_length()


def _tensor(number):
    return number.node.diptych_tensor if type(number) is OpenInt else torch.scalar_tensor(int(number), dtype=torch.int64)


def _decide(compare, left, right):
    """A comparison of two integers, which is exact in 64 bits."""
    if any(type(one) is OpenInt and not is_of_this_trace(one) or _is_plain(one) and int(one).bit_length() > _COMPARED for one in (left, right)):
        return getattr(operator, compare.__name__)(close(left), close(right))
    return bool(compare(_tensor(left), _tensor(right)))


def _is_integer(number):
    return _is_plain(number) or type(number) is OpenInt


def _compared(name):
    compare, method = getattr(torch, name), f"__{name}__"

    def apply(self, other):
        if _is_integer(other):
            return _decide(compare, self, other)
        is_exact = isinstance(other, float) and _fits(self, _EXACT)
        return getattr(operator, name)(as_float(self), other) if is_exact else getattr(int(self), method)(close(other))

    return apply


def _arithmetic(name, recorded, bits_of):
    """Returns a method and its reflection: recorded for integers and floats, else by the values."""
    plain = getattr(operator, name)
    most = _SMALL if bits_of(_SMALL, _SMALL) <= _MOST else _MOST // 2

    def apply(left, right):
        if isinstance(left, float) or isinstance(right, float):
            return plain(as_float(left), as_float(right))
        if not (_is_integer(left) and _is_integer(right)):
            return NotImplemented if not isinstance(left, int) or not isinstance(right, int) else plain(close(left), close(right))
        if bits_of(_bits(left), _bits(right)) > _MOST and not all(_fits(one, most) if type(one) is OpenInt else _bits(one) <= most for one in (left, right)):
            return plain(close(left), close(right))
        return OpenInt(recorded(_tensor(left), _tensor(right)), bits_of(_bits(left), _bits(right)))

    return apply, lambda self, other: apply(other, self)


def _by_divisor(name, recorded, bits_of):
    """Returns the method of a division by an integer that the function writes out."""
    plain = getattr(operator, name)

    def apply(self, other):
        if not _is_plain(other) or other == 0 or not _fits(self, _MOST) or _bits(other) > _MOST:
            return plain(int(self), close(other))
        return OpenInt(recorded(self.node.diptych_tensor, int(other)), bits_of(self.node.bits, _bits(other)))

    return apply


for _name, _recorded, _bits_of in (
    ("add", torch.add, lambda a, b: max(a, b) + 1),
    ("sub", torch.sub, lambda a, b: max(a, b) + 1),
    ("mul", torch.mul, lambda a, b: a + b),
):
    _method, _reflected = _arithmetic(_name, _recorded, _bits_of)
    setattr(OpenInt, f"__{_name}__", _method)
    setattr(OpenInt, f"__r{_name}__", _reflected)
OpenInt.__floordiv__ = _by_divisor("floordiv", lambda a, b: torch.div(a, b, rounding_mode="floor"), lambda a, b: a)
OpenInt.__mod__ = _by_divisor("mod", torch.remainder, lambda a, b: b)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(OpenInt, f"__{_name}__", _compared(_name))
_BITWISE = ("and", "or", "xor", "lshift", "rshift")
for _name in ("pow", "divmod", *_BITWISE):
    setattr(OpenInt, f"__{_name}__", by_value(f"__{_name}__", int))
for _name in ("floordiv", "mod", "pow", "divmod", *_BITWISE):
    setattr(OpenInt, f"__r{_name}__", by_value(f"__r{_name}__", int))
for _name in ("__float__", "__invert__", "__round__", "__format__", "__repr__", "__str__", "as_integer_ratio", "bit_length", "bit_count", "to_bytes", "conjugate"):
    setattr(OpenInt, _name, by_value(_name, int))
for _name in ("real", "imag", "numerator", "denominator"):
    setattr(OpenInt, _name, property(lambda self, _name=_name: getattr(int(self), _name)))
for _name in dir(int):
    if callable(getattr(int, _name)) and _name not in vars(ClosedInt) and _name not in dir(object):
        setattr(ClosedInt, _name, by_value(_name, int))
for _name in ("__repr__", "__str__", "__format__", "__hash__"):
    setattr(ClosedInt, _name, by_value(_name, int))
for _name in OPERATORS:
    setattr(ClosedInt, f"__{_name}__", with_value(getattr(operator, _name), int))
    if hasattr(int, f"__r{_name}__"):
        setattr(ClosedInt, f"__r{_name}__", with_value_behind(getattr(operator, _name), int))

_BITS_OF_DTYPE = {torch.uint8: 8, torch.int8: 8, torch.int16: 16, torch.int32: 32}


def of_tensor(tensor):
    """Returns the open integer that item() of a tensor is, or an int if it is large."""
    number = OpenInt(tensor.detach().reshape(()).to(torch.int64, copy=True), _BITS_OF_DTYPE.get(tensor.dtype, 64))
    return number if _fits(number, _MOST) else int(number)
