"""Pairs in files, and their parameters beside them."""
import os

import torch

from . import _core


def save(pair, path, parameters=None):
    """Writes a pair's graphs and signature to `path`, and `parameters` (a module, or tensors by name) to
    `path`.safetensors, each whole or not at all. A C++ program reads them by load_with_tensors(). Errors: UserError for a
    graph or a tensor that no file can hold, before either file is touched, and for files that can't be written."""
    if isinstance(parameters, torch.nn.Module):
        parameters = parameters.state_dict()
    if parameters is None:
        _core.save_pair(pair, os.fspath(path))
    else:
        _core.save_with_tensors(pair, {name: tensor.detach() for name, tensor in parameters.items()}, os.fspath(path))


def load(path, with_parameters=False):
    """Reads a pair; with_parameters, returns (pair, tensors by name): see tensors_of_argument().
    Errors: UserError for a file that is missing, damaged or of another kind."""
    return _core.load_with_tensors(os.fspath(path)) if with_parameters else _core.load_pair(os.fspath(path))
