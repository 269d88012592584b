"""Measures the resident memory that a training step's loss and gradients take at most, by backend "native" and by eager.

    PYTHONPATH=build/ci/python .venv-bench/bin/python benchmarks/native_memory.py [gpt] [gpt2]

Each engine has a process of its own. `step` is the peak of a step above what lives between steps (parameters, data, code), `all` that
above what lived before the first step, so that graphs and compiled code count. The median time of a step stands beside it.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ENGINES = {"eager": None, "native": {}, "native, min_cut": {"partition": "min_cut"}}


def resident(field):
    """Bytes of a line of /proc/self/status: VmRSS, or VmHWM for the highest since restart_peak()."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def restart_peak():
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def gpt_step(name, options):
    """Returns a callable that computes the gradients of the loss of a GPT once; options of aot_function(), None for eager."""
    sys.path.insert(0, str(HERE / "python"))
    import models_torch
    import torch

    torch.manual_seed(0)
    shape = {"gpt": models_torch.GPT, "gpt2": models_torch.GPT2}[name]
    model = models_torch.gpt(shape, run=True)
    arguments = [*model.data, *(p.detach().requires_grad_() for p in model.params)]
    leaves = [a for a in arguments if a.requires_grad]

    def loss(*a):
        return models_torch.gpt_loss(shape, list(a[2:]), list(a[:2]))

    if options is not None:
        import diptych

        loss = diptych.aot_function(loss, backend="native", **options)
    return lambda: torch.autograd.grad(loss(*arguments), leaves)


def measure(name, engine, steps=5):
    """Prints the peak of a step, the peak over all, and a step's time in ms, each apart by a blank."""
    step = gpt_step(name, ENGINES[engine])
    before = resident("VmRSS")
    step()
    step()
    between = resident("VmRSS")
    restart_peak()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    peak = resident("VmHWM")
    print(peak - between, peak - before, 1e3 * statistics.median(times))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["gpt", "gpt2"])
    parser.add_argument("--engine", help="measures this one in this process")
    options = parser.parse_args()
    if options.engine:
        measure(options.models[0], options.engine)
        return
    print("| model | engine | step, MB | all, MB | of eager's | ms |\n| --- | --- | ---: | ---: | ---: | ---: |")
    for name in options.models:
        eager = None
        for engine in ENGINES:
            command = [sys.executable, __file__, name, "--engine", engine]
            step, peak, ms = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
            eager = eager or (step, peak)
            print(f"| {name} | {engine} | {step / 1e6:.0f} | {peak / 1e6:.0f} | {step / eager[0]:.2f}; {peak / eager[1]:.2f} | {ms:.0f} |", flush=True)


if __name__ == "__main__":
    main()
