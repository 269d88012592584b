"""What of a process all cases of a folder share, and no case may leave changed."""
import gc
import os
import random
import sys
import weakref

import numpy
import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer
from torch.utils import deterministic

import torch_for_tests  # noqa: F401

_HOOKS = (*(held for name, held in vars(modules).items() if name.startswith("_global_") and isinstance(held, dict)),
          optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks)
_OF_OTHERS = ("PYTEST_", "TORCHINDUCTOR_", "_TORCHINDUCTOR_")  # begin what pytest sets for each case, and Inductor when it is first used
_LEAST = sys.float_info.min


def seed():
    """A case draws the same numbers whether it runs alone or after others."""
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)


def _set_hooks(values):
    for hooks, value in zip(_HOOKS, values, strict=True):
        hooks.clear()
        hooks.update(value)


def _environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(_OF_OTHERS)}


def _set_environment(values):
    for name in _environment().keys() - values.keys():
        del os.environ[name]
    os.environ.update(values)


# How each is read, and how it is put back; None where only who has changed it can do that.
STATE = {
    "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the default device": (torch.get_default_device, lambda device: torch.set_default_device(None)),
    "deterministic algorithms": (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    "filling of uninitialized memory": (lambda: deterministic.fill_uninitialized_memory,
                                        lambda on: setattr(deterministic, "fill_uninitialized_memory", on)),
    "flushing of denormals": (lambda: _LEAST / 2 == 0, torch.set_flush_denormal),
    "anomaly detection": (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    "autocast": (lambda: torch.is_autocast_enabled("cpu"), lambda on: torch.set_autocast_enabled("cpu", on)),
    "inference mode": (torch.is_inference_mode_enabled, None),
    "the precision of matrix products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "warnings that come once": (torch.is_warn_always_enabled, torch.set_warn_always),
    "modes of torch functions": (torch._C._len_torch_function_stack, None),
    "modes of dispatch": (torch._C._len_torch_dispatch_stack, None),
    "hooks of all modules and optimizers": (lambda: [dict(hooks) for hooks in _HOOKS], _set_hooks),
    "a process group": (lambda: torch.distributed.is_available() and torch.distributed.is_initialized(), None),
    "the environment": (_environment, _set_environment),
    "the folder": (os.getcwd, os.chdir),
    "garbage collection": (gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    "the limit of recursion": (sys.getrecursionlimit, sys.setrecursionlimit),
    "traces and profiles": (lambda: (sys.gettrace(), sys.getprofile()), lambda both: (sys.settrace(both[0]), sys.setprofile(both[1]))),
}


_harmless = []  # references to tensors of traces that a case has left to what may keep them; looking again costs most of a second


def _is_harmless(tensor):
    return any(reference() is tensor for reference in _harmless)


def keepers_of_stand_ins():
    """Who keeps tensors of traces that have ended: modules and classes, in words. A compiled function may, as long as it is there."""
    core = sys.modules.get("diptych._core")
    if core is None or all(map(_is_harmless, core.stand_ins_left_behind())):
        return []
    from diptych._host import strays

    gc.collect()
    left = [tensor for tensor in core.stand_ins_left_behind() if not _is_harmless(tensor)]
    owners = [strays.owner(tensor, {id(left)}) for tensor in left]
    _harmless[:] = [reference for reference in _harmless if reference() is not None]
    _harmless.extend(weakref.ref(tensor) for tensor, owner in zip(left, owners) if not owner)
    return [owner for owner in owners if owner]


def read():
    return {name: read() for name, (read, _) in STATE.items()}


def put_back(before):
    """Puts back what is not as it was; says what, from what and to what."""
    changed = []
    for name, (now, put) in STATE.items():
        value = now()
        if value == before[name]:
            continue
        changed.append(f"{name} ({_difference(before[name], value)})")
        if put:
            put(before[name])
    return changed


def _difference(before, after):
    if isinstance(before, dict):
        names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        return ", ".join(f"{name}: {before.get(name)} -> {after.get(name)}" for name in names)
    return f"{before} -> {after}"
