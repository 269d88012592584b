"""Keeps what a module holds while its forward is captured."""
import contextlib

import torch

from .. import _core
from .places import Place, leaves
from .register import is_kept, may_do


def _registries(module):
    """Yields (path, child, dict) for each dict in which a module or one of its children holds tensors."""
    for path, child in module.named_modules():
        for registry in (child._parameters, child._buffers, child.__dict__):
            yield path, child, registry


@contextlib.contextmanager
def kept(module):
    """Gives a module back the tensors that it had. If the forward has bound an attribute to a tensor of the trace,
    which a later run of the graph would not do again, calls run the forward itself. Errors: UserError if they can't. An
    attribute that a hook before the forward computes each time, as that of torch.nn.utils.weight_norm does, is
    excepted."""
    before = [(*where, dict(where[-1])) for where in _registries(module)]
    rebound = []
    try:
        yield
    finally:
        for path, child, registry, held in before:
            for name in [name for name, value in registry.items() if value is not held.get(name) and _is_bound_anew(registry, name, value)]:
                place = Place(registry, name, ".".join(filter(None, (path, name))))
                place.write(held[name]) if name in held else registry.pop(name)
                if registry is not child.__dict__ or not child._forward_pre_hooks:
                    rebound.append(place)
    if rebound and not may_do(f"binds '{rebound[0].path}' to another tensor", rebound):
        raise _core.UserError(
            f"[capture] the forward of {type(module).__name__} binds '{rebound[0].path}' to another tensor, expected the one that it had; change that one "
            "in place, with copy_() or add_(), or return the new one"
        )


def _is_bound_anew(registry, name, value):
    return not is_kept(registry, name) and any(isinstance(leaf, torch.Tensor) and _core.is_stand_in(leaf) for leaf in leaves(value))
