"""PyTorch's operator database as a judge: every sample of every operator is captured, run, and compared with eager in values, strides, aliases, first
gradients, and second ones in float64 where the database says that they exist.

    python tests/python/suites/op_db.py --samples 4 [--only add,mul] [--list] [--backend xla]
"""
import torch

import judge
import suite
from device import DEVICE
from samples import eager_once, name_of, operators, samples

DTYPES = (torch.float64, torch.float32, torch.int64)
#: Their memory has no values; all else about them is compared.
WITHOUT_VALUES = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}


def order_of(op, dtype):
    """How often the database says that an operator can be differentiated; in float32 once is enough."""
    if not dtype.is_floating_point or not op.supports_autograd or dtype not in op.supported_backward_dtypes(DEVICE):
        return 0
    return 2 if op.supports_gradgrad and dtype == torch.float64 else 1


def without_values(seen):
    for index, (label, value) in enumerate(seen):
        if label.startswith("result") and isinstance(value, torch.Tensor):
            seen[index] = (label, torch.zeros_like(value))
    return seen


def judge_sample(op, key, sample, order):
    def observation(function, order):
        arguments, keywords = judge.clone((sample.arguments, sample.keywords))
        seen = judge.observe(function, judge.tensors((arguments, keywords)), arguments, keywords, order)
        return without_values(seen) if op.name in WITHOUT_VALUES else seen

    def function(*args, **kwargs):
        result = op.op(*args, **kwargs)
        return sample.part(result) if order > 0 else result

    return judge.judge_to_order(lambda n: eager_once(op, ("as leaves", n, *key), lambda: observation(function, n))(), lambda n: observation(judge.compiled(function), n), order)


def entry_of(op, options):
    def entry():
        for dtype in DTYPES:
            if dtype not in op.supported_dtypes(DEVICE):
                continue
            order = order_of(op, dtype)

            def outcomes(dtype=dtype, order=order):
                return judge.worst([judge_sample(op, (dtype, place), sample, order) for place, sample in enumerate(samples(op, dtype, order > 0, options.samples))])

            yield str(dtype).removeprefix("torch."), outcomes

    return entry


def entries(options):
    for op in operators():
        yield name_of(op), entry_of(op, options)


if __name__ == "__main__":
    suite.main("op_db", __doc__, entries)
