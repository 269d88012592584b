"""Whether torch leaves alone the dispatch keys that traces use. Imports torch alone, since tools/probe_torch.py runs it beside torches that there is no library for."""
import torch
from torch import library

# Where traces record, where they meet real tensors, and the mark of shapes: src/diptych/ops/dispatch_keys.h.
KEYS = ("CustomRNGKeyId", "DeferredInit", "TESTING_ONLY_GenericMode")


def foreign_kernels(key):
    """Returns the operators that have a kernel at a dispatch key."""
    return [name for name in torch._C._dispatch_get_all_op_names() if torch._C._dispatch_has_kernel_for_dispatch_key(name, key)]


def has_fallback(key):
    """Whether something has registered a fallback for a dispatch key: a second one is an error, and aborts where a library is loaded."""
    registered = library.Library("_", "IMPL", key)
    try:
        registered.fallback(library.fallthrough_kernel, key)
    except RuntimeError as error:
        if "multiple backend fallbacks" not in str(error):
            raise
        return True
    registered._destroy()
    return False


def facts():
    """Yields (what should hold, whether it does)."""
    for key in KEYS:
        kernels = foreign_kernels(key)
        yield f"no operator has a kernel at {key}" + (f": {', '.join(kernels[:3])} ..." if kernels else ""), not kernels
        yield f"{key} has no fallback", not has_fallback(key)
