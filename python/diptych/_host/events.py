"""Lists what a traced function may ask of the host and another call may get another answer to: random numbers, the
time, files."""
import _thread
import builtins
import contextvars
import datetime
import io
import os
import posix
import random
import sys
import threading
import time

import torch

# The kinds of events, in the words of a message.
DRAWS, SEEDS, SETS, MEMORY, LAZY, SETTINGS, CLOCK, ENVIRONMENT, FILES, BY_NAME, CONTEXT, HOOKS, MAKES = (
    "draws random numbers", "reads the state of torch's random numbers", "seeds a generator of torch's or sets its state", "reads where a tensor lies", "asks whether a tensor is conjugated or negated lazily", "reads a setting of torch", "reads the clock", "reads the environment", "reads a file", "reads variables by name", "reads what belongs to a context or a thread", "sets what a backward does to a tensor that it is given or captures", None)

_OF_TIME = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns", "thread_time",
            "thread_time_ns", "localtime", "gmtime", "ctime", "asctime", "strftime", "clock_gettime", "clock_gettime_ns")
_OF_FILES = ("open", "read", "stat", "lstat", "listdir", "scandir", "access", "readlink")

_IMPORTS = frozenset(("importlib", "zipimport", "_frozen_importlib", "_frozen_importlib_external"))
# Packages that ask without a result that depends on it: the answer is printed, or finds a module.
_SILENT = frozenset(("logging", "warnings", "linecache", "traceback", "inspect", "tokenize", "torch", "functorch", "numpy", "diptych"))
# Modules of torch that call what they wrap.
_WRAPPERS = frozenset(("torch._compile", "torch._dynamo.eval_frame"))
# Modules of torch that ask on behalf of their caller.
_ASKS_FOR_USER = frozenset(("torch.random", "torch._tensor", "torch.utils.dlpack"))


def _methods(kind, *names):
    return [vars(kind)[name] for name in names if name in vars(kind)]


def _functions(module, names):
    return [getattr(module, name) for name in names if hasattr(module, name)]


def watched():
    """Returns [(callable, the kind of event that a call of it is)]: builtins, methods of builtin classes, and Python
    functions."""
    of_random = _methods(random.Random.__mro__[1], "random", "getrandbits", "seed", "setstate", "getstate")
    table = {
        DRAWS: [*of_random, *_functions(posix, ("urandom", "getrandom")), *_uuid()],
        SEEDS: _methods(torch._C.Generator, "get_state", "initial_seed", "seed"),
        SETS: _methods(torch._C.Generator, "manual_seed", "set_state"),
        MEMORY: [*_methods(torch._C.TensorBase, "data_ptr", "storage_offset"), *_functions(torch._C, ("_to_dlpack", "_to_dlpack_versioned"))],
        LAZY: [*_methods(torch._C.TensorBase, "is_conj", "is_neg"), torch.is_conj, torch.is_neg],
        SETTINGS: [torch.get_num_threads, torch.get_num_interop_threads, torch.get_float32_matmul_precision],
        CLOCK: [*_functions(time, _OF_TIME), *_methods(datetime.datetime, "now", "utcnow"), *_methods(datetime.date, "today"), posix.times],
        ENVIRONMENT: [*_methods(os._Environ, "__getitem__", "__setitem__", "__delitem__", "__iter__", "__len__", "copy"), *_functions(posix, ("getcwd", "getloadavg"))],
        FILES: [io.open, builtins.input, *_functions(posix, _OF_FILES), *_methods(io.TextIOWrapper, "read", "readline"),
                *_methods(io.BufferedReader, "read", "readline")],
        BY_NAME: [builtins.globals, builtins.eval, builtins.exec],
        CONTEXT: [*_methods(contextvars.ContextVar, "get", "set", "reset"), _thread.get_ident, threading.current_thread],
        HOOKS: _methods(torch.Tensor, "register_hook", "register_post_accumulate_grad_hook") + _methods(torch._C.TensorBase, "retain_grad"),
        MAKES: _methods(random.Random, "__init__"),
    }
    return [(function, kind) for kind, functions in table.items() for function in functions]


def _uuid():
    try:
        import _uuid
    except ImportError:
        return []
    return _functions(_uuid, ("generate_time_safe",))


STAND_INS = {}  # code of ours that stands in the place of watched functions, and is called by whoever calls them; by id, since not all code has a hash


def culprit(frame, kind, root=None):
    """Returns the frame that is answerable for an event; None if no code is whose results could depend on the answer,
    as while a module is imported. `root`: the frame where the capture began."""
    above = frame
    while above is not None and above is not root:
        if _package(above) in _IMPORTS:
            return None
        above = above.f_back
    if kind in (BY_NAME, CONTEXT) and _package(frame) in sys.stdlib_module_names:
        return None
    while frame is not None:
        if id(frame.f_code) in STAND_INS:
            frame = frame.f_back
            continue
        package = _package(frame)
        is_asked_for = kind in (SEEDS, SETS, MEMORY) and frame.f_globals.get("__name__") in _ASKS_FOR_USER
        if kind == SETS and frame.f_globals.get("__name__") in _WRAPPERS:
            frame = frame.f_back
            continue
        if package in _SILENT and not is_asked_for:
            return None
        if package not in _SILENT and package not in sys.stdlib_module_names:
            return frame
        frame = frame.f_back
    return None


def _package(frame):
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def place(frame):
    """Returns the place of a frame, in the form that the nodes of a graph have it."""
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} {frame.f_code.co_name}"
