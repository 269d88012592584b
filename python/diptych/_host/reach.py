"""What the gradients of a function's results reach of what it keeps.

Note [One node]: the results of a captured call have one node in autograd, so a backward of any of them goes to all that the call was
given, and frees the graph behind it. Eager's goes only to what the result depends on. So a tensor with a history that a function keeps
is given to a capture with its history if each of the results depends on it; without, if nothing that the function makes depends on it,
as on a tensor that is only replaced, or detached first. Else the function itself runs. Each trace shows for itself which it is.
"""
import torch
from torch.utils import _pytree

CONNECTED, SEVERED, APART = "connected", "severed", "apart"
OBJECTS = "objects"  # stands for all objects together
_MOST_NODES = 100_000


def has_history(value):
    return isinstance(value, torch.Tensor) and value.grad_fn is not None


def severed(value, made):
    """Returns the tensors of a tree without their history: another tensor on the same memory, which requires grad as before. Adds these
    to `made`, {id of a tensor: (the one without history, the tensor)}."""

    def without(leaf):
        if not has_history(leaf):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = (leaf.detach().requires_grad_(), leaf)
        return made[id(leaf)][0]

    return _pytree.tree_map(without, value)


def misjudged(given, are_severed, objects, result, kept):
    """Returns what the tensors of a result depend on in other ways than was taken for granted, {number of a place, or OBJECTS: CONNECTED,
    SEVERED or APART}. `given` is what the places held in a trace, of which those in `are_severed` without history, and `objects` what the
    objects held; `kept` is what the function has left in both."""
    nodes = {key: _nodes_of(value, key in are_severed) for key, value in enumerate(given)}
    nodes[OBJECTS] = _nodes_of(objects, False)
    wanted = set().union(*nodes.values())
    if not wanted:
        return {}
    of_results = [_reached(leaf.grad_fn, wanted) for leaf in _pytree.tree_leaves(result) if has_history(leaf)]
    of_all = set().union(*of_results, *(_reached(leaf.grad_fn, wanted) for leaf in _pytree.tree_leaves(kept) if has_history(leaf)))
    wrong = {}
    for key, some in nodes.items():
        verdict = SEVERED if not some & of_all else CONNECTED if all(some <= reached for reached in of_results) else APART
        if some and verdict is not (SEVERED if key in are_severed else CONNECTED):
            wrong[key] = verdict
    return wrong


def _nodes_of(value, is_severed):
    """Returns the nodes of autograd of the tensors of a trace in a tree that stand for tensors with a history; with `is_severed` for those
    that have lost theirs, which are leaves."""
    tensors = [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor) and leaf.requires_grad and (is_severed or leaf.grad_fn is not None)]
    return {torch.autograd.graph.get_gradient_edge(tensor).node for tensor in tensors}


def _reached(start, wanted):
    """Returns those of the nodes `wanted` that a node leads to."""
    met, open_ends = {start}, [start]
    while open_ends and len(met) < _MOST_NODES:
        for following, _ in open_ends.pop().next_functions:
            if following is not None and following not in met:
                met.add(following)
                open_ends.append(following)
    return wanted & met
