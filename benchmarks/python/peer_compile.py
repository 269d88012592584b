"""Worker: torch.compile with the backend named on the command line (inductor, aot_eager); call overhead, step time, loops."""

import sys
import time

import protocol
import rnn
import torch
from models_torch import MODELS, two_element_inputs, two_elements

#: Compiling an unrolled loop takes minutes above this many steps.
LONGEST_LOOP = 64


def call_case(backend, backward):
    compiled = None

    def run(repeat):
        nonlocal compiled
        compiled = compiled or torch.compile(two_elements, backend=backend, dynamic=False)
        inputs = two_element_inputs()
        if backward:
            once = lambda: torch.autograd.grad(compiled(*inputs), inputs)  # noqa: E731
        else:
            once = lambda: compiled(*inputs)  # noqa: E731
        once()
        return protocol.timed_in_batches(repeat, once), {}

    return run


def step_case(name, backend):
    before = protocol.memory_bytes("VmRSS")
    model = compiled = facts = None

    def once():
        for value in model.params:
            value.grad = None
        compiled(model.params, model.buffers, model.data).backward()

    def run(repeat):
        nonlocal model, compiled, facts
        if model is None:
            model = MODELS[name](run=True)
            compiled = torch.compile(model.loss, backend=backend, dynamic=False)
        times = protocol.timed(repeat, once)
        facts = facts or protocol.step_facts(before, once)
        return times, facts

    return run


def scan_case(length, backend):
    """Measures a loop that the trace unrolls: the first call, which compiles, takes longer the more steps there are."""
    params = facts = None
    compiled = torch.compile(rnn.loss, backend=backend, dynamic=False)
    once = lambda: torch.autograd.grad(compiled(params), params)  # noqa: E731

    def run(repeat):
        nonlocal params, facts
        if params is None:
            params = rnn.params(length)
            start = time.perf_counter()
            once()
            facts = {"first_call_ns": (time.perf_counter() - start) * 1e9}
        return protocol.timed(repeat, once), facts

    return run


def main():
    backend = sys.argv[1] if len(sys.argv) > 1 else "inductor"
    cases = {"call/forward": call_case(backend, False), "call/forward_backward": call_case(backend, True)}
    if backend == "inductor":
        cases["step/gpt"] = step_case("gpt", backend)
        for length in rnn.LENGTHS:
            if length <= LONGEST_LOOP:
                cases[f"scan/time/{length}"] = scan_case(length, backend)
    protocol.serve(cases)


if __name__ == "__main__":
    main()
