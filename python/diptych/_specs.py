"""Captures from types alone: specs, and the tensors of torch's that are no more than types: fake ones, and meta tensors."""
import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree

from . import _core


class Spec(torch.Tensor):
    """What spec() returns. It differs from a tensor by what it prints; the bindings take it for one."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"spec({_core.type_of(self)}{', requires_grad=True' if self.requires_grad else ''})"


def _with_class(tensor, kind):
    tensor.__class__ = kind
    return tensor


def spec(sizes: Sequence[int], dtype: torch.dtype | str = "f32", device: torch.device | str = "cpu", requires_grad: bool = False) -> torch.Tensor:
    """Returns a contiguous tensor of these sizes, without memory, for captures: capture(f, spec((8, 16), "bf16", "cuda")).
    Its device need not be there. dtype: a torch.dtype, or its name in a graph's text, such as f32, bf16 and i64.
    Errors: UserError for a negative size and an unknown dtype; RuntimeError that says "a spec has no elements" for whoever
    reads or writes its memory, outside of a capture. Source: jax.ShapeDtypeStruct."""
    dtype = _core.dtype_from_name(dtype) if isinstance(dtype, str) else dtype
    return _with_class(_core.spec(sizes, dtype, torch.device(device)), Spec).requires_grad_(requires_grad)


def _spec_like(tensor, device):
    if any(isinstance(size, torch.SymInt) for size in tensor.shape):
        raise _core.UserError(f"[spec] got a FakeTensor of sizes {tuple(tensor.shape)}, expected integers; make it without a ShapeEnv, or pass diptych.spec()")
    return _with_class(_core.spec_like(tensor, device), torch.nn.Parameter if isinstance(tensor, torch.nn.Parameter) else Spec)


def _device_of(tensor):
    return tensor.fake_device if isinstance(tensor, FakeTensor) else tensor.device


def _modules_of(function, leaves):
    owner = function if isinstance(function, torch.nn.Module) else getattr(function, "__self__", None) if inspect.ismethod(function) else None
    return [module for module in (owner, *leaves) if isinstance(module, torch.nn.Module)]


class _Taken:
    """Specs in place of tensors that are types alone: one for each tensor, so that what was one tensor is one spec."""

    def __init__(self, tensors):
        devices = {_device_of(tensor) for tensor in tensors} - {torch.device("meta")}
        self._device = max(devices, key=lambda device: device.type != "cpu", default=None)
        self._specs = {}  # by id: the spec, and the tensor, which keeps its id
        self.is_needed = any(self._is_type_alone(tensor) for tensor in tensors)

    def _is_type_alone(self, tensor):
        return isinstance(tensor, FakeTensor) or (tensor.is_meta and self._device is not None)

    def __call__(self, tensor):
        if not self._is_type_alone(tensor):
            return tensor
        if id(tensor) not in self._specs:
            device = _device_of(tensor)
            self._specs[id(tensor)] = _spec_like(tensor, self._device if device.type == "meta" and self._device else device), tensor
        return self._specs[id(tensor)][0]


@contextlib.contextmanager
def types_taken(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Has FakeTensors be specs, in arguments and in modules that are called or given, as long as it lives; gives the arguments.
    A meta tensor lies where the other tensors lie, on the device that is not the CPU if there are two; where all are meta
    tensors they stay so."""
    try:
        leaves = _pytree.tree_leaves((args, kwargs))
    except RecursionError:  # what holds itself, or is nested too deep, is refused by name where it is read
        leaves = []
    registries = {
        id(registry): registry
        for module in _modules_of(function, leaves)
        for child in module.modules()
        for registry in (child._parameters, child._buffers)
    }
    kept = [(registry, name, tensor) for registry in registries.values() for name, tensor in registry.items() if tensor is not None]
    take = _Taken([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)] + [tensor for _, _, tensor in kept])
    if not take.is_needed:
        yield args, kwargs
        return
    try:
        for registry, name, tensor in kept:
            registry[name] = take(tensor)
        yield _pytree.tree_map_only(torch.Tensor, take, (args, kwargs))
    finally:
        for registry, name, tensor in kept:
            registry[name] = tensor
