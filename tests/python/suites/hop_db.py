"""PyTorch's database of higher-order operators as a judge: each entry run with torch's operator in eager, and with Diptych's in its place.

    python tests/python/suites/hop_db.py [--only scan] [--list]

An entry whose operator Diptych has is called with Diptych's, in eager and inside a compiled function. Each is compiled as it is, too: with torch's operator,
which is Diptych's there, or is refused by name. hop_cases.py has the cases that PyTorch's database leaves out. Compared are values and, where
torch's operator gives them, first gradients; second ones against the operator written as a loop.
"""
import contextlib
from functools import partial
from unittest import mock

import diptych
import judge
import suite
import torch
from device import DEVICE
from samples import name_of, samples
from torch.testing._internal import hop_db
from torch.utils import _pytree

DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool)
COMPILERS = {"in eager": lambda function: function, "compiled": judge.compiled}


def translated_scan(combine, init, xs, *, dim=0, reverse=False):
    xs = _pytree.tree_map(lambda x: x.movedim(dim, 0), xs)
    carry, ys = diptych.scan(combine, init, xs, reverse=reverse)
    return carry, _pytree.tree_map(lambda y: y.movedim(0, dim), ys)


def translated_associative_scan(combine, xs, dim, reverse=False, combine_mode="generic"):
    return diptych.associative_scan(combine, xs, dim=dim, reverse=reverse)


def translated_cond(predicate, if_true, if_false, operands=()):
    return diptych.cond(torch.as_tensor(predicate), if_true, if_false, *operands)


def translated_while_loop(condition, body, carried):
    return tuple(diptych.while_loop(lambda carry: condition(*carry), lambda carry: tuple(body(*carry)), tuple(carried)))


def translated_map(function, xs, *rest):
    return diptych.map(lambda x: function(x, *rest), xs)


@contextlib.contextmanager
def operators_of_ours():
    """While entered, the functions of the database reach Diptych's operators under the names of torch's."""
    with contextlib.ExitStack() as stack:
        for owner, name, ours in (
            (hop_db, "map", translated_map),
            (torch, "cond", translated_cond),
            (torch._higher_order_ops, "scan", translated_scan),
            (torch._higher_order_ops, "while_loop", translated_while_loop),
            (torch._higher_order_ops, "associative_scan", translated_associative_scan),
        ):
            stack.enter_context(mock.patch.object(owner, name, ours))
        yield


TRANSLATED = {"scan", "map", "cond", "while_loop"}


def ours(function, compiler):
    """`function` with Diptych's operators, compiled once."""
    compiled = compiler(function)

    def call(*args, **kwargs):
        with operators_of_ours():
            return compiled(*args, **kwargs)

    return call


def plain(result):
    """Lists for tuples: torch's operators give back either, whatever the body returned."""
    return [plain(part) for part in result] if isinstance(result, (list, tuple)) else result


def judge_samples(op, dtype, compile_, limit):
    differentiable = dtype.is_floating_point

    def function(*args, **kwargs):
        return plain(op.op(*args, **kwargs))

    compiled = compile_(function)
    outcomes = []
    try:
        found = list(samples(op, dtype, differentiable, limit))
    except ValueError as error:  # an entry whose samples require grad, of a dtype that can't
        return "eager refuses", judge.words(error)
    for sample in found:

        def look(call, order):
            arguments, keywords = judge.clone((sample.arguments, sample.keywords))
            return judge.observe(call, judge.tensors((arguments, keywords)), arguments, keywords, order, aliases=False)

        outcomes.append(judge.judge_to_order(partial(look, function), partial(look, compiled), 1 if differentiable else 0))
    return judge.worst(outcomes)


def entry(op, limit):
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes(DEVICE):
            continue
        name = str(dtype)[6:]
        yield f"{name} compiled as it is", partial(judge_samples, op, dtype, judge.compiled, limit)
        if op.name in TRANSLATED:
            for how, compiler in COMPILERS.items():
                yield f"{name} {how}", partial(judge_samples, op, dtype, partial(ours, compiler=compiler), limit)


def entries(options):
    from hop_cases import case_entries

    database = [(name_of(op), partial(entry, op, options.samples)) for op in hop_db.hop_db if op.supported_dtypes(DEVICE)]
    return database + case_entries(ours, plain, COMPILERS)


if __name__ == "__main__":
    suite.main("hop_db", __doc__, entries)
