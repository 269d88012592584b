"""Refuses a torch that the library was not built for, before the linker fails with an obscure message."""
import torch

from .._build import TORCH_VERSION


def _release(version):
    return version.split("+")[0].split(".")[:2]


if _release(torch.__version__) != _release(TORCH_VERSION):
    raise ImportError(
        f"this build of diptych is for torch {TORCH_VERSION}, and torch {torch.__version__} is installed; install that "
        "torch, or a diptych that was built for yours"
    )
