"""Classes of objects that hold tensors."""
import abc
import dataclasses
import types
import typing

import torch
from torch import nn


class Box:
    scale = 2.0

    def __init__(self, **held):
        vars(self).update(held)

    def step(self, x):
        self.h = self.h * 0.5 + x * self.scale
        return self.h


class Derived(Box, abc.ABC):
    def step(self, x):
        return super().step(x) + 1


T = typing.TypeVar("T")


class OfAType(Box, typing.Generic[T]):
    pass


class WithSlots(Box):
    __slots__ = ("other",)


class Written(Box):
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 1)


class Falling(Box):
    def __getattr__(self, name):
        if name == "h":
            return torch.ones(3)
        raise AttributeError(name)


class Equal(Box):
    def __eq__(self, other):
        return isinstance(other, Equal)

    __hash__ = None


class OfModule(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.h = h

    def step(self, x):
        self.h = self.h * 0.5 + x
        return self.h


class OfNamespace(types.SimpleNamespace):
    step = Box.step
    scale = 1.0


@dataclasses.dataclass
class Fields:
    h: torch.Tensor
    scale: float = 1.0
    step = Box.step


KINDS = (Box, Derived, OfAType, WithSlots, Written, Falling, Equal, OfModule, OfNamespace, Fields)
