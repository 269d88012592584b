"""tensor[index] in a trace, with a tensor i of no dimensions whose value nobody can ask for: in the body of an operator, and in a backward.

torch reads i and takes a view. Here the dimension is taken out of the tensor by an operator that reads i when the graph runs, and the
other indices are torch's as ever. What is taken is a copy that behaves as the view: see Note [Parts] in trace/parts.h.
"""
import torch
from torch.overrides import has_torch_function_unary

from .. import _core


def _is_number(index):
    return isinstance(index, torch.Tensor) and index.dim() == 0 and index.dtype not in (torch.bool, torch.uint8) and not _is_other(index)


def _is_other(index):
    return index.is_floating_point() or index.is_complex() or torch._C._functorch.is_batchedtensor(index)


def _as_tensor(index):
    """A list as torch makes an index of it; tensors may be among its numbers."""
    if not isinstance(index, (list, tuple)) or not any(isinstance(one, torch.Tensor) for one in index):
        return index
    return torch.stack([one.long() if isinstance(one, torch.Tensor) else torch.tensor(one) for one in index])


def _num_indexed(index):
    """How many dimensions of the tensor an index stands for."""
    if index is None or index is Ellipsis or isinstance(index, bool):
        return 0
    if isinstance(index, (list, tuple)):
        index = torch.tensor(index)
    return index.dim() if isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8) else 1


def _split(tensor, index):
    """Returns the indices of the dimensions that tensors of no dimensions take out, and the index into what is left. None where torch
    answers: for a class or a mode that does, which comes back, and for an index that is an error."""
    if has_torch_function_unary(tensor):
        return None
    parts = [_as_tensor(part) for part in index] if isinstance(index, tuple) else [index]
    sizes = [_num_indexed(part) for part in parts]
    num_free = tensor.dim() - sum(sizes)
    if num_free < 0 or sum(part is Ellipsis for part in parts) > 1:
        return None
    indices, rest = [None] * tensor.dim(), []
    dim = last = 0
    for part, size in zip(parts, sizes):
        if _is_number(part):
            indices[dim] = _core.snapshot(part.long())  # eager reads it here, and it may be changed in place afterwards
            last = dim + 1
        else:
            rest.append(part)
        dim += num_free if part is Ellipsis else size
    return indices[:last], () if all(part is Ellipsis for part in rest) else tuple(rest)


def _get(tensor, index):
    split = _split(tensor, index)
    if split is None:
        return _core.torchs_item(tensor, index)
    indices, rest = split
    part = _core.take_part(tensor, indices) if indices else tensor
    return part[rest] if rest else part


def _set(tensor, index, value):
    split = _split(tensor, index)
    if split is None:
        return _core.set_torchs_item(tensor, index, value)
    indices, rest = split
    if rest:
        part = _core.take_part(tensor, indices) if indices else tensor
        part[rest] = value
    elif not (isinstance(value, torch.Tensor) and _core.shows_part(value, tensor, indices)):  # as after tensor[i] += value
        with torch.no_grad():
            part = torch.ops.aten.index(tensor, indices)
        part[...] = value
        tensor.index_put_(indices, part)


def replace():
    """Has tensor[index] ask here first, where torch would read the index."""
    _core.route_subscripts(_get, _set)
