#!/usr/bin/env python3
"""The first call of a stack of equal layers and of its gradients, compiled by XLA: as a scan over layers and unrolled, by
Diptych (backend="xla") and by JAX. Each engine is a process of its own; they take turns, and the first round is thrown away.
Prints seconds (median, least and greatest) and how often each takes JAX's lax.scan's time (median and quartiles of the
ratios within a round).
Usage: PYTHONPATH=build/ci/python .venv/bin/python benchmarks/compile_layers.py [--rounds 5] [--jax .venv-bench/bin/python]"""
import argparse
import platform
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

DEPTHS = (2, 12, 48)
WIDTH, ROWS = 64, 8
ENGINES = ("jax scan", "jax unrolled", "diptych scan", "diptych unrolled")


def diptych_cases():
    import diptych
    import torch

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x)), approximate="tanh"))

    models = {depth: torch.nn.ModuleList(Layer() for _ in range(depth)) for depth in DEPTHS}
    x = torch.randn(ROWS, WIDTH)

    def in_turn(layers, x):
        for layer in layers:
            x = layer(x)
        return x

    def first_call(how, depth):
        run = diptych.scan_layers if how == "scan" else in_turn
        compiled = diptych.aot_function(lambda layers, x: run(layers, x).square().mean(), backend="xla")
        compiled(models[depth], x).backward()

    return first_call


def jax_cases():
    import jax
    import jax.numpy as jnp

    def layer(x, p):
        centred = x - x.mean(-1, keepdims=True)
        y = centred / jnp.sqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["shift"]
        return x + jax.nn.gelu(y @ p["up"] + p["up_bias"], approximate=True) @ p["down"] + p["down_bias"]

    def parameters(key):
        up, down = jax.random.normal(key, (2, WIDTH, 4 * WIDTH)) * 0.1
        return {"scale": jnp.ones(WIDTH), "shift": jnp.zeros(WIDTH), "up": up, "up_bias": jnp.zeros(4 * WIDTH), "down": down.T, "down_bias": jnp.zeros(WIDTH)}

    lists = {depth: [parameters(key) for key in jax.random.split(jax.random.key(0), depth)] for depth in DEPTHS}
    stacks = {depth: jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers) for depth, layers in lists.items()}
    x = jax.random.normal(jax.random.key(1), (ROWS, WIDTH))

    def first_call(how, depth):
        def scanned(p, x):
            return jnp.square(jax.lax.scan(lambda x, p: (layer(x, p), None), x, p)[0]).mean()

        def unrolled(p, x):
            for one in p:
                x = layer(x, one)
            return jnp.square(x).mean()

        function, p = (scanned, stacks[depth]) if how == "scan" else (unrolled, lists[depth])
        jax.block_until_ready(jax.jit(jax.value_and_grad(function))(p, x))

    return first_call


def work(library):
    first_call = {"diptych": diptych_cases, "jax": jax_cases}[library]()
    for line in sys.stdin:
        how, depth = line.split()
        begin = time.perf_counter()
        first_call(how, int(depth))
        print("seconds", time.perf_counter() - begin, flush=True)


class Worker:
    def __init__(self, python, library):
        self.process = subprocess.Popen([python, __file__, "--work", library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, how, depth):
        print(how, depth, file=self.process.stdin, flush=True)
        while line := self.process.stdout.readline():
            if line.startswith("seconds "):
                return float(line.split()[1])
        sys.exit("a worker ended; its error stands above")


def processor():
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()) if Path("/proc/cpuinfo").exists() else None
    return found[1] if found else platform.processor()


def report(samples, rounds):
    print(f"{processor()}; {rounds} rounds\n\n| Layers | Engine | First call, s: median (least..greatest) | Times `lax.scan` of JAX: median (quartiles) |\n|---|---|---|---|")
    for depth in DEPTHS:
        for engine in ENGINES:
            times = samples[engine, depth]
            ratios = [ours / base for ours, base in zip(times, samples["jax scan", depth])]
            low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
            print(f"| {depth} | {engine} | {statistics.median(times):.2f} ({min(times):.2f}..{max(times):.2f}) | {middle:.2f} ({low:.2f}..{high:.2f}) |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jax", default=".venv-bench/bin/python", help="the Python that has JAX")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error(f"--rounds is {options.rounds}, expected at least 2, which quartiles need")
    if options.work:
        return work(options.work)
    workers = {"diptych": Worker(sys.executable, "diptych"), "jax": Worker(options.jax, "jax")}
    samples = {(engine, depth): [] for engine in ENGINES for depth in DEPTHS}
    for turn in range(options.rounds + 1):
        for engine, depth in samples:
            library, how = engine.split()
            seconds = workers[library].measure(how, depth)
            if turn > 0:
                samples[engine, depth].append(seconds)
    report(samples, options.rounds)


if __name__ == "__main__":
    main()
