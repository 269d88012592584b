"""Measures backend "native" beside eager, torch.compile with Inductor, and JAX: work that is not products, and steps.

    PYTHONPATH=build/ci/python .venv-bench/bin/python benchmarks/native_speed.py --rounds 9 [ROW ...]

All engines take turns within one run, so that load on the machine affects all of them alike. A cell is the median in
milliseconds, with the quartiles in parentheses; ratios are taken round by round, to the best peer of that round.
Results and gradients are compared with eager's first. README.md says what each row is.
"""
import argparse
import gc
import pathlib
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "python"))


ENGINES = ("native", "interpreter", "eager", "torch.compile", "JAX")


class Row:
    """One function in torch and in JAX, with its arguments; gradients are taken for floating-point ones.

    `goal` is the highest ratio of our time to the best peer's. `our_function` is the same function written for us, with
    a scan where eager has a loop; a row of such has no torch.compile, which writes loops out and takes minutes.
    `in_one_call`: ours and JAX's are value_and_grad of the sum of the result, which one call runs without autograd."""

    def __init__(self, torch_function, jax_function, arguments, goal, backward=True, options=None, our_function=None, in_one_call=False):
        self.torch_function, self.jax_function, self.in_one_call = torch_function, jax_function, in_one_call
        self.arguments, self.goal, self.backward = arguments, goal, backward
        self.options, self.our_function = options or {}, our_function or torch_function
        self.is_loop = our_function is not None


def pointwise_torch(x):
    y = x
    for _ in range(5):
        y = torch.sigmoid(y * 1.01 + 0.1) * x - 0.5 * y
    return y


def pointwise_jax(x):
    y = x
    for _ in range(5):
        y = jax.nn.sigmoid(y * 1.01 + 0.1) * x - 0.5 * y
    return y


def norm_torch(x, residual, weight, bias):
    return F.layer_norm(torch.softmax(x, -1) + residual, (x.shape[-1],), weight, bias)


def norm_jax(x, residual, weight, bias):
    y = jax.nn.softmax(x, axis=-1) + residual
    centered = y - jnp.mean(y, axis=-1, keepdims=True)
    variance = jnp.mean(centered * centered, axis=-1, keepdims=True)
    return centered * jax.lax.rsqrt(variance + 1e-5) * weight + bias


def cross_entropy_jax(logits, targets):
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.mean(jnp.take_along_axis(log_probs, targets[:, None], axis=-1))


def mlp_torch(x, t, *params):
    for i in range(0, len(params) - 2, 2):
        x = F.gelu(F.linear(x, params[i], params[i + 1]))
    return F.cross_entropy(F.linear(x, params[-2], params[-1]), t)


def mlp_jax(x, t, *params):
    for i in range(0, len(params) - 2, 2):
        x = jax.nn.gelu(x @ params[i].T + params[i + 1], approximate=False)
    return cross_entropy_jax(x @ params[-2].T + params[-1], t)


def mlp_arguments():
    sizes = [256, 512, 512, 10]
    params = []
    for inner, outer in zip(sizes, sizes[1:]):
        params += [torch.randn(outer, inner) * inner**-0.5, torch.zeros(outer)]
    return [torch.randn(64, 256), torch.randint(10, (64,)), *params]


def rnn_arguments(steps, batch, width):
    weights = [torch.randn(width, width) * 0.8 * width**-0.5 for _ in range(2)]
    return [torch.randn(steps, batch, width) * 0.5, *weights, torch.zeros(width), torch.randn(batch, width)]


def rnn_torch(xs, w, u, bias, state):
    states = []
    for x in xs.unbind(0):
        state = torch.tanh(x @ w + state @ u + bias)
        states.append(state)
    return torch.stack(states)


def rnn_scan(xs, w, u, bias, state):
    import diptych

    def step(state, x):
        following = torch.tanh(x @ w + state @ u + bias)
        return following, following

    return diptych.scan(step, state, xs)[1]


def rnn_jax(xs, w, u, bias, state):
    def step(state, x):
        following = jnp.tanh(x @ w + state @ u + bias)
        return following, following

    return jax.lax.scan(step, state, xs)[1]


def gpt_row():
    import models_jax
    import models_torch

    shape = models_torch.GPT
    model = models_torch.gpt(shape, run=True)
    arguments = [*model.data, *(p.detach() for p in model.params)]
    jax_loss = models_jax.gpt(shape)[0]
    return Row(lambda *a: models_torch.gpt_loss(shape, list(a[2:]), list(a[:2])), lambda *a: jax_loss(list(a[2:]), [], list(a[:2]))[0],
               arguments, 0.85)


