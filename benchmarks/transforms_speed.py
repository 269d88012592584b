"""Measures gradients per sample and what a guard by value costs.

    PYTHONPATH=build/ci/python .venv-bench/bin/python benchmarks/transforms_speed.py --rounds 9

Per-sample gradients of an MLP (256-512-512-10, batch 64), vmap(grad(loss)): as one graph of ours, over a compiled function
of ours, by torch.func in eager, by torch.compile and by JAX. A guard by value: a function that branches on a tensor's value,
`x * 2 if flag.sum() > 0 else x * 3`, beside eager and beside the same function without the branch. A value that costs: a
branch on what an MLP (256-512-512-256, batch 64) returns, forward and backward. All take turns within one run. A cell is the median in microseconds, with the quartiles in parentheses; ratios are taken round by round. Results
are compared with eager's first.
"""
import argparse
import pathlib
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F
from torch.func import grad, vmap

import diptych

BATCH = 64


def loss_torch(params, x, t):
    for weight, bias in params[:-1]:
        x = F.gelu(x @ weight.T + bias)
    return F.cross_entropy((x @ params[-1][0].T + params[-1][1])[None], t[None])


def loss_jax(params, x, t):
    for weight, bias in params[:-1]:
        x = jax.nn.gelu(x @ weight.T + bias, approximate=False)
    return -jax.nn.log_softmax(x @ params[-1][0].T + params[-1][1])[t]


def make_parameters():
    sizes = [256, 512, 512, 10]
    return [(torch.randn(outer, inner) * inner**-0.5, torch.zeros(outer)) for inner, outer in zip(sizes, sizes[1:])]


def per_sample_engines():
    params, x, t = make_parameters(), torch.randn(BATCH, 256), torch.randint(10, (BATCH,))
    over = lambda f: vmap(grad(f), (None, 0, 0))  # noqa: E731
    ours = diptych.aot_function(lambda params, x, t: over(loss_torch)(params, x, t))
    compiled_loss = over(diptych.aot_function(loss_torch))
    inductor = torch.compile(over(loss_torch))
    jax_arguments = jax.tree.map(lambda a: jnp.asarray(a.numpy()), (params, x, t))
    in_jax = jax.jit(jax.vmap(jax.grad(loss_jax), (None, 0, 0)))
    engines = {
        "one graph": lambda: ours(params, x, t),
        "compiled loss": lambda: compiled_loss(params, x, t),
        "torch.func": lambda: over(loss_torch)(params, x, t),
        "torch.compile": lambda: inductor(params, x, t),
        "JAX": lambda: jax.block_until_ready(in_jax(*jax_arguments)),
    }
    wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.tree.map(lambda leaf: leaf.numpy(), over(loss_torch)(params, x, t)))]
    for name, run in engines.items():
        found = jax.tree.leaves(run())
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=2e-3, atol=2e-5, err_msg=name)
    return engines


def value_guard_engines():
    x, flag = torch.randn(1000), torch.ones(4)
    function = lambda x, flag: x * 2 if flag.sum() > 0 else x * 3  # noqa: E731
    guarded, plain = diptych.aot_function(function), diptych.aot_function(lambda x, flag: x * 2)
    assert torch.equal(guarded(x, flag), x * 2) and torch.equal(guarded(x, -flag), x * 3)
    return {
        "with a value guard": lambda: guarded(x, flag),
        "without": lambda: plain(x, flag),
        "eager": lambda: function(x, flag),
        "eager without": lambda: x * 2,
    }


def costly_value_engines():
    mlp = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))
    x = torch.randn(BATCH, 256)

    def with_branch(x):
        y = mlp(x)
        return (y.sin() if y.abs().sum() > 0 else y.cos()).sum()

    functions = {"eager": with_branch, "eager without": lambda x: mlp(x).sin().sum()}
    functions |= {"with a value guard": diptych.aot_function(with_branch), "without": diptych.aot_function(functions["eager without"])}
    inductor = torch.compile(with_branch)
    functions["torch.compile"] = inductor

    def step(function):
        return torch.autograd.grad(function(x), list(mlp.parameters()))

    for function in functions.values():
        torch.testing.assert_close(step(function), step(with_branch))
    return {name: lambda function=function: step(function) for name, function in functions.items()}


def measure(engines, rounds, repeats):
    samples = {name: [] for name in engines}
    for run in engines.values():
        run()
    for _ in range(rounds):
        for name, run in engines.items():
            start = time.perf_counter()
            for _ in range(repeats):
                run()
            samples[name].append((time.perf_counter() - start) / repeats * 1e6)
    return samples


def report(title, samples, base):
    print(title)
    for name, times in samples.items():
        low, middle, high = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
        ratio = statistics.median(a / b for a, b in zip(times, samples[base]))
        print(f"  {name:20} {middle:10.1f} us ({low:.1f}..{high:.1f})  {ratio:6.2f} times {base}")


def cpu_name():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "an unknown CPU")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    torch.manual_seed(0)
    print(f"{cpu_name()}, torch {torch.__version__}, jax {jax.__version__}, {torch.get_num_threads()} threads")
    report("Gradients per sample of an MLP, batch 64", measure(per_sample_engines(), rounds, 3), "torch.func")
    report("A guard by value", measure(value_guard_engines(), rounds, 2000), "eager")
    report("A value that costs", measure(costly_value_engines(), rounds, 10), "eager")
