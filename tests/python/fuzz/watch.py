"""What a program's text uses to make tensors and to write down what it sees."""
import math

import torch


def make(sizes, number):
    """A leaf whose elements follow from its sizes and a number."""
    return (torch.arange(1.0, math.prod(sizes) + 1) * (0.37 + 0.11 * number)).cos().view(sizes).contiguous()


VERSION_WORDS = ("modified by an inplace operation", "has been modified inplace", "backward through the graph a second time")


def is_of_versions(error):
    """Whether autograd refuses a backward because of what has been freed or changed since the forward."""
    return any(words in str(error) for words in VERSION_WORDS)


class Refused(Exception):
    """A backward is: which gradients have been given by then is the engine's affair, so a program looks at no more of that call's."""

    MARK = "a backward of what has been freed or changed is refused"


class Swap:
    """Puts into a list what is made inside a context."""

    def __init__(self, holder, new):
        self.holder, self.new = holder, new

    def __enter__(self):
        self.holder[0] = self.new()

    def __exit__(self, *error):
        self.holder[0] = torch.ones(3)


def snapshot(value):
    """A value as plain data: of a tensor all that a caller can see of it."""
    if isinstance(value, (list, tuple)):
        return [snapshot(part) for part in value]
    if not isinstance(value, torch.Tensor):
        return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__
    plain = value.detach().resolve_conj().resolve_neg()
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    strides = [stride for size, stride in zip(value.shape, value.stride()) if size > 1]
    facts = [str(value.dtype), list(value.shape), strides, value.requires_grad, value.is_leaf]
    return {"facts": facts, "values": plain.double().reshape(-1).tolist()}


def difference(expected, got, path=""):
    """Where two snapshots differ first, or None."""
    if type(expected) is not type(got):
        return f"{path}: {type(expected).__name__} and {type(got).__name__}"
    if isinstance(expected, dict):
        if expected["facts"] != got["facts"]:
            names = ("dtype", "sizes", "strides", "requires_grad", "is_leaf")
            return next(f"{path}: {name}: {a} and {b}" for name, a, b in zip(names, expected["facts"], got["facts"]) if a != b)
        return difference(expected["values"], got["values"], f"{path}: values") if not _close(expected["values"], got["values"]) else None
    if isinstance(expected, list):
        if len(expected) != len(got):
            return f"{path}: {len(expected)} and {len(got)} parts"
        found = (difference(a, b, f"{path}[{place}]") for place, (a, b) in enumerate(zip(expected, got)))
        return next((text for text in found if text), None)
    if isinstance(expected, float):
        return None if _close([expected], [got]) else f"{path}: {expected:.6g} and {got:.6g}"
    return None if expected == got else f"{path}: {expected} and {got}"


#: How far apart numbers may be, relative to the largest; judge.py widens it for programs with halves, whose kernels round in other places.
tolerance = [2e-5]


def _close(expected, got):
    scale = max([1.0, *(abs(value) for value in expected if math.isfinite(value))])
    return all(a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= tolerance[0] * scale for a, b in zip(expected, got))
