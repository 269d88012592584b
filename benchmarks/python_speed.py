"""Measures what Diptych costs from Python, beside PyTorch's own: tracing a GPT, one call of a small compiled function,
and the import.

    PYTHONPATH=build/ci/python .venv/bin/python benchmarks/python_speed.py --rounds 9

Every engine takes turns within one run, so that load on the machine affects all of them alike. A cell is the median,
with the 10th and the 90th percentile in parentheses; ratios are taken round by round. One thread. README.md says what
each clock includes.
"""
import argparse
import gc
import pathlib
import statistics
import subprocess
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "python"))

#: What the last column is compared with: (goal's text, whether a median meets it).
GOALS = {
    "trace": ("at least 20 times faster", lambda ratio: ratio >= 20),
    "call": ("under half of its time", lambda ratio: ratio >= 2),
    "import": ("under 50 ms", lambda seconds: seconds < 0.05),
}
IMPORT = "import time, torch; start = time.perf_counter(); import diptych; print(time.perf_counter() - start)"


def spread(values, unit=1.0, digits=1):
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    shown = [f"{value / unit:.{digits}f}" for value in (statistics.median(values), tenths[0], tenths[-1])]
    return f"{shown[0]} ({shown[1]}..{shown[2]})"


def ratios(theirs, ours):
    return [a / b for a, b in zip(theirs, ours, strict=True)]


def verdict(goal, values):
    text, is_met = GOALS[goal]
    return f"{text}: {'yes' if is_met(statistics.median(values)) else 'NO'}"


def trace_once(model):
    """Returns the seconds of a capture of `model`'s loss by Diptych and by functorch, each with a function object of
    its own."""
    import diptych
    import peer_functorch
    from functorch.compile import default_partition

    def loss(params, buffers, data):
        return model.loss(params, buffers, data)

    gc.collect()
    start = time.perf_counter()
    pair = diptych.capture(loss, model.params, model.buffers, model.data)
    ours = time.perf_counter() - start
    gradients = sum(info.meta is not None for info in pair.signature.backward_outputs)
    if gradients < len(model.params):
        raise RuntimeError(f"{gradients} gradients of {len(model.params)} parameters were captured")
    gc.collect()
    return ours, peer_functorch.capture(model, default_partition)["time_ns"] * 1e-9


def trace(names, rounds):
    from models_torch import MODELS

    print("\n| tracing | Diptych, ms | aot_function, ms | aot_function / Diptych | first of the process | goal |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for name in names:
        model = MODELS[name]()
        first, *samples = [trace_once(model) for _ in range(rounds + 1)]
        ours, theirs = zip(*samples)
        times = ratios(theirs, ours)
        print(f"| {name} | {spread(ours, 1e-3)} | {spread(theirs, 1e-3, 0)} | {spread(times, digits=0)} | "
              f"{first[1] / first[0]:.0f} | {verdict('trace', times)} |", flush=True)


def product_sine(x, y):
    return (x * y).sin()


def call_times(function, calls):
    """Returns the seconds of one call without gradients, of one with gradients, and of its backward, each the mean of
    `calls`."""
    x, y = (torch.tensor(values, requires_grad=True) for values in ([0.5, -1.5], [1.25, 0.75]))
    plain, tangent = (x.detach(), y.detach()), torch.ones(2)
    gc.collect()
    start = time.perf_counter()
    for _ in range(calls):
        function(*plain)
    without = time.perf_counter() - start
    outputs = [None] * calls
    start = time.perf_counter()
    for i in range(calls):
        outputs[i] = function(x, y)
    forward = time.perf_counter() - start
    start = time.perf_counter()
    for output in outputs:
        torch.autograd.grad(output, (x, y), tangent)
    return without / calls, forward / calls, (time.perf_counter() - start) / calls


def check_call(name, function):
    x, y = torch.randn(2, requires_grad=True), torch.randn(2, requires_grad=True)
    got, expected = (torch.autograd.grad(f(x, y), (x, y), torch.ones(2)) for f in (function, product_sine))
    torch.testing.assert_close(got, expected, msg=lambda text: f"{name}'s gradients are wrong: {text}")


def call(rounds, calls):
    """Measures rounds of a tenth of a second each: on a loaded machine, many short rounds tell more than few long
    ones."""
    import diptych

    engines = {
        "eager": product_sine,
        "Diptych": diptych.aot_function(product_sine),
        "aot_eager": torch.compile(product_sine, backend="aot_eager"),
    }
    for name, function in engines.items():
        check_call(name, function)
        call_times(function, calls)
    samples = {name: [] for name in engines}
    for _ in range(rounds):
        for name, function in engines.items():
            samples[name].append(call_times(function, calls))
    print("\n| one call on two elements | eager, us | Diptych, us | aot_eager, us | Diptych / eager | aot_eager / Diptych | goal |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for i, part in enumerate(("forward, no gradients", "forward", "backward")):
        eager, ours, theirs = ([sample[i] for sample in samples[name]] for name in engines)
        print(f"| {part} | {spread(eager, 1e-6)} | {spread(ours, 1e-6)} | {spread(theirs, 1e-6)} | {spread(ratios(ours, eager))} | "
              f"{spread(ratios(theirs, ours))} | {verdict('call', ratios(theirs, ours))} |")


def import_time(rounds):
    run = [sys.executable, "-c", IMPORT]
    times = [float(subprocess.run(run, check=True, capture_output=True, text=True).stdout) for _ in range(rounds + 1)][1:]
    print(f"\n`import diptych` after torch: {spread(times, 1e-3)} ms; {verdict('import', times)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=400, help="calls in a sample")
    parser.add_argument("--models", nargs="*", default=["mlp", "gpt", "gpt2"], help="of python/models_torch.py")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, one thread, {options.rounds} rounds")
    trace(options.models, options.rounds)
    call(10 * options.rounds, options.calls)
    import_time(options.rounds)


if __name__ == "__main__":
    main()