def deep_gpt_row():
    """A GPT whose blocks are alike, the parameters of all of them stacked: a loop in torch, a scan in JAX and ours."""
    import diptych
    import models_jax
    import models_torch

    shape = models_torch.GptShape(layers=24, width=128, heads=4, vocab=256, block=128, batch=4)
    model = models_torch.gpt(shape, run=True)
    tables, blocks, norm = model.params[:2], model.params[2:-2], model.params[-2:]
    stacks = [torch.stack([p.detach() for p in blocks[i::12]]) for i in range(12)]

    def loss(layer_norm, through_blocks, cross_entropy):
        def function(tokens, targets, token_table, position_table, *rest):
            x = through_blocks(token_table[tokens] + position_table[: tokens.shape[1]], rest[:12])
            logits = layer_norm(x, *rest[12:]) @ token_table.T
            return cross_entropy(logits.reshape(-1, shape.vocab), targets.reshape(-1))

        return function

    def loop(x, stacks):
        for layer in range(shape.layers):
            x = models_torch.gpt_block(shape, x, [stack[layer] for stack in stacks])
        return x

    def ours(x, stacks):
        return diptych.scan(lambda x, layer: (models_torch.gpt_block(shape, x, layer), None), x, list(stacks))[0]

    def jax_scan(x, stacks):
        return jax.lax.scan(lambda x, layer: (models_jax.gpt_block(shape, x, layer), None), x, list(stacks))[0]

    def torch_norm(x, weight, bias):
        return F.layer_norm(x, (shape.width,), weight, bias)

    arguments = [*model.data, *(p.detach() for p in tables), *stacks, *(p.detach() for p in norm)]
    return Row(loss(torch_norm, loop, F.cross_entropy), loss(models_jax.layer_norm, jax_scan, cross_entropy_jax), arguments, 0.85,
               our_function=loss(torch_norm, ours, F.cross_entropy))


def rows():
    tensor = torch.randn
    norm = [tensor(4096, 1024), tensor(4096, 1024), tensor(1024), tensor(1024)]
    return {
        "30 pointwise x 1M, forward": lambda: Row(pointwise_torch, pointwise_jax, [tensor(1_000_000)], 0.3, backward=False),
        "30 pointwise x 1M, forward + backward": lambda: Row(pointwise_torch, pointwise_jax, [tensor(1_000_000)], 0.45),
        "softmax + residual + layer norm [4096,1024], forward": lambda: Row(norm_torch, norm_jax, norm, 0.4, backward=False),
        "softmax + residual + layer norm [4096,1024], forward + backward": lambda: Row(norm_torch, norm_jax, norm, 0.6),
        "cross-entropy 128 x 50,257, forward + backward": lambda: Row(
            F.cross_entropy, cross_entropy_jax, [tensor(128, 50257), torch.randint(50257, (128,))], 0.25, options={"partition": "min_cut"}),
        "RNN of 1,024 steps, 256 wide, batch 32, gradients": lambda: Row(
            rnn_torch, rnn_jax, rnn_arguments(1024, 32, 256), 0.6, our_function=rnn_scan),
        "RNN of 1,024 steps, 8 wide, batch 4, gradients": lambda: Row(
            rnn_torch, rnn_jax, rnn_arguments(1024, 4, 8), 1.0, our_function=rnn_scan),
        "deep GPT 24x128, batch 4, T 128, gradients": deep_gpt_row,
        "two elements, forward + backward": lambda: Row(
            lambda x, y: (x * y).sin(), lambda x, y: jnp.sin(x * y), [tensor(2), tensor(2)], 1.0),
        "two elements, value_and_grad": lambda: Row(
            lambda x, y: (x * y).sin(), lambda x, y: jnp.sin(x * y), [tensor(2), tensor(2)], 1.0, in_one_call=True),
        "MLP 256-512-512-10, batch 64, gradients": lambda: Row(mlp_torch, mlp_jax, mlp_arguments(), 0.8),
        "GPT 6x384, batch 8, T 256, gradients": gpt_row,
    }


def torch_step(function, row):
    """Returns a callable that runs the row once and returns its result, or all gradients, behind the value if the row is in one call."""
    if not row.backward:
        def forward():
            with torch.no_grad():
                return [function(*row.arguments)]
        return forward
    arguments = [a.clone().requires_grad_() if a.is_floating_point() else a for a in row.arguments]
    leaves = [a for a in arguments if a.requires_grad]
    if row.in_one_call:
        def value_and_gradients():
            value = function(*arguments).sum()
            return (value, *torch.autograd.grad(value, leaves))
        return value_and_gradients
    tangent = torch.ones_like(row.torch_function(*row.arguments))
    return lambda: torch.autograd.grad(function(*arguments), leaves, tangent)


def one_call(value_and_grad, arguments):
    """Returns a callable for a value_and_grad of the sum of a function of a tuple."""
    def step():
        value, gradients = value_and_grad(arguments)
        return (value, *gradients)
    return step


