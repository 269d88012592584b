"""Pairs in files, their parameters beside them, and pairs for other programs."""
import os

import torch

from . import _core


def _tensors(parameters):
    if parameters is None:
        return {}
    if isinstance(parameters, torch.nn.Module):
        parameters = parameters.state_dict()
    return {name: tensor.detach() for name, tensor in parameters.items()}


def save(pair, path, parameters=None):
    """Writes a pair's graphs and signature to `path`, and `parameters` (a module, or tensors by name) to
    `path`.safetensors, each whole or not at all. A C++ program reads them by load_with_tensors(). Errors: UserError for a
    graph or a tensor that no file can hold, before either file is touched, and for files that can't be written."""
    if parameters is None:
        _core.save_pair(pair, os.fspath(path))
    else:
        _core.save_with_tensors(pair, _tensors(parameters), os.fspath(path))


def load(path, with_parameters=False):
    """Reads a pair; with_parameters, returns (pair, tensors by name): see tensors_of_argument().
    Errors: UserError for a file that is missing, damaged or of another kind."""
    return _core.load_with_tensors(os.fspath(path)) if with_parameters else _core.load_pair(os.fspath(path))


def export_stablehlo(pair, folder, parameters=None):
    """Writes a folder for JAX, or any program that runs StableHLO: forward.mlir, backward.mlir, manifest.json, which says
    what each parameter and result is, constants.safetensors, and parameters.safetensors with `parameters` (a module, or
    tensors by name) and the free variables. The folder is written whole or not at all, in place of an earlier export.
    Errors: UserError for what has no place in a module (see Graph.stablehlo()), a parameter that does not fit its slot,
    and a folder that holds something else or can't be written."""
    _core.export_stablehlo(pair, os.fspath(folder), _tensors(parameters))
