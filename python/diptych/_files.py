"""Pairs in files, and their parameters beside them."""
import os

import torch

from . import _core


def _beside(path):
    return f"{os.fspath(path)}.safetensors"


def save(pair, path, parameters=None):
    """Writes a pair's graphs and signature to `path`, and `parameters` (a module, or tensors by name) to
    `path`.safetensors, each whole or not at all. A C++ program reads them by load_pair() and load_tensors()."""
    if isinstance(parameters, torch.nn.Module):
        parameters = parameters.state_dict()
    if parameters is not None:
        _core.save_tensors({name: tensor.detach() for name, tensor in parameters.items()}, _beside(path))
    _core.save_pair(pair, os.fspath(path))


def load(path, with_parameters=False):
    """Reads a pair; with_parameters, returns (pair, tensors by name).
    Errors: UserError for a file that is missing, damaged or of another kind."""
    pair = _core.load_pair(os.fspath(path))
    return (pair, _core.load_tensors(_beside(path))) if with_parameters else pair
