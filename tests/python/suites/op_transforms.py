"""PyTorch's operator database under torch.func: each sample of an operator in forward mode, in a batch, and both, the operator compiled, compared with eager.

    python tests/python/suites/op_transforms.py [--samples 2] [--only add,mul] [--list]

    jvp             values and tangents, and their first gradients by autograd
    vmap            a batch of every tensor, and gradients by autograd through it
    vmap of one     a batch of the first tensor, the others the same for all elements
    vmap of jvp     tangents of elements
    jvp of vmap     the tangent of a batch
    vmap of grad    gradients of elements

What eager refuses is not asked. An outcome "original" is eager's result, which the operator itself gave without a graph or a rule.
"""
from functools import partial

import judge
import suite
import torch
import torch._decomp.decompositions_for_jvp  # noqa: F401: jvp() would, in each child
from device import DEVICE
from judge import _pytree
from samples import name_of, operators, samples
from torch.func import grad, jvp, vmap

WITHOUT_VALUES = ("empty", "new_empty")  # what these start with gives memory as it was
EAGER_IS_WRONG = {"select_scatter"}  # its gradient around a vmap is multiplied: values alone are compared
#: A compiled backward under vmap calls as_strided_scatter, for which LibTorch has no rule; eager's calls as_strided.
LEFT_OUT = {("as_strided_copy", "vmap of grad")}
#: Whether a result requires grad is not what eager says: draws and constants have a gradient of zeros in eager, and none here.
WITHOUT_GRADIENT = {"bernoulli", "normal", "linalg.matrix_power"}


def floats(tensors):
    return [tensor for tensor in tensors if tensor.dtype == torch.float64]


def direction(tensor):
    return (torch.arange(1, tensor.numel() + 1, dtype=tensor.dtype) * 0.7).cos().reshape(tensor.shape)


def stacked(tensor):
    """A batch of two: the tensor, and one whose numbers differ within most of the domains."""
    return torch.stack([tensor, tensor * 0.75 if tensor.is_floating_point() or tensor.is_complex() else tensor])


def split(sample):
    """The sample's tensors and a function that calls with tensors in their place."""
    leaves, spec = _pytree.tree_flatten((sample.arguments, sample.keywords))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def with_tensors(function):
        def call(*tensors):
            filled = list(leaves)
            for place, tensor in zip(places, tensors):
                filled[place] = tensor
            arguments, keywords = _pytree.tree_unflatten(filled, spec)
            return function(*arguments, **keywords)

        return call

    return [leaves[place] for place in places], with_tensors


def forward(f):
    """Tangents in the direction of the tensors that are floats."""

    def call(*tensors):
        taken = [place for place, tensor in enumerate(tensors) if tensor.is_floating_point()]

        def of_floats(*given):
            filled = list(tensors)
            for place, tensor in zip(taken, given):
                filled[place] = tensor
            return f(*filled)

        given = tuple(tensors[place] for place in taken)
        return jvp(of_floats, given, tuple(map(direction, given)))

    return call


def number(f):
    def call(*tensors):
        results = [result for result in _pytree.tree_leaves(f(*tensors)) if isinstance(result, torch.Tensor) and result.is_floating_point()]
        return sum((result * direction(result)).sum() for result in results)

    return call


def gradients(f):
    def call(*tensors):
        return grad(number(f), tuple(place for place, tensor in enumerate(tensors) if tensor.is_floating_point()))(*tensors)

    return call


def batched(f):
    return lambda *tensors: vmap(f, randomness="different")(*map(stacked, tensors))


def batched_in_one(f):
    return lambda first, *others: vmap(f, (0, *[None] * len(others)), randomness="different")(stacked(first), *others)


TRANSFORMS = {
    "jvp": (forward, "supports_forward_ad"),
    "vmap": (batched, None),
    "vmap of one": (batched_in_one, None),
    "vmap of jvp": (lambda f: batched(forward(f)), "supports_forward_ad"),
    "jvp of vmap": (lambda f: forward(batched(f)), "supports_forward_ad"),
    "vmap of grad": (lambda f: batched(gradients(f)), "supports_autograd"),
}


def judge_sample(op, transform, sample, order):
    tensors, with_tensors = split(sample)
    if not tensors or (transform is not batched and transform is not batched_in_one and not floats(tensors)):
        return "eager refuses", "no tensors"
    calls = judge.Calls()

    def function(*arguments, **keywords):
        return op.op(*arguments, **keywords)

    compiled = calls.watch(judge.compiled(function))

    def look(operator, order):
        leaves = [tensor.requires_grad_(order > 0 and tensor.is_floating_point()) for tensor in judge.clone([tensor.detach() for tensor in tensors])]
        seen = judge.observe(transform(with_tensors(operator)), leaves, leaves, {}, order, aliases=False, none_is_zero=True)
        return judge.Seen(part for part in seen if op.name not in WITHOUT_GRADIENT or not part[0].endswith("requires_grad, is_leaf"))

    outcome = judge.judge_to_order(partial(look, function), partial(look, compiled), order)
    return ("eager refuses", outcome[1]) if outcome[1].startswith(judge.EAGER_RAISES) else calls.outcome(outcome)


def entry_of(op, options):
    def entry():
        if torch.float64 not in op.supported_dtypes(DEVICE):
            return
        order = 1 if op.name not in EAGER_IS_WRONG and op.supports_autograd and torch.float64 in op.supported_backward_dtypes(DEVICE) else 0
        for name, (transform, needs) in TRANSFORMS.items():
            if (op.name, name) not in LEFT_OUT and (needs is None or getattr(op, needs)):

                def outcomes(transform=transform):
                    return judge.worst([judge_sample(op, transform, sample, order) for sample in samples(op, torch.float64, False, options.samples)])

                yield name, outcomes

    return entry


def entries(options):
    for op in operators():
        if not op.name.startswith(WITHOUT_VALUES):
            yield name_of(op), entry_of(op, options)


if __name__ == "__main__":
    suite.main("op_transforms", __doc__, entries)
