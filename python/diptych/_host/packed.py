"""How an object is seen as a tree of parts, and what stands in a tree in its place."""
import dataclasses
from typing import Any

import torch
from torch.utils import _pytree


@dataclasses.dataclass
class Packed:
    """An object, a list or a dict in place of which a tree stands (objects.py): its number, an object of that class, whose methods
    and class attributes guards read, or the class itself, as of a list or a dict; and what it holds, None where it comes again."""

    index: int
    like: Any
    held: Any


def field_names(value):
    """Returns the fields of a dataclass that are set, in the order of their declaration, then its other attributes."""
    fields = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
    return (*fields, *(name for name in getattr(value, "__dict__", ()) if name not in fields))


def parts_of(value):
    """Returns {name: part} of a value that is a tree of parts, as C++ sees it; None for a leaf."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: getattr(value, name) for name in value._fields}
    if type(value) in (list, tuple) or isinstance(value, tuple) and type(value) not in _pytree.SUPPORTED_NODES:
        return dict(enumerate(value))
    if isinstance(value, dict):
        return value
    if isinstance(value, torch.nn.Module):
        return {name: tensor for kind in (value.named_parameters, value.named_buffers) for name, tensor in kind(remove_duplicate=False)}
    if type(value) in _pytree.SUPPORTED_NODES:
        return dict(enumerate(_pytree.SUPPORTED_NODES[type(value)].flatten_fn(value)[0]))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: getattr(value, name) for name in field_names(value)}
    return None
