"""Functions that keep tensors between calls, and how their calls are told beside eager's."""
import types

import diptych
import torch
from beside_eager import Cases
from torch import nn

CALLS = 7
SHARES = [False]  # whether the functions that cases call themselves are compiled
CASES = Cases()  # makers of (function of x, what it keeps, what the caller does before a call)


def told(value, met):
    """What a value is, with the number of its first sight for a tensor or a container that comes again."""
    if isinstance(value, torch.Tensor) or isinstance(value, (list, dict)) or hasattr(value, "__dict__"):
        if id(value) in met:
            return ("again", met[id(value)][0])
        met[id(value)] = (len(met), value)
    if isinstance(value, torch.Tensor):
        return (type(value).__name__, value.detach().clone(), value.dtype, value.requires_grad, value.is_leaf, value.grad is None if value.is_leaf else None)
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(told(part, met) for part in value)]
    if isinstance(value, dict):
        return {name: told(part, met) for name, part in value.items() if not str(name).startswith("_")}
    if isinstance(value, (int, float, str, type(None))):
        return value
    slots = {name: getattr(value, name) for name in getattr(type(value), "__slots__", ()) if not name.startswith("__") and hasattr(value, name)}
    return told({**slots, **getattr(value, "__dict__", {})}, met) if slots or hasattr(value, "__dict__") else type(value).__name__


def alike(ours, theirs):
    if isinstance(theirs, torch.Tensor):
        return isinstance(ours, torch.Tensor) and ours.dtype == theirs.dtype and ours.shape == theirs.shape and torch.allclose(ours, theirs, 1e-4, 1e-5)
    if isinstance(theirs, (list, tuple)):
        return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(alike(ours[name], theirs[name]) for name in theirs)
    return type(ours) is type(theirs) and ours == theirs


def called(make, compiles):
    torch.manual_seed(0)
    function, look, before = make()
    call = diptych.aot_function(function) if compiles else function
    found = []
    for number in range(CALLS):
        before(number)
        x = torch.randn(3, requires_grad=number != 5)
        try:
            y, error = call(x), None
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as raised:
            y, error = None, type(raised).__name__
        gradient = None
        for one in y if isinstance(y, (list, tuple)) else [y]:
            if isinstance(one, torch.Tensor) and one.requires_grad and x.requires_grad and one.is_floating_point():
                try:
                    gradient = torch.autograd.grad(one.sum(), x, retain_graph=True, allow_unused=True)[0]
                except RuntimeError as raised:
                    gradient = str(raised)[:50]
        met = {}
        found.append([told((x, y), met), told(look(), met), error, gradient, torch.rand(1)])
    return found, call


def nothing(number):
    pass


@CASES
def the_argument_itself():
    held = {"x": torch.zeros(3)}

    def f(x):
        y = x * 2 + held["x"].detach()
        held["x"] = x
        return y

    return f, lambda: held, nothing


@CASES
def compared_with_the_argument():
    held = types.SimpleNamespace(x=None, y=None)

    def f(x):
        if held.x is x:
            return held.y * 1
        held.x, held.y = x, x.sin()
        return held.y * 2

    return f, lambda: held, nothing


@CASES
def swapped():
    held = {"a": torch.zeros(3), "b": torch.ones(3)}

    def f(x):
        held["a"], held["b"] = held["b"], held["a"] + x.detach()
        return x * held["a"]

    return f, lambda: held, nothing


@CASES
def one_tensor_in_two_places():
    one = torch.ones(3)
    held = {"a": one, "b": one}

    def f(x):
        held["a"] = held["a"] + 1
        held["b"].mul_(2)
        return x * held["a"] * held["b"]

    return f, lambda: held, nothing


@CASES
def one_tensor_in_a_place_and_elsewhere():
    one = torch.ones(3)
    held, other = {"a": one}, [one]

    def f(x):
        y = held["a"] * x
        other[0].add_(1)
        held["a"] = held["a"] + other[0]
        return y + other[0]

    def before(number):
        if number == 4:
            held["a"] = other[0]

    return f, lambda: (held, other), before


@CASES
def view_of_an_argument():
    held = {"v": torch.zeros(2)}

    def f(x):
        y = x * 2
        held["v"] = y[:2]
        y.add_(1)
        return y + 0

    return f, lambda: held, nothing


@CASES
def written_before_and_after():
    held = {"a": torch.zeros(3)}

    def f(x):
        old = held["a"]
        old.add_(1)
        held["a"] = old * 2
        held["a"].sub_(x.detach())
        old.mul_(3)
        return x.sin() + held["a"] + old

    first = held["a"]
    return f, lambda: (held, first), nothing


@CASES
def kept_views_written_later():
    held = {"all": torch.zeros(4), "first": torch.zeros(2)}

    def f(x):
        held["first"].add_(1)
        y = held["all"].clone() * x.sum()
        held["all"] = torch.cat((held["first"], held["first"]))
        held["first"] = held["all"][:2]
        return y

    return f, lambda: held, nothing


@CASES
def through_time():
    held = {"h": torch.zeros(3)}

    def f(x):
        held["h"] = torch.tanh(held["h"] * 0.5 + x)
        return held["h"] * 2

    return f, lambda: held, nothing


@CASES
def results_that_do_not_all_depend():
    held = {"h": torch.zeros(3), "g": torch.ones(3)}

    def f(x):
        held["h"] = held["h"] * 0.5 + x.exp()
        held["g"] = held["g"] * x.sin()
        return x.cos() * 2, held["h"] * 2

    return f, lambda: held, nothing


@CASES
def rebound_by_the_caller():
    held = {"h": torch.zeros(3)}

    def f(x):
        old = held["h"] if held.get("h") is not None else torch.ones(3)
        held["h"] = old * 0.5 + x.detach()
        return x * held["h"]

    def before(number):
        if number >= 2:
            held["h"] = [None, torch.zeros(3, dtype=torch.float64), 2.0, torch.ones(1), nn.Parameter(torch.ones(3))][number - 2]

    return f, lambda: held, before


@CASES
def deleted_and_made_again():
    held = types.SimpleNamespace()

    def f(x):
        if not hasattr(held, "h"):
            held.h = torch.zeros(3)
        held.h = held.h + x.detach()
        return x * held.h

    def before(number):
        if number in (3, 4):
            del held.h

    return f, lambda: held, before


@CASES
def deleted_by_the_function():
    held = {"h": torch.zeros(3)}

    def f(x):
        h = held.pop("h")
        held["h"] = h + x.detach()
        if x.sum() > 0:
            held["other"] = x * 2
        else:
            held.pop("other", None)
        return x * h

    return f, lambda: held, nothing


@CASES
def moved_to_the_end_of_a_dict():
    held = {"a": torch.zeros(3), "b": 1}

    def f(x):
        held["a"] = held.pop("a") + x.detach()
        return x * held["a"]

    return f, lambda: (held, list(held)), nothing
