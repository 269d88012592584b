"""torch's batch_norm in a trace, with a momentum that stays open: BatchNorm's without one is 1.0 / float(number of its calls), by
which each call would have a capture of its own."""
import builtins
import functools

import torch
from torch.nn import functional
from torch.nn.modules import batchnorm

from .._host.numbers.floats import OpenFloat, operand
from .._host.register import is_tracing
from .._host.replaced import while_tracing

_torchs = functional.batch_norm


@functools.wraps(_torchs)
def _batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    factor = operand(momentum) if type(momentum) is OpenFloat else None
    is_plain = running_mean is None or running_var is None or running_mean.requires_grad or running_var.requires_grad
    if factor is None or not training or is_plain or input.numel() == 0:  # which changes nothing
        return _torchs(input, running_mean, running_var, weight, bias, training, momentum, eps)
    of_batch = [torch.zeros_like(running_mean), torch.zeros_like(running_var)]
    result = _torchs(input, *of_batch, weight, bias, training=True, momentum=1.0, eps=eps)
    for running, batch in zip((running_mean, running_var), of_batch):  # in the precision of the kernel
        running.copy_(factor * batch.detach().double() + (1 - factor) * running.double())
    return result


def _float(number=0.0, /):
    """float(), but that of a tensor of a trace stays open."""
    return 1.0 * number.item() if isinstance(number, torch.Tensor) and is_tracing() else builtins.float(number)


def _functions():
    return [(functional, "batch_norm", _torchs, _batch_norm), (batchnorm, "float", builtins.float, _float)]


def replace():
    """Has batch_norm keep a momentum open in a trace."""
    while_tracing(_functions)
