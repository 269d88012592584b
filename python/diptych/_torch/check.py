"""Picks the library that was built for the torch that is installed, before the linker fails with an obscure message.

A wheel holds the library for one torch beside the package, and those for others, if any, in folders of _cores that are called by
the torch: each fits one minor version, as LibTorch's C++ interface does, and both its CPU and its CUDA builds. A library that was built
for a newer torch than the tests were run with is loaded if that has left the dispatch keys of traces alone, with a warning.
"""
import importlib.machinery
import importlib.util
import re
import sys
import warnings
from pathlib import Path

try:
    import torch
except (ImportError, OSError) as error:  # a CUDA build whose libraries are not installed, or no torch
    raise ImportError(f"diptych needs torch, and torch can't be imported: {error}; install torch with what it requires, by pip install torch") from error

from .._build import TORCH_NEWEST, TORCH_VERSION
from . import keys

_CORES = Path(__file__).resolve().parents[1] / "_cores"
_NAMES = {f"_core{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES}  # of a library for this Python


def _minor(version):
    return ".".join(version.split("+")[0].split(".")[:2])


def _others():
    """Returns the libraries for other torches than that of the build, by their minor versions."""
    found = sorted(_CORES.glob("*/_core.*")) if _CORES.is_dir() else []
    return {path.parent.name: path for path in found if path.name in _NAMES}


def _load(path):
    """Does what an import of the library from its folder would do, the package's attribute included."""
    package = sys.modules[__package__.rpartition(".")[0]]
    spec = importlib.util.spec_from_file_location(f"{package.__name__}._core", path)
    try:
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(spec.name, None)
        if isinstance(error, ImportError) and "undefined symbol" in str(error):
            raise ImportError(f"the library of this diptych does not fit torch {torch.__version__}: {error}; it is for torch {_built_for()}: install one of these") from error
        raise
    package._core = module


def _beside_package():
    """Returns the library in the package's folder. Errors: ImportError if those that are there are for other Pythons."""
    found = sorted(_CORES.parent.glob("_core.*"))
    path = next((path for path in found if path.name in _NAMES), None)
    others = [match[1] for path in found if (match := re.search(r"cpython-(\d+)", path.name))]
    if path is None and others:
        versions = ", ".join(f"{other[0]}.{other[1:]}" for other in others)
        raise ImportError(f"this build of diptych is for Python {versions}, and this is Python {sys.version_info[0]}.{sys.version_info[1]}; install the wheel for it")
    return path


def _refuse_second(path):
    """Two libraries would register the same operators, which aborts the process where the second one is loaded."""
    if not torch._C._jit_get_schemas_for_operator("diptych::checked"):
        return
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    loaded = sorted({line.split()[-1] for line in lines if "/_core." in line})
    if str(path) not in loaded:
        raise ImportError(f"this process has loaded another diptych ({', '.join(loaded) or 'of a C++ program'}), and torch takes its operators once; import one of them in a process")


def _built_for():
    return ", ".join((TORCH_VERSION, *_others()))


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
    """Loads the library for the torch that is there, and returns the torch that it was built for."""
    here, others = _minor(torch.__version__), _others()
    is_own = here == _minor(TORCH_VERSION)
    if is_own:
        _meet_newer(here)
    elif here not in others:
        raise ImportError(
            f"this build of diptych is for torch {_built_for()}, and torch {torch.__version__} is installed; install {'one of these' if others else 'that torch'}, "
            "or a diptych that was built for yours"
        )
    path = _beside_package() if is_own else others[here]
    if path is not None and f"{__package__.rpartition('.')[0]}._core" not in sys.modules:
        _refuse_second(path.resolve())
        _load(path)
    return TORCH_VERSION if is_own else here


BUILT_FOR = _pick()
