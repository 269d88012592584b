"""Picks the library that was built for the torch that is installed, before the linker fails with an obscure message.

A wheel holds the library for one torch beside the package, and those for others, if any, in folders of _cores that are called by
the torch: each fits one minor version, as LibTorch's C++ interface does, and both its CPU and its CUDA builds. A library that was built
for a newer torch than the tests were run with is loaded if that has left the dispatch keys of traces alone, with a warning.
"""
import importlib.machinery
import importlib.util
import sys
import warnings
from pathlib import Path

import torch

from .._build import TORCH_NEWEST, TORCH_VERSION
from . import keys

_CORES = Path(__file__).resolve().parents[1] / "_cores"
_SUFFIXES = tuple(importlib.machinery.EXTENSION_SUFFIXES)


def _minor(version):
    return ".".join(version.split("+")[0].split(".")[:2])


def _others():
    """Returns the libraries for other torches than that of the build, by their minor versions."""
    found = sorted(_CORES.glob("*/_core.*")) if _CORES.is_dir() else []
    return {path.parent.name: path for path in found if path.name.endswith(_SUFFIXES)}


def _load(path):
    """Does what an import of the library from its folder would do, the package's attribute included."""
    package = sys.modules[__package__.rpartition(".")[0]]
    spec = importlib.util.spec_from_file_location(f"{package.__name__}._core", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    package._core = module


def _meet_newer(here):
    """Warns of a torch that nothing was tested with. Errors: ImportError where loading the library would abort the process."""
    if [int(part) for part in here.split(".")] <= [int(part) for part in TORCH_NEWEST.split(".")]:
        return
    words = f"torch {torch.__version__} is newer than {TORCH_NEWEST}, the newest that this diptych was tested with"
    missing = [fact for fact, holds in keys.facts() if not holds]
    if missing:
        raise ImportError(f"{words}, and lacks what it relies on ({missing[0]}); install torch {TORCH_NEWEST}, or a newer diptych")
    warnings.warn(f"{words}; what it relies on is there, but results may differ from eager's: make check-torch runs the tests", stacklevel=2)


def _pick():
    """Loads the library for the torch that is there, if it isn't the one beside the package, and returns the torch that it was built for."""
    here = _minor(torch.__version__)
    if here == _minor(TORCH_VERSION):
        _meet_newer(here)
        return TORCH_VERSION
    others = _others()
    if here not in others:
        built_for = ", ".join((TORCH_VERSION, *others))
        raise ImportError(
            f"this build of diptych is for torch {built_for}, and torch {torch.__version__} is installed; install {'one of these' if others else 'that torch'}, "
            "or a diptych that was built for yours"
        )
    _load(others[here])
    return here


BUILT_FOR = _pick()
