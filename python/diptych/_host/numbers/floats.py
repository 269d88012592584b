"""Floats that stay open in a trace, and what functions of math make of them."""
import functools
import math
import operator
import threading

import torch

from ... import _core
from ..register import is_tracing
from ..replaced import while_tracing
from .base import OPERATORS, ByValue, Closed, as_float, by_value, close, is_of_this_trace, keep, with_value, with_value_behind

_EXACT = 2.0**53  # integers below this are floats, and floats below this have integers


class _Node:
    """What torch keeps of a number: it asks for the value where an operator takes nothing else."""

    def __init__(self, tensor, trace):
        self.diptych_tensor, self.trace, self.thread = tensor, trace, threading.get_ident()
        self.value = None  # once it is known

    def is_float(self):
        return True

    def is_int(self):
        return False

    is_bool = is_nested_int = is_constant = is_int

    def is_symbolic(self):
        return True

    def guard_float(self, file, line):
        if self.value is None:
            self.value = _core.value_of_number(self.diptych_tensor, self.trace)
        return self.value

    def _graph_repr(self):
        return str(self.guard_float("", 0))

    __str__ = _graph_repr


class OpenFloat(ByValue, torch.SymFloat):
    """A float that a traced function got from item()."""

    def __new__(cls, number=0.0):
        """The class of a number is float to whoever calls it."""
        return super().__new__(cls) if isinstance(number, torch.Tensor) and is_tracing() else float(number)

    def __init__(self, tensor):
        super().__init__(_Node(tensor, _core.lend_number()))
        keep(self)

    @property
    def __class__(self):
        return float

    def __float__(self):
        return self.node.guard_float("", 0)

    def __bool__(self):
        return _decide(torch.ne, self, 0.0)

    def __neg__(self):
        return OpenFloat(-self.node.diptych_tensor) if is_of_this_trace(self) else -float(self)

    def __pos__(self):
        return self

    def __abs__(self):
        return OpenFloat(self.node.diptych_tensor.abs()) if is_of_this_trace(self) else abs(float(self))

    def __truediv__(self, other):
        return _divided(self, other)

    def __rtruediv__(self, other):
        return _divided(other, self)


class ClosedFloat(Closed):
    """What an OpenFloat is after the capture, if something has kept it where nothing looks: a float by its value."""

    @property
    def __class__(self):
        return float

    def __float__(self):
        return self.node.value


OpenFloat.CLOSED = ClosedFloat


def operand(number):
    """Returns a number as a tensor f64[] of the trace; None for what is not one that can be recorded."""
    number = as_float(number)
    if type(number) is OpenFloat:
        return number.node.diptych_tensor if is_of_this_trace(number) else None
    if type(number) is float or (type(number) in (int, bool) and abs(number) < _EXACT):
        return torch.scalar_tensor(number, dtype=torch.float64)
    return None


def _is_number(other):
    return isinstance(other, (int, float))


def _arithmetic(recorded, plain):
    """Returns a method and its reflection: recorded where that can be, else by the values."""

    def apply(left, right):
        if not (_is_number(left) and _is_number(right)):
            return NotImplemented
        a, b = operand(left), operand(right)
        if a is None or b is None:
            return plain(close(left), close(right))
        return OpenFloat(recorded(a, b))

    return apply, lambda self, other: apply(other, self)


def _divided(left, right):
    if type(right) in (OpenFloat, float, int, bool) and right == 0:  # of an open number, a question
        return float(left) / 0
    return _divide(left, right)


_divide = _arithmetic(torch.true_divide, operator.truediv)[0]


def _decide(compare, left, right):
    a, b = operand(left), operand(right)
    if a is None or b is None:
        return getattr(operator, compare.__name__)(close(left), close(right))
    return bool(compare(a, b))


def _comparison(compare):
    return lambda self, other: _decide(compare, self, other) if _is_number(other) else NotImplemented


def _rounded(round_tensor, plain):
    """Returns a method that makes an integer of a number. It asks for the integer, which more calls have in common."""

    def method(self):
        if not is_of_this_trace(self) or not abs(self) < _EXACT:
            return plain(float(self))
        return int(round_tensor(self.node.diptych_tensor).to(torch.int64).item())

    return method


for _name, _recorded in (("add", torch.add), ("sub", torch.sub), ("mul", torch.mul)):
    _method, _reflected = _arithmetic(_recorded, getattr(operator, _name))
    setattr(OpenFloat, f"__{_name}__", _method)
    setattr(OpenFloat, f"__r{_name}__", _reflected)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(OpenFloat, f"__{_name}__", _comparison(getattr(torch, _name)))
for _name, _recorded in (("trunc", torch.trunc), ("floor", torch.floor), ("ceil", torch.ceil)):
    setattr(OpenFloat, f"__{_name}__", _rounded(_recorded, getattr(math, _name)))
OpenFloat.__int__ = OpenFloat.__trunc__
for _name in (
    "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__pow__", "__rpow__", "__divmod__", "__rdivmod__", "__round__",
    "__format__", "__repr__", "__str__", "as_integer_ratio", "hex", "is_integer", "conjugate",
):  # fmt: skip
    setattr(OpenFloat, _name, by_value(_name))
for _name in ("real", "imag"):
    setattr(OpenFloat, _name, property(lambda self, _name=_name: getattr(float(self), _name)))
for _name in dir(float):
    if callable(getattr(float, _name)) and _name not in (
        "__class__", "__new__", "__init__", "__init_subclass__", "__subclasshook__", "__getattribute__", "__setattr__", "__delattr__",
        "__dir__", "__sizeof__", "__float__", "__getnewargs__", "__getformat__", "__reduce__", "__reduce_ex__", "__getstate__",
    ):  # fmt: skip
        setattr(ClosedFloat, _name, by_value(_name))
for _name in OPERATORS:
    setattr(ClosedFloat, f"__{_name}__", with_value(getattr(operator, _name)))
    if hasattr(float, f"__r{_name}__"):
        setattr(ClosedFloat, f"__r{_name}__", with_value_behind(getattr(operator, _name)))


def _is(name):
    return lambda tensor: bool(getattr(torch, name)(tensor))


def _root(tensor):
    """The root of a number, which is as exact as the host's; of a negative one the host raises an error."""
    return NotImplemented if bool(tensor < 0) else OpenFloat(tensor.sqrt())


def _of_number(theirs, recorded):
    """Returns a function of math that is recorded for an open number, and is the host's for others."""

    @functools.wraps(theirs)
    def compute(number):
        number = as_float(number)
        made = recorded(number.node.diptych_tensor) if type(number) is OpenFloat and is_of_this_trace(number) else NotImplemented
        return theirs(close(number)) if made is NotImplemented else made

    return compute


@functools.cache
def _functions_of_math():
    """Returns (module, name, the host's function, ours): what is put in its place while functions are traced."""
    recorded = {"isnan": _is("isnan"), "isinf": _is("isinf"), "isfinite": _is("isfinite"), "sqrt": _root}
    return [(math, name, getattr(math, name), _of_number(getattr(math, name), ours)) for name, ours in recorded.items()]


def replace():
    """Has what functions of math make of an open number recorded in a trace."""
    while_tracing(_functions_of_math)
