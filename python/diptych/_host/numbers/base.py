"""What open numbers have in common, floats and integers: they answer by their values what nobody records, and are closed when their
trace ends."""
import threading
import weakref

from torch.utils import _pytree

from ... import _core

OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge")


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

    def _as_float(self):
        """The number as a float, an open one if that is exact."""
        return self


class Closed(ByValue):
    """What an open number is after the capture, if something has kept it where nothing looks."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args, kwargs = _pytree.tree_map(close, (args, kwargs or {}))
        return function(*args, **kwargs)


_made = weakref.WeakValueDictionary()  # by id: numbers that may be met after their traces
_set_class = object.__dict__["__class__"].__set__


def keep(number):
    """Remembers an open number, which becomes a closed one when its trace ends."""
    _made[id(number)] = number


def is_of_this_trace(number):
    """Whether arithmetic with a number can be recorded. In the body of an operator nobody could ask for what comes of it."""
    return number.node.value is None and number.node.trace == _core.trace_number()


def as_float(number):
    """Returns an open number as a float, an open one if that is exact; anything else as it is."""
    return number._as_float() if issubclass(type(number), ByValue) else number


def close(number):
    """Returns the value of an open number, or of one that was; anything else as it is."""
    return number.__class__(number) if issubclass(type(number), ByValue) else number


def by_value(name, kind=float):
    """Returns the method of that name of a float, or an int, by the value of an open number."""
    return lambda self, *args, **kwargs: getattr(kind(self), name)(*map(close, args), **kwargs)


def with_value(operation, kind=float):
    return lambda self, other: operation(kind(self), close(other))


def with_value_behind(operation, kind=float):
    return lambda self, other: operation(close(other), kind(self))


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
