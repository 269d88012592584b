"""item() in a trace: a number that stays a tensor as long as nobody needs its value.

A capture that holds for one number alone is of little use where the number goes straight back into a tensor, as in
x / total.item(). So item() of a floating-point tensor gives an OpenFloat. Operators take it as a tensor of the graph; arithmetic
with it is recorded; a comparison is asked for its truth, by which the capture is guarded. Everything else asks for the value.
See Note [Open numbers] in trace/host_numbers.h.
"""
import functools
import math
import operator
import threading
import weakref

import torch
from torch.utils import _pytree

from ... import _core
from ..._torch.checkpoint import is_tracing

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


class ByValue:
    """What Python asks of a number that stays open, and is answered by the value: of a float or an int, as __class__ says."""

    def __hash__(self):
        return hash(self.__class__(self))

    def __reduce__(self):
        return self.__class__, (self.__class__(self),)

    def __deepcopy__(self, memo):
        return self

    def __array__(self, *args, **kwargs):
        import numpy

        return numpy.array(self.__class__(self)).__array__(*args, **kwargs)


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


class ClosedFloat:
    """What an OpenFloat is after the capture, if something has kept it where nothing looks: a float by its value."""

    @property
    def __class__(self):
        return float

    def __float__(self):
        return self.node.value

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args, kwargs = _pytree.tree_map(close, (args, kwargs or {}))
        return function(*args, **kwargs)


OpenFloat.CLOSED = ClosedFloat
_made = weakref.WeakValueDictionary()  # by id: numbers that may be met after their traces
_set_class = object.__dict__["__class__"].__set__


def keep(number):
    """Remembers an open number, which becomes a closed one when its trace ends."""
    _made[id(number)] = number


def is_of_this_trace(number):
    """Whether arithmetic with a number can be recorded. In the body of an operator nobody could ask for what comes of it."""
    return number.node.value is None and number.node.trace == _core.trace_number()


def operand(number):
    """Returns a number as a tensor f64[] of the trace; None for what is not one that can be recorded."""
    if is_open_integer(number):
        number = integers.as_float(number)
    if type(number) is OpenFloat:
        return number.node.diptych_tensor if is_of_this_trace(number) else None
    if type(number) is float or (type(number) in (int, bool) and abs(number) < _EXACT):
        return torch.scalar_tensor(number, dtype=torch.float64)
    return None


def is_open_integer(number):
    return type(number) is integers.OpenInt


def close(number):
    """Returns the value of an open number, or of one that was; anything else as it is."""
    if type(number) in (OpenFloat, ClosedFloat):
        return float(number)
    return int(number) if type(number) in (integers.OpenInt, integers.ClosedInt) else number


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


def by_value(name, kind=float):
    """Returns the method of that name of a float, or an int, by the value of an open number."""
    return lambda self, *args, **kwargs: getattr(kind(self), name)(*map(close, args), **kwargs)


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
OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge")


def with_value(operation, kind=float):
    return lambda self, other: operation(kind(self), close(other))


def with_value_behind(operation, kind=float):
    return lambda self, other: operation(close(other), kind(self))


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
ClosedFloat.__reduce__, ClosedFloat.__array__, ClosedFloat.__deepcopy__ = OpenFloat.__reduce__, OpenFloat.__array__, OpenFloat.__deepcopy__


def _is(name):
    return lambda tensor: bool(getattr(torch, name)(tensor))


def _root(tensor):
    """The root of a number, which is as exact as the host's; of a negative one the host raises an error."""
    return NotImplemented if bool(tensor < 0) else OpenFloat(tensor.sqrt())


def _of_number(theirs, recorded):
    """Returns a function of math that is recorded for an open number, and is the host's for others."""

    @functools.wraps(theirs)
    def compute(number):
        if is_open_integer(number):
            number = integers.as_float(number)
        made = recorded(number.node.diptych_tensor) if type(number) is OpenFloat and is_of_this_trace(number) else NotImplemented
        return theirs(close(number)) if made is NotImplemented else made

    return compute


@functools.cache
def functions_of_math():
    """Returns (module, name, the host's function, ours): what is put in its place while functions are traced."""
    recorded = {"isnan": _is("isnan"), "isinf": _is("isinf"), "isfinite": _is("isfinite"), "sqrt": _root}
    return [(math, name, getattr(math, name), _of_number(getattr(math, name), ours)) for name, ours in recorded.items()]


def close_all():
    """Called when a traced function has run, in its trace. What is left of its open numbers is in its result, or where something
    keeps it, such as a backward that is yet to be traced: these are floats from now on, and the capture holds for them."""
    for number in list(_made.values()):
        if number.node.trace == _core.trace_number():
            close(number)
            number.node.diptych_tensor = None


def end():
    """Called when a capture has ended: what keeps a number of this thread's has a float."""
    for number in list(_made.values()):
        if number.node.thread == threading.get_ident():
            _set_class(number, number.CLOSED)
            del _made[id(number)]


def _in_trace(torchs, tensor):
    if not _core.may_stay_open(tensor):
        return torchs(tensor)
    if not tensor.is_floating_point():
        return integers.of_tensor(tensor)
    return OpenFloat(tensor.detach().reshape(()).to(torch.float64, copy=True))


def replace():
    """Has item() give open numbers in a trace."""
    _core.set_open_numbers((OpenFloat, ClosedFloat), (integers.OpenInt, integers.ClosedInt), close_all)
    _core.route_method("item", _in_trace)


from . import integers  # noqa: E402  # which is made of what is above
