"""DistributedDataParallel in a trace: its forward tells the reducer, which no graph holds, that a backward comes."""
import functools

from .. import _core
from .._host.register import is_tracing


def _refuse_in_traces(torchs):
    @functools.wraps(torchs)
    def pre_forward(self, *args, **kwargs):
        if is_tracing():
            raise _core.UserError(
                "[capture] the function calls a DistributedDataParallel, whose forward prepares the reduction of the gradients on the host, which no graph "
                "does; compile the module inside: DistributedDataParallel(diptych.aot_module(module))"
            )
        return torchs(self, *args, **kwargs)

    return pre_forward


def replace():
    """Has DistributedDataParallel refuse to be traced, where torch has it."""
    try:
        from torch.nn.parallel.distributed import DistributedDataParallel
    except ImportError:  # a torch that was built without torch.distributed
        return
    DistributedDataParallel._pre_forward = _refuse_in_traces(DistributedDataParallel._pre_forward)
