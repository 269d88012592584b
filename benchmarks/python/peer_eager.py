"""Worker: torch's eager mode from Python; call overhead, bytes saved for backward, and a training step."""

import protocol
import rnn
import torch
from models_torch import MODELS, Model, two_element_inputs, two_elements


def call_forward(repeat):
    inputs = two_element_inputs()
    return protocol.timed_in_batches(repeat, lambda: two_elements(*inputs)), {}


def call_forward_backward(repeat):
    inputs = two_element_inputs()
    return protocol.timed_in_batches(repeat, lambda: torch.autograd.grad(two_elements(*inputs), inputs)), {}


def residual_case(make, more_facts=None):
    """Counts the bytes that eager's autograd keeps: each storage once, with and without those of parameters and
    data."""

    def run(repeat):
        model = make()
        saved = {}

        def pack(tensor):
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            outputs = model.loss(model.params, model.buffers, model.data)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        known = {t.untyped_storage().data_ptr() for t in (*model.params, *model.buffers, *model.data, *outputs)}
        facts = {
            "saved": len(saved),
            "bytes_with_inputs": sum(saved.values()),
            "new_bytes": sum(size for key, size in saved.items() if key not in known),
        }
        del outputs
        return [], {**facts, **(more_facts or {})}

    return run


def step_case(name):
    """Runs forward and backward into fresh `.grad`; there is no optimizer, which would be the same for everyone."""
    before = protocol.memory_bytes("VmRSS")
    model = facts = None

    def once():
        for value in model.params:
            value.grad = None
        model.loss(model.params, model.buffers, model.data).backward()

    def run(repeat):
        nonlocal model, facts
        model = model or MODELS[name](run=True)
        times = protocol.timed(repeat, once)
        facts = facts or protocol.step_facts(before, once)
        return times, facts

    return run


def main():
    cases = {"call/forward": call_forward, "call/forward_backward": call_forward_backward, "step/gpt": step_case("gpt")}
    # GPT-2 is left out: its eager forward needs gigabytes that a small machine may not have.
    for name in ("gpt", "resnet18", "mlp", "lstm_cell"):
        cases[f"residuals/{name}/eager"] = residual_case(lambda make=MODELS[name]: make(run=True))
    for length in rnn.LENGTHS:
        model = lambda length=length: Model(lambda p, b, d: rnn.loss(p), rnn.params(length))  # noqa: E731
        cases[f"scan/memory/{length}"] = residual_case(model, {"predicted_bytes": rnn.state_bytes(length)})
    protocol.serve(cases)


if __name__ == "__main__":
    main()
