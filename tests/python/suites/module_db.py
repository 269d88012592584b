"""PyTorch's database of modules as a judge: each module of torch.nn, called twice in eager and through diptych.aot_module.

    python tests/python/suites/module_db.py [--only nn.Linear,nn.LSTM] [--samples 2] [--how dynamo]

Compared are results, gradients with respect to inputs and parameters, parameters and buffers after the calls and, in float64, second gradients. A lazy
module is called once in eager first, which makes its parameters; before that it has to be refused by name. With --how dynamo modules go through torch.compile
with Diptych as its backend instead, which gets what Dynamo makes of them, in parts maybe; with --how backward they run in eager, and the backward passes
are captured as a whole.
"""
import contextlib
import copy
import itertools
import sys
from functools import partial

import diptych
import judge
import suite
import torch
from device import DEVICE
from torch.testing._internal.common_modules import module_db

DTYPES = (torch.float32, torch.float64)


class Module:
    """A sample's module with its inputs, made anew for each side from one state."""

    def __init__(self, info, sample, dtype, training):
        judge.seed(3)
        given = sample.constructor_input
        self.module = info.module_cls(*given.args, **given.kwargs).to(dtype).train(training)
        self.inputs = (sample.forward_input.args, sample.forward_input.kwargs)
        if info.is_lazy:
            arguments, keywords = judge.clone(self.inputs)
            self.module(*arguments, **keywords)

    def observe(self, compiler, around, order):
        """What is seen of two calls, of which the compiled module captures the first alone."""
        module = copy.deepcopy(self.module)
        with torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                judge.shake(tensor)
        if judge.settings.wide:
            module.double()
        call = compiler(module)
        state = [*module.parameters(), *module.buffers()]
        seen = judge.Seen()
        for step in range(2):
            arguments, keywords = judge.clone(self.inputs)
            leaves = judge.tensors((arguments, keywords)) + list(module.parameters())
            seen += judge.observe(call, leaves, arguments, keywords, order if step == 0 else min(order, 1), state, around=around)
        return seen


def through_dynamo(module):
    from diptych._dynamo import backend

    torch.compiler.reset()
    return torch.compile(module, backend=backend, options={"backend": judge.settings.backend, "eager_fallback": False})


HOW = {
    "aot": (judge.compiled_module, contextlib.nullcontext),
    "dynamo": (through_dynamo, contextlib.nullcontext),
    "backward": (lambda module: module, lambda: diptych.backward_capture.capture(judge.settings.backend)),
}


def judge_samples(info, dtype, training, how, limit):
    order = 2 if info.supports_gradgrad and dtype == torch.float64 else 1
    samples = info.module_inputs_func(info, device=DEVICE, dtype=dtype, requires_grad=True, training=training)
    outcomes = []
    for sample in itertools.islice((sample for sample in samples if sample.forward_input is not None), limit):
        case = Module(info, sample, dtype, training)
        outcomes.append(judge.judge_to_order(partial(case.observe, lambda module: module, contextlib.nullcontext), partial(case.observe, *how), order))
    return judge.worst(outcomes)


def judge_uninitialized(info, dtype, compiler):
    """A lazy module that was never called: its parameters have no sizes yet."""
    sample = info.module_inputs_func(info, device=DEVICE, dtype=dtype, requires_grad=True, training=True)[0]
    module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)

    def call(compiler):
        arguments, keywords = judge.clone((sample.forward_input.args, sample.forward_input.kwargs))
        return judge.observe(compiler(copy.deepcopy(module)), judge.tensors(arguments), arguments, keywords, 1)

    return judge.judge(lambda: call(lambda module: module), lambda: call(compiler))


def entry(info, how, limit):
    for dtype in DTYPES:
        if dtype not in info.supported_dtypes(DEVICE):
            continue
        name = str(dtype)[6:]
        for training in (True, False):
            yield f"{name} {'train' if training else 'eval'}", lambda: judge_samples(info, dtype, training, how, limit)
    if info.is_lazy:
        yield "float32 uninitialized", lambda: judge_uninitialized(info, torch.float32, how[0])


def entries(options):
    return [(info.name, partial(entry, info, HOW[options.how], options.samples)) for info in module_db]


if __name__ == "__main__":
    how = next((how for how in HOW if how in sys.argv and how != "aot"), "")
    suite.main(f"module_db_{how}".rstrip("_"), __doc__, entries, lambda parser: parser.add_argument("--how", choices=HOW, default="aot"))
