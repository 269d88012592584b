"""PyTorch's operator database as a judge: every sample of every operator is captured, run, and compared with eager.

    python tests/python/suites/op_db.py --limit 4 --out rows.json [--only add,mul]

Each operator runs in a process of its own, so that a crash is a row of the table and not the end of the run.
"""
import argparse
import collections
import json
import multiprocessing
import signal
import sys
import traceback

DTYPES = ("float32", "float64", "int64")
OUTCOMES = ("passed", "refused", "eager refuses", "wrong", "error", "crashed", "slow")


def leaves(tree):
    import torch
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def clone(tree):
    """The tree with tensors of their own, laid out and requiring grad as before."""
    import torch
    from torch.utils import _pytree

    def one(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        copy = leaf.detach().clone()
        if leaf.layout == torch.strided and copy.stride() != leaf.stride() and not torch._debug_has_internal_overlap(leaf):
            copy = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype).copy_(leaf.detach())
        return copy.requires_grad_(leaf.requires_grad)

    return _pytree.tree_map(one, tree)


def observe(function, arguments, order):
    """Values, first gradients and second gradients of a call, as lists of tensors."""
    import torch

    torch.manual_seed(7)
    result = function(*arguments[0], **arguments[1])
    values = leaves(result)
    inputs = [leaf for leaf in leaves(arguments) if leaf.requires_grad]
    seen = [values]
    outputs = [value for value in values if value.requires_grad]
    if order == 0 or not outputs or not inputs:
        return seen
    torch.manual_seed(8)
    tangents = [torch.randn_like(output).requires_grad_(order > 1) for output in outputs]
    first = torch.autograd.grad(outputs, inputs, tangents, create_graph=order > 1, allow_unused=True)
    seen.append(list(first))
    again = [gradient for gradient in first if gradient is not None and gradient.requires_grad]
    if order > 1 and again:
        torch.manual_seed(9)
        seconds = [torch.randn_like(gradient) for gradient in again]
        seen.append(list(torch.autograd.grad(again, inputs, seconds, allow_unused=True)))
    return seen


def differences(expected, got):
    import torch

    for order, (a, b) in enumerate(zip(expected, got, strict=True)):
        if len(a) != len(b):
            return f"order {order}: {len(b)} tensors, expected {len(a)}"
        for index, (x, y) in enumerate(zip(a, b)):
            if (x is None) != (y is None):
                return f"order {order}: tensor {index} is {'' if y is None else 'not '}None"
            if x is None:
                continue
            try:
                torch.testing.assert_close(y, x, equal_nan=True, rtol=1e-5 if x.dtype != torch.float64 else 1e-9,
                                           atol=1e-5 if x.dtype != torch.float64 else 1e-9, check_stride=order == 0)
            except AssertionError as error:
                return f"order {order}: tensor {index}: {str(error).splitlines()[0]}"
    return None


def judge_sample(op, sample, order):
    import diptych

    given = ((sample.input, *sample.args), sample.kwargs)
    try:
        expected = observe(op.op, clone(given), order)
    except Exception as error:  # whatever it is, eager says so
        return "eager refuses", str(error).splitlines()[0] if str(error) else type(error).__name__
    try:
        got = observe(diptych.aot_function(lambda *a, **k: op.op(*a, **k)), clone(given), order)
    except diptych.UserError as error:
        return "refused", str(error).splitlines()[0]
    except Exception as error:
        return "error", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    wrong = differences(expected, got)
    return ("wrong", wrong) if wrong else ("passed", "")


def judge(name, index, limit, queue):
    """Judges one operator for each dtype that applies; puts {dtype: [outcome, words]}."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    op = op_db[index]
    for dtype_name in DTYPES:
        dtype = getattr(torch, dtype_name)
        if dtype not in op.supported_dtypes("cpu"):
            continue
        differentiable = dtype.is_floating_point and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        order = 0 if not differentiable else 2 if op.supports_gradgrad and dtype_name == "float64" else 1
        worst = ("passed", "")
        count = 0
        try:
            for count, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=differentiable), 1):
                outcome = judge_sample(op, sample, order)
                if OUTCOMES.index(outcome[0]) > OUTCOMES.index(worst[0]):
                    worst = outcome
                if count == limit:
                    break
        except Exception:
            worst = ("error", "of the suite or its samples: " + traceback.format_exc().splitlines()[-1])
        queue.put((name, dtype_name, worst[0], worst[1], count))


def run(name, index, limit, seconds):
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=judge, args=(name, index, limit, queue))
    process.start()
    process.join(seconds)
    ended = process.exitcode
    if process.is_alive():
        process.kill()
        process.join()
    rows = []
    while not queue.empty():
        rows.append(queue.get())
    if ended is None:
        rows.append((name, "-", "slow", f"not done after {seconds} s", 0))
    elif ended != 0:
        rows.append((name, "-", "crashed", signal.Signals(-ended).name if ended < 0 else f"exit {ended}", 0))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=4, help="samples of each operator and dtype")
    parser.add_argument("--seconds", type=int, default=60, help="for one operator")
    parser.add_argument("--only", help="names, set apart by commas")
    parser.add_argument("--every", type=int, default=1, help="takes every n-th operator")
    parser.add_argument("--out", help="writes the rows as JSON")
    options = parser.parse_args()
    import diptych  # noqa: F401  # imported once, before the processes fork
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    torch.set_num_threads(1)
    wanted = set(options.only.split(",")) if options.only else None
    rows = []
    for index in range(0, len(op_db), options.every):
        op = op_db[index]
        if wanted and op.name not in wanted:
            continue
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        found = run(name, index, options.limit, options.seconds)
        rows += found
        for row in found:
            if row[2] in ("wrong", "error", "crashed", "slow"):
                print(f"{row[2]:8} {row[0]} {row[1]}: {row[3][:220]}", flush=True)
    counts = collections.defaultdict(collections.Counter)
    for _, dtype, outcome, _, _ in rows:
        counts[dtype][outcome] += 1
    print("| dtype | " + " | ".join(OUTCOMES) + " |")
    print("| --- |" + " ---: |" * len(OUTCOMES))
    for dtype, outcomes in counts.items():
        print(f"| {dtype} | " + " | ".join(str(outcomes[outcome]) for outcome in OUTCOMES) + " |")
    if options.out:
        with open(options.out, "w") as file:
            json.dump(rows, file, indent=1)
    return 1 if any(row[2] in ("wrong", "crashed") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
