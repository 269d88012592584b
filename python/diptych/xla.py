"""Training steps that live on the devices of XLA.

    with diptych.xla.capture_step(optimizer, loss_of, max_gradient_norm=1.0) as step:
        for batch in batches:
            losses.append(step(model, batch).loss)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
"""
import dataclasses
import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from . import _core
from ._core import DeviceTensor
from ._compiled import as_written
from ._modules import forward_of

__all__ = ["DeviceTensor", "Mesh", "Step", "StepResult", "capture_step"]

_Sharding = Sequence[str | None]


@dataclasses.dataclass(frozen=True)
class Mesh:
    """Devices in a grid with named axes: Mesh({"data": 2, "model": 4}), or the names and the sizes as two sequences. Devices are
    numbered along the last axis first; a mesh without axes is the first device alone."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __init__(self, axes: Mapping[str, int] | Sequence[str] = (), sizes: Sequence[int] | None = None) -> None:
        is_dict = isinstance(axes, Mapping)
        if isinstance(axes, str) or is_dict and sizes is not None or not is_dict and len(axes) != len(sizes or ()):
            raise _core.UserError(
                f"[xla] a mesh got {axes!r} as its axes and {sizes!r} as their sizes, expected a dict of sizes by name, or two sequences; write "
                "Mesh({'data': 2})"
            )
        object.__setattr__(self, "names", tuple(axes))
        object.__setattr__(self, "sizes", tuple(axes.values()) if is_dict else tuple(sizes or ()))

    @property
    def num_devices(self) -> int:
        """The product of the sizes."""
        return int(torch.Size(self.sizes).numel())


@dataclasses.dataclass(frozen=True)
class StepResult:
    """What a step returns, perhaps before it is computed: the loss; what else the function returned, in its structure, with a
    DeviceTensor for each tensor, or None; and the norm of the gradients before clipping, or None without max_gradient_norm."""

    loss: DeviceTensor
    extras: Any
    gradient_norm: DeviceTensor | None


def _sync_at_end(core, process):
    if os.getpid() == process:  # a forked process has no devices
        core.sync()


class Step:
    """A training step, made by capture_step(). Leaving it as a context manager, dropping it and the end of Python sync it.
    Threads: one call at a time, from any."""

    def __init__(self, core: _core.DeviceStep, optimizer: torch.optim.Optimizer, first: tuple[Any, ...]) -> None:
        self._core = core
        self._optimizer = optimizer
        self._first = first
        weakref.finalize(self, _sync_at_end, core, os.getpid())

    def __call__(self, /, *args: Any, **kwargs: Any) -> StepResult:
        """Does one step: forward, backward, clipping, update. Returns as soon as the program has begun; arguments may be changed
        then. Errors: UserError for what a graph or the program can't hold, named, and for a parameter that the host has changed
        since the last step without a sync(); what the function raises. Until the program begins, nothing has changed."""
        loss, extras, norm = self._core(*self._first, *args, **kwargs)
        self._optimizer._opt_called = True  # by which a learning rate's scheduler knows that there was a step before its own
        return StepResult(loss, extras, norm)

    def __enter__(self) -> "Step":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self.sync()
        except _core.UserError:
            if error is None:
                raise

    def sync(self) -> None:
        """Copies parameters, buffers and the optimizer's state to the host, where state_dict(), eager or another backend finds
        them. Waits for the steps that have begun. Errors: UserError if one of them failed."""
        self._core.sync()

    def state_bytes(self, device: int = 0) -> int:
        """The bytes of parameters, buffers and optimizer's state on one device of the mesh."""
        return self._core.state_bytes(device)

    @property
    def num_programs(self) -> int:
        """How many programs were compiled: one for each structure, dtype and size of the arguments."""
        return self._core.num_programs


def _rules_from(shardings):
    """The rules as pairs of a pattern and of the axis, or "", of each dimension."""
    rules = []
    for pattern, sharding in shardings.items() if isinstance(shardings, Mapping) else shardings:
        if isinstance(sharding, str) or not all(axis is None or isinstance(axis, str) for axis in sharding):
            raise _core.UserError(
                f"[xla] the sharding of '{pattern}' is {sharding!r}, expected the axis of each dimension from the first, or None; write "
                "(None, 'model')"
            )
        rules.append((pattern, [axis or "" for axis in sharding]))
    return rules


def capture_step(
    optimizer: torch.optim.Optimizer,
    loss: Callable[..., Any],
    *,
    max_gradient_norm: float | None = None,
    norm_type: float = 2.0,
    partition: str = "default",
    argument_names: Sequence[str] = (),
    mesh: Mesh | None = None,
    shardings: Mapping[str, _Sharding] | Iterable[tuple[str, _Sharding]] = (),
    optimizer_axis: str = "",
    draws: str = "host",
    name: str = "step",
) -> Step:
    """Makes a step function of a torch.optim.SGD, Adam or AdamW: forward, backward, clipping and update are one XLA program on
    the devices of a PJRT plugin. `loss` takes any trees of tensors, constants and modules, and returns the loss, or a tuple of
    the loss and of any tree of what else it computed; a torch.nn.Module that returns that will do, too. Parameters (the tensors
    of the optimizer), what the function writes to (BatchNorm's statistics) and the optimizer's state are sent there once and
    stay: on the host they keep the values of the last sync(). After it, the optimizer's state_dict() and the module's are what
    eager would have.

    Learning rates are read in each step, so schedulers work; other options are parts of the program, so that one which changes in
    each step, as OneCycleLR's momentum does without cycle_momentum=False, costs a program in each. Differences from eager:
    gradients are not kept, random numbers are drawn before the program begins (see `draws`), and what is written through
    Tensor.data between two steps without a sync() is not seen. A function is captured once for each structure, dtype and size of
    its arguments, guarded as those of aot_function() are; there is no run of the function itself for what a graph can't hold.

    max_gradient_norm: scales all gradients down so that the norm of all of them together is at most this; infinity only measures it.
    norm_type: the p of the p-norm; infinity takes the largest absolute value.
    partition: what the forward saves for the backward, as in Options.
    argument_names: the names that the paths of the arguments start with, in order; by default those of the function's parameters.
    mesh: the devices of the step; by default the first device alone.
    shardings: how tensors are split over the mesh, by name, "*" standing for any text: {"model.blocks.*.w1": (None, "model"),
    "batch": ("data",)} has the axis of each dimension. The first rule that fits counts; what fits none is on every device.
    optimizer_axis: an axis over which the optimizer's state is split besides.
    draws: "host" draws random numbers as eager does, number for number, before the program begins; "device" has the program draw them, from a
    seed by torch's generator.
    name: names the step in logs, graphs and errors.
    Errors: UserError for another optimizer, for options and hooks of it that a step can't hold, a norm or bound that is not
    positive, a mesh that has no sizes."""
    loss = as_written(loss)
    first: tuple[Any, ...] = ()
    if isinstance(loss, torch.nn.Module):
        first, loss = (loss,), forward_of(loss)
    mesh = mesh if mesh is not None else Mesh()
    core = _core.DeviceStep(
        loss, optimizer, max_gradient_norm=max_gradient_norm, norm_type=norm_type, partition=partition, argument_names=list(argument_names),
        axes=list(mesh.names), sizes=list(mesh.sizes), shardings=_rules_from(shardings), optimizer_axis=optimizer_axis,
        draws=draws, name=name,
    )  # fmt: skip
    return Step(core, optimizer, first)
