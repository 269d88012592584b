"""Measures what a hit of a captured backward costs before its graph runs, per autograd node: Diptych beside PyTorch's
compiled autograd, in turns. Run `make bench` once to build; then .venv/bin/python benchmarks/lookup.py --rounds 5

PyTorch's compiler is one whose function returns at once, so that what is left of a backward run is its lookup, the
lists that it makes for that function, and the call. Diptych's figure is taken inside the run, from its start to the
entry that was found.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = (10, 100, 1000, 10000)


def of_diptych(binary, nodes):
    command = [binary, f"--benchmark_filter=lookup_of_small_nodes/{nodes}/", "--benchmark_format=json",
               "--benchmark_min_time=0.1"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report["benchmarks"][0]["real_time"] * 1e-9


def of_pytorch(nodes, passes):
    import torch
    from torch._dynamo import compiled_autograd
    torch.set_num_threads(1)
    torch._dynamo.reset()
    x = torch.randn(4, requires_grad=True)
    times = []
    with compiled_autograd._enable(lambda graph: lambda *lists: [torch.zeros(4)], dynamic=False):
        for _ in range(passes):
            y = x
            for i in range(nodes):
                y = y.tanh() if i % 2 == 0 else y * 1.5
            loss = y.sum()
            begin = time.perf_counter()
            torch.autograd.grad([loss], [x])
            times.append(time.perf_counter() - begin)
    return times[0], statistics.median(times[1:])


def in_child(nodes, limit):
    """Runs PyTorch's side in a child process with a time limit: its capture of many nodes takes minutes, and may not
    end."""
    try:
        output = subprocess.run([sys.executable, __file__, "--pytorch", str(nodes)], check=True, capture_output=True,
                                text=True, timeout=limit).stdout
        return json.loads(output)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None


def spread(values):
    return f"{statistics.median(values) * 1e6:.3f} ({min(values) * 1e6:.3f}..{max(values) * 1e6:.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=120, help="seconds to wait for one of PyTorch's captures")
    parser.add_argument("--binary", default=str(ROOT / "build" / "bench" / "bin" / "bench_backward_capture"))
    parser.add_argument("--pytorch", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pytorch:
        print(json.dumps(of_pytorch(options.pytorch, 11)))
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    print("| nodes | Diptych, us a node | PyTorch, us a node | PyTorch / Diptych | PyTorch's first pass |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for nodes in SIZES:
        ours, theirs, first = [], [], []
        for _ in range(options.rounds):
            ours.append(of_diptych(options.binary, nodes) / nodes)
            found = in_child(nodes, options.limit) if len(theirs) == len(ours) - 1 else None
            if found:
                first.append(found[0])
                theirs.append(found[1] / nodes)
        if theirs:
            ratio = f"{statistics.median(theirs) / statistics.median(ours):.1f}"
            print(f"| {nodes} | {spread(ours)} | {spread(theirs)} | {ratio} | {statistics.median(first):.2f} s |")
        else:
            print(f"| {nodes} | {spread(ours)} | none in {options.limit:.0f} s | | |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
