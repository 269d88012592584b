"""Compares the rounding of backend "native" with eager's: results and gradients of PyTorch's operator database, in float32.

    PYTHONPATH=build/ci/python .venv/bin/python benchmarks/native_numerics.py [--samples 2] [--draws 9] [--only add,mul]

The truth is eager in float64 on the same float32 inputs. An error is the largest distance of a tensor's elements from it,
in units in the last place of float32 at the truth, or at a millionth of the tensor's largest element where that is more: next
to zeros of a function and to sums that cancel, relative errors say nothing. A sample's error is the median over several draws of
its tensors: where a sum nearly cancels, one draw's error is a matter of luck, and the mean over draws is that of the unluckiest.
An operator's error is the largest of its samples, and its ratio is native's error over eager's, which counts as half a unit at
least, the rounding of an exact result. One whose ratio is beyond two is measured again with as many draws as tell its median well.
"""
import argparse
import collections
import itertools
import math
import random
import statistics

import torch
from torch.testing._internal.common_methods_invocations import op_db

import diptych

BOUNDS = (1.0, 1.25, 1.5, 2.0, 4.0, math.inf)
GOAL = 2.0
DRAWS_BEYOND_GOAL = 300


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [found for each in value for found in tensors_of(each)] if isinstance(value, (list, tuple)) else []


def map_tensors(value, function):
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(map_tensors(each, function) for each in value)
    return {key: map_tensors(each, function) for key, each in value.items()} if isinstance(value, dict) else value


def results(function, sample, dtype, has_gradients):
    """Returns the floating-point results of a call, and the gradients of their weighted sum."""
    def copy(tensor):
        if not tensor.is_floating_point():
            return tensor.clone()
        return tensor.detach().clone().to(dtype).requires_grad_(has_gradients)

    arguments, keywords = map_tensors((sample.input, *sample.args), copy), map_tensors(dict(sample.kwargs), copy)
    found = [t for t in tensors_of(function(*arguments, **keywords)) if t.is_floating_point()]
    if not has_gradients or not any(t.requires_grad for t in found):
        return [t.detach() for t in found]
    leaves = [t for t in tensors_of([arguments, keywords]) if t.is_floating_point()]
    generator = torch.Generator().manual_seed(0)
    weights = [torch.rand(t.shape, generator=generator).to(dtype) for t in found]
    total = sum((t * w).sum() for t, w in zip(found, weights) if t.requires_grad)
    gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    return [t.detach() for t in found] + [g for g in gradients if g is not None]


def error(got, truth):
    """The largest error in units in the last place; None where there is nothing to compare."""
    got, truth = got.double().flatten(), truth.double().flatten()
    finite = torch.isfinite(truth) & torch.isfinite(got) & (truth.abs() < torch.finfo(torch.float32).max)
    if not finite.any():
        return None
    got, truth = got[finite], truth[finite]
    size = torch.maximum(truth.abs(), truth.abs().max() * 1e-6).clamp_min(torch.finfo(torch.float32).tiny)
    unit = torch.exp2(torch.floor(torch.log2(size)) - 23)
    return float(((got - truth).abs() / unit).max())


def errors_of_draw(op, engines, samples, draw, has_gradients):
    """Returns the errors of each engine, by sample. Seeds are the draw's number: every engine sees the same tensors."""
    torch.manual_seed(draw)
    random.seed(draw)
    errors = []
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32, set_seed=False), samples):
        truth = results(op.op, sample, torch.float64, has_gradients)
        errors.append([])
        for function in engines:
            got = results(function, sample, torch.float32, has_gradients)
            if len(got) != len(truth):
                raise ValueError(f"{len(got)} results and gradients, {len(truth)} in float64")
            errors[-1].append(max((e for e in map(error, got, truth) if e is not None), default=0.0))
    return errors


def errors_of(op, samples, draws, has_gradients):
    """Returns the errors of native and eager: the largest of the samples' medians over draws."""
    compiled = diptych.aot_function(lambda *a, **k: op.op(*a, **k), backend="native")
    by_draw = [errors_of_draw(op, (compiled, op.op), samples, draw, has_gradients) for draw in range(draws)]
    by_sample = list(zip(*by_draw))
    return [max((statistics.median(errors[engine] for errors in each) for each in by_sample), default=0.0) for engine in (0, 1)]


def ratio_of(errors):
    return errors[0] / max(errors[1], 0.5)


def operators(only):
    for op in op_db:
        is_real = {torch.float32, torch.float64} <= set(op.supported_dtypes("cpu"))
        if is_real and "empty" not in op.name and (not only or op.name in only):
            yield op


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--draws", type=int, default=9)
    parser.add_argument("--only", default="", help="names of operators, separated by commas")
    options = parser.parse_args()
    counts, beyond, skipped = collections.Counter(), [], []
    for op in operators(options.only.split(",") if options.only else None):
        try:
            errors = errors_of(op, options.samples, options.draws, op.supports_autograd)
            if ratio_of(errors) > GOAL:
                errors = errors_of(op, options.samples, DRAWS_BEYOND_GOAL, op.supports_autograd)
        except Exception as reason:  # refused by eager in float64 or by a capture, say: there is no pair to compare
            skipped.append(f"  {op.formatted_name}: {type(reason).__name__}: {str(reason).splitlines()[0] if str(reason) else ''}")
            continue
        ratio = ratio_of(errors)
        counts[next(bound for bound in BOUNDS if ratio <= bound)] += 1
        if ratio > GOAL:
            beyond.append((ratio, op.formatted_name, *errors))
    total = sum(counts.values())
    print(f"{total} operators compared, {len(skipped)} without a pair to compare", *skipped, sep="\n")
    for low, bound in zip((0.0, *BOUNDS), BOUNDS):
        print(f"error of native / eager in ({low:g}, {bound:g}]: {counts[bound]:4d} {'#' * (60 * counts[bound] // max(total, 1))}")
    for ratio, name, ours, eager in sorted(beyond, reverse=True):
        print(f"  {name}: {ours:.2f} units, eager {eager:.2f}, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
