"""Worker: torch.compile with the backend named on the command line (inductor, aot_eager); call overhead, step time."""

import sys

import protocol
import torch
from models_torch import MODELS, two_element_inputs, two_elements


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


def main():
    backend = sys.argv[1] if len(sys.argv) > 1 else "inductor"
    cases = {"call/forward": call_case(backend, False), "call/forward_backward": call_case(backend, True)}
    if backend == "inductor":
        cases["step/gpt"] = step_case("gpt", backend)
    protocol.serve(cases)


if __name__ == "__main__":
    main()
