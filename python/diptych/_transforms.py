"""Leaves to torch's own transforms what they do better than a graph: gradients and rules of calls inside torch.func and
vmap."""
import torch
from torch.utils import _pytree

from ._core import UserError
from ._tree import ABSENT, fill_gradients


def value_and_grad(function, has_aux, first, args, kwargs):
    """Returns (value, gradients) of function(first, *args, **kwargs) while a transform of torch.func is active; with
    has_aux, ((value, extras), gradients)."""
    gradients, value = torch.func.grad_and_value(function, has_aux=has_aux)(first, *args, **kwargs)
    return value, gradients


class _Rule:
    """A custom_vjp's rules on flat tensors, for one call."""

    def __init__(self, fwd, bwd, args):
        self.fwd, self.bwd, self.args = fwd, bwd, args
        self.leaves, self.tree = _pytree.tree_flatten(args)
        self.places = self._places()
        self.result = None

    def _places(self):
        """Returns the indices of the tensors among the leaves, in the order in which gradients are returned: that of
        sorted keys."""
        free = [place for place, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        places = []
        for tensor in fill_gradients(self.args, self.args):
            place = next((place for place in free if self.leaves[place] is tensor), None)
            if place is None:
                raise UserError(
                    "[custom_vjp] an argument holds a tensor where torch.utils._pytree sees none, expected lists, tuples, dicts and registered "
                    "classes inside transforms of torch; pass the tensor itself"
                )
            free.remove(place)
            places.append(place)
        return places

    def tensors(self):
        return [self.leaves[place] for place in self.places]

    def forward(self, tensors):
        """Returns the tensors of what fwd returns, and its residuals."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        result, residuals = self.fwd(*_pytree.tree_unflatten(leaves, self.tree))
        flat, self.result = _pytree.tree_flatten(result)
        return tuple(flat), residuals

    def backward(self, residuals, tangents):
        """Returns one gradient per tensor of the arguments, None for no gradient."""
        gradients = fill_gradients(self.bwd(residuals, _pytree.tree_unflatten(tangents, self.result)), self.args)
        return [None if gradient is ABSENT else gradient for gradient in gradients]


def custom_vjp(fwd, bwd, args):
    """Returns the result of a custom_vjp on tensors that torch.func, vmap or a class of their own wraps; the rules
    differentiate it. The backward calls fwd again for the residuals, with the same random numbers as the first time, so
    that it can itself be differentiated."""
    rule = _Rule(fwd, bwd, args)

    class CustomVjp(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*tensors):
            rule.random_state = torch.get_rng_state()
            return rule.forward(tensors)[0]

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, *tangents):
            with torch.random.fork_rng(devices=[]):
                torch.set_rng_state(rule.random_state)
                _, residuals = rule.forward(ctx.saved_tensors)
            return tuple(rule.backward(residuals, list(tangents)))

    return _pytree.tree_unflatten(list(CustomVjp.apply(*rule.tensors())), rule.result)