def our_step(row, **options):
    import diptych

    if row.in_one_call:
        return one_call(diptych.value_and_grad(lambda a: row.our_function(*a).sum(), **options), tuple(row.arguments))
    return torch_step(diptych.aot_function(row.our_function, **options, **row.options), row)


def jax_step(row):
    arguments = [jnp.asarray(a.numpy().astype(np.int32) if a.dtype == torch.long else a.numpy()) for a in row.arguments]
    if row.in_one_call:
        step = one_call(jax.jit(jax.value_and_grad(lambda a: row.jax_function(*a).sum())), tuple(arguments))
        return lambda: jax.block_until_ready(step())
    if row.backward:
        wanted = tuple(i for i, a in enumerate(row.arguments) if a.is_floating_point())
        step = jax.jit(jax.grad(lambda *a: row.jax_function(*a).sum(), argnums=wanted))
    else:
        step = jax.jit(lambda *a: (row.jax_function(*a),))
    return lambda: jax.block_until_ready(step(*arguments))


def engines(row):
    steps = {
        "native": our_step(row, backend="native"),
        "interpreter": our_step(row, backend="interpreter"),
        "eager": torch_step(row.torch_function, row),
        "torch.compile": torch_step(torch.compile(row.torch_function), row),
        "JAX": jax_step(row),
    }
    if row.is_loop:
        del steps["torch.compile"]
    return steps


def check(name, got, expected):
    for a, b in zip(got, expected, strict=True):
        a, b = (np.asarray(t.detach() if isinstance(t, torch.Tensor) else t, dtype=np.float64) for t in (a, b))
        error = np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)
        if not error < 2e-4:
            raise RuntimeError(f"{name} is {error:.1e} of the largest element away from eager")


def measure(steps, rounds):
    """Returns milliseconds by engine, one median a round: a short step is repeated for a twentieth of a second."""
    samples, repeats = {name: [] for name in steps}, {}
    for name, step in steps.items():
        step()
        start = time.perf_counter()
        step()
        repeats[name] = max(1, min(2000, int(0.05 / max(time.perf_counter() - start, 1e-7))))
    for _ in range(rounds):
        for name, step in steps.items():
            times = []
            gc.collect()
            for _ in range(repeats[name]):
                start = time.perf_counter()
                step()
                times.append(time.perf_counter() - start)
            samples[name].append(statistics.median(times) * 1e3)
    return samples


def spread(values, digits=2):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.{digits}f} ({low:.{digits}f}..{high:.{digits}f})"


def report(name, row, samples):
    peers = [peer for peer in samples if peer not in ("native", "interpreter")]
    best = [min(times) for times in zip(*(samples[peer] for peer in peers))]
    ratios = [ours / peer for ours, peer in zip(samples["native"], best)]
    verdict = "met" if statistics.median(ratios) <= row.goal else "missed"
    cells = [spread(samples[name], 3 if statistics.median(samples[name]) < 1 else 2) if name in samples else "–" for name in ENGINES]
    print(f"| {name} | {' | '.join(cells)} | {spread(ratios)} | {row.goal}: {verdict} |", flush=True)


def cpu_name():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))


def first_calls(name, steps):
    """Returns the seconds of each engine's first call, with whatever it traces and compiles, and checks its results."""
    seconds, expected = {}, None
    for engine in ("eager", *(engine for engine in steps if engine != "eager")):
        start = time.perf_counter()
        got = steps[engine]()
        seconds[engine] = time.perf_counter() - start
        expected = got if expected is None else expected
        check(f"{name} by {engine}", got, expected)
    return seconds


def report_first_calls(all_seconds):
    """Ours come from the folder of compiled kernels where an earlier run has left them: a new DIPTYCH_CACHE_DIR is cold."""
    print("\n| first call, seconds | native | interpreter | eager | torch.compile | JAX |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, seconds in all_seconds.items():
        cells = [f"{seconds[engine]:.3f}" if engine in seconds else "–" for engine in ENGINES]
        print(f"| {name} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="rows whose names contain one of these; all by default")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{cpu_name()}, {options.threads} threads, torch {torch.__version__}, JAX {jax.__version__}, {options.rounds} rounds; milliseconds")
    print("\n| work | native | interpreter | eager | torch.compile | JAX | native / best peer | goal |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    seconds = {}
    for name, make in rows().items():
        if options.names and not any(wanted in name for wanted in options.names):
            continue
        torch.manual_seed(0)
        row = make()
        steps = engines(row)
        seconds[name] = first_calls(name, steps)
        report(name, row, measure(steps, options.rounds))
    report_first_calls(seconds)


if __name__ == "__main__":
    main()
