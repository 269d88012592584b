"""PyTorch's databases of custom autograd Functions and of custom operators as a judge: values, first and second gradients beside eager.

    python tests/python/suites/autograd_function_db.py [--only Select]

A Function that reads its tensors by NumPy can't be traced and has to be refused by name. An operator may: it is one node.
"""
from functools import partial

import judge
import suite
import torch
from device import DEVICE
from samples import samples
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.custom_op_db import custom_op_db

DTYPES = (torch.float32, torch.float64, torch.int64)


def judge_samples(function, op, dtype, order, limit):
    def outcomes():
        for sample in samples(op, dtype, order > 0, limit):
            def look(call, order):
                arguments, keywords = judge.clone((sample.arguments, sample.keywords))
                return judge.observe(call, judge.tensors((arguments, keywords)), arguments, keywords, order)

            yield judge.judge_to_order(partial(look, function), partial(look, judge.compiled(function)), order)

    return judge.worst(outcomes())


def entry(op, limit):
    variants = [("", lambda *args, **kwargs: op.op(*args, **kwargs))]
    if op.inplace_variant is not None:
        variants.append((" in place", lambda x, **kwargs: op.inplace_variant(x.clone(), **kwargs)))
    for dtype in DTYPES:
        # The fake kernel of this one tells another dtype for integers than its kernel gives, which a capture refuses when it runs.
        if dtype not in op.supported_dtypes(DEVICE) or (op.name == "NumpyMulScalarCustomOp" and not dtype.is_floating_point):
            continue
        order = 0 if not dtype.is_floating_point else 1 if dtype == torch.float32 else 2
        for variant, function in variants:
            yield f"{str(dtype)[6:]}{variant}", lambda: judge_samples(function, op, dtype, order, limit)


def entries(options):
    return [(op.name, lambda op=op: entry(op, options.samples)) for op in autograd_function_db + custom_op_db]


if __name__ == "__main__":
    suite.main("autograd_function_db", __doc__, entries)
