"""Whether functions do nothing but tensor work, as far as their code says. A hook of a backward pass is traced only then, since
nobody takes back what it would do on the host.

Such code reads its arguments and variables, calls operators, and keeps nothing. What it asks of values, and what it writes to
tensors, its trace finds.
"""
import builtins
import dis
import functools
import math
import types

import torch

_BUILTINS = {"abs", "bool", "float", "int", "len", "max", "min"}
_MODULES = (math, torch, torch.linalg, torch.nn, torch.nn.functional, torch.special)
_FACTS = {
    *("H", "T", "dtype", "device", "double", "e", "float", "functional", "half", "imag", "inf", "int", "layout", "linalg", "long", "mH"),
    *("mT", "nan", "ndim", "nn", "pi", "real", "shape", "special"),
    *("bfloat16", "complex128", "complex64", "float16", "float32", "float64", "int32", "int64"),
}
_NO_OPERATORS = {"data", "item", "record_stream", "retain_grad", "set_data"}
# Parts of the names of instructions that keep something, or that lead to other code than a plain run does.
_KEEPING = ("STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE", "STORE_GLOBAL", "STORE_NAME", "STORE_DEREF", "DELETE_", "IMPORT", "MAKE_FUNCTION", "RAISE", "WITH", "YIELD", "AWAIT", "SEND", "LOAD_BUILD_CLASS", "INPLACE", "PRINT")
_CONSTANTS = (bool, complex, float, int, str, type(None), torch.device, torch.dtype, torch.layout, torch.memory_format)
_MOST_CALLS = 4  # of functions that call each other


@functools.cache
def _operators():
    names = {name.split("::")[1].split(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
    return {name for name in names if not name.startswith("_") and not name.endswith("_")} - _NO_OPERATORS


def is_only_tensor_work(functions):
    """Whether all of them are functions of Python, or partial ones, that call nothing but operators of torch and each other."""
    return all(_is_work(function, 0) for function in functions)


def is_constant(functions):
    """Whether nothing that other code may change says what functions compute, which are only tensor work."""
    return all(isinstance(one, types.FunctionType) and not _variables(one) for one in functions)


def _variables(function):
    """What a function reads besides its arguments, modules and builtins apart."""
    names = set(_names(function.__code__, ("LOAD_GLOBAL",)))
    found = [function.__globals__[name] for name in names if name in function.__globals__]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return [value for value in found if not isinstance(value, types.ModuleType)] + cells + defaults


def _names(code, instructions):
    return [one.argval for one in dis.get_instructions(code) if one.opname in instructions]


def _is_work(function, depth):
    if isinstance(function, functools.partial):
        return _is_work(function.func, depth) and all(map(_is_constant, (*function.args, *function.keywords.values())))
    if type(function) is not types.FunctionType or depth == _MOST_CALLS or vars(function):
        return False
    code = function.__code__
    if code.co_flags & (0x20 | 0x80 | 0x100 | 0x200) or any(_keeps(one) for one in dis.get_instructions(code)):
        return False
    attributes = _names(code, ("LOAD_ATTR", "LOAD_METHOD"))
    if not all(name in _operators() or name in _FACTS for name in attributes) or "out" in _names_of_arguments(code):
        return False
    names = _names(code, ("LOAD_GLOBAL",))
    unknown = [name for name in names if name not in function.__globals__]
    if any(name not in _BUILTINS or not hasattr(builtins, name) for name in unknown):
        return False
    try:
        return all(_is_constant(value) or _is_work(value, depth + 1) for value in _variables(function)) and all(
            any(value is module for module in _MODULES) for value in map(function.__globals__.get, names) if isinstance(value, types.ModuleType)
        )
    except ValueError:  # a cell that holds nothing yet
        return False


def _keeps(instruction):
    name = instruction.opname
    if name == "BINARY_OP":
        return instruction.argrepr.endswith("=")
    return any(part in name for part in _KEEPING)


def _names_of_arguments(code):
    """The names by which code gives arguments, and the texts in its tuples."""
    return {name for value in code.co_consts if isinstance(value, tuple) for name in value if isinstance(name, str)}


def _is_constant(value):
    if type(value) in (list, tuple):
        return all(map(_is_constant, value))
    return type(value) in (*_CONSTANTS, torch.Tensor, torch.nn.Parameter)
