"""PyTorch's operator database once more, for what op_db.py does not look at: what results share with arguments, in-place variants, out= and guards.

    python tests/python/suites/op_variants.py [--only view,add] [--samples 2]

Each variant of an operator is a function whose arguments are computed from leaves, so that it may change them; they are looked at afterwards, too. One compiled
function gets all samples, so that guards have to tell them apart; "dynamic", whose sizes are dynamic, gets three times as many. "backward" runs in eager, and
its backward passes are captured as a whole.
"""
import contextlib
from functools import partial

import judge
import suite
import torch
from device import DEVICE
from samples import eager_once, name_of, operators, samples

DTYPES = (torch.float64, torch.int64)
WITHOUT_VALUES = ("empty", "new_empty")  # what these start with gives memory as it was
OF_THE_OPERATOR = ("as it is", "dynamic", "backward")  # variants that are the same in eager
GRADIENT_READS_VALUES = ("linalg.eig",)  # eager refuses gradients by what the eigenvectors are, which no graph sees


def observe(given, order, call, around=contextlib.nullcontext):
    """What is seen of a call on arguments that are no leaves."""
    leaves = judge.clone(given)
    arguments, keywords = judge._pytree.tree_map(lambda leaf: leaf * 1 if isinstance(leaf, torch.Tensor) and leaf.requires_grad else leaf, leaves)
    return judge.observe(call, judge.tensors(leaves), arguments, keywords, order, around=around)


def with_out(op):
    """The operator writing its result into a tensor that is an argument of the function, the first one."""

    def function(out, *args, **kwargs):
        op.op(*args, out=out, **kwargs)
        return out if isinstance(out, torch.Tensor) else list(out)

    return function


def variants(op, dtype):
    """(name, function, whether a result is to be made for out=) of the variants that an operator has."""
    yield "as it is", lambda *args, **kwargs: op.op(*args, **kwargs), False
    if dtype.is_floating_point:
        for name in ("dynamic", "backward"):
            yield name, lambda *args, **kwargs: op.op(*args, **kwargs), False
    if op.inplace_variant is not None:
        yield "in place", lambda *args, **kwargs: op.inplace_variant(*args, **kwargs), False
    if op.supports_out and op.name != "_native_batch_norm_legit":  # ATen's functionalization raises for its out= variant
        yield "out", with_out(op), True


def judge_samples(op, dtype, name, function, needs_out, limit):
    import diptych

    differentiable = dtype.is_floating_point and op.supports_autograd and dtype in op.supported_backward_dtypes(DEVICE)
    differentiable = differentiable and not needs_out and op.name not in GRADIENT_READS_VALUES
    outcomes, compiled = [], judge.compiled(function, dynamic=name == "dynamic")
    for place, sample in enumerate(samples(op, dtype, differentiable, limit * 3 if name == "dynamic" else limit)):
        arguments = sample.arguments
        if needs_out:
            try:
                result = op.op(*judge.clone(arguments), **judge.clone(sample.keywords))
                arguments = (judge._pytree.tree_map(lambda leaf: torch.zeros_like(leaf).contiguous(), result), *arguments)
            except Exception:  # eager says so below as well
                continue
        look = partial(observe, (arguments, sample.keywords), 1 if differentiable else 0)
        ours = partial(look, function, diptych.backward_capture.capture) if name == "backward" else partial(look, compiled)
        eager = partial(look, function)
        outcomes.append(judge.judge(eager_once(op, (dtype, place), eager) if name in OF_THE_OPERATOR else eager, ours))
    return judge.worst(outcomes)


def entry(op, limit):
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes(DEVICE):
            continue
        for name, function, needs_out in variants(op, dtype):
            yield f"{str(dtype)[6:]}, {name}", partial(judge_samples, op, dtype, name, function, needs_out, limit or 3)


def entries(options):
    return [(name_of(op), partial(entry, op, options.samples)) for op in operators() if not op.name.startswith(WITHOUT_VALUES)]


if __name__ == "__main__":
    suite.main("op_variants", __doc__, entries)
