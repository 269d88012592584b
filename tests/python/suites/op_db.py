"""PyTorch's operator database as a judge: every sample of every operator is captured, run, and compared with eager in values, strides, aliases, first
gradients, and second ones in float64 where the database says that they exist.

    python tests/python/suites/op_db.py --samples 4 [--only add,mul] [--list] [--backend xla]

Seeds: many random operators come wrapped in a function that seeds the generator, which a capture refuses. The seed is set outside the function instead.
"""
import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db

import judge
import suite

DTYPES = (torch.float64, torch.float32, torch.int64)
#: Their memory has no values; all else about them is compared.
WITHOUT_VALUES = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}


def unseeded(function, *args, **kwargs):
    return function(*args, **kwargs)


def order_of(op, dtype):
    """How often the database says that an operator can be differentiated; in float32 once is enough."""
    if not dtype.is_floating_point or not op.supports_autograd or dtype not in op.supported_backward_dtypes("cpu"):
        return 0
    return 2 if op.supports_gradgrad and dtype == torch.float64 else 1


def without_values(seen):
    for index, (label, value) in enumerate(seen):
        if label.startswith("result") and isinstance(value, torch.Tensor):
            seen[index] = (label, torch.zeros_like(value))
    return seen


def judge_sample(op, sample, order):
    def observation(function, order):
        arguments, keywords = judge.clone(((sample.input, *sample.args), dict(sample.kwargs)))
        seen = judge.observe(function, judge.tensors((arguments, keywords)), arguments, keywords, order)
        return without_values(seen) if op.name in WITHOUT_VALUES else seen

    # What the database takes of a result whose gradient is defined for a part of it alone.
    part = sample.output_process_fn_grad if order > 0 else None

    def function(*args, **kwargs):
        result = op.op(*args, **kwargs)
        return part(result) if part else result

    return judge.judge_to_order(lambda n: observation(function, n), lambda n: observation(judge.compiled(function), n), order)


def entry_of(op, options):
    def entry():
        common_methods_invocations.wrapper_set_seed = unseeded
        for dtype in DTYPES:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            order = order_of(op, dtype)

            def outcomes(dtype=dtype, order=order):
                found = []
                for sample in op.sample_inputs("cpu", dtype, requires_grad=order > 0):
                    found.append(judge_sample(op, sample, order))
                    if len(found) == options.samples:
                        break
                return judge.worst(found)

            yield str(dtype).removeprefix("torch."), outcomes

    return entry


def entries(options):
    for op in op_db:
        yield f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name, entry_of(op, options)


if __name__ == "__main__":
    suite.main("op_db", __doc__, entries)
