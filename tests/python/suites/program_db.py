"""Programs that people write as a judge: each called several times in eager and compiled, values, gradients and what became of the host's state compared.

    python tests/python/suites/program_db.py [--only values_,environment_] [--list] [--how dynamo]

A program that is right and takes more captures than it says is an error; one that runs its function itself is an outcome "original", with the reason. These
and refusals are in expected.json. With --how dynamo what is compiled goes through torch.compile, with Diptych as its backend; what Dynamo itself has no
means for fails then, too.
"""
import random
import sys
from functools import partial

import diptych
import judge
import suite
import numpy
import torch
from programs import PROGRAMS


def by_aot(function, **options):
    if isinstance(function, torch.nn.Module):
        return diptych.aot_module(function, backend=judge.settings.backend, **{"eager_fallback": False, **options})
    return diptych.aot_function(function, backend=judge.settings.backend, **options)


def by_dynamo(function, dynamic=None, **options):
    from diptych._dynamo import backend

    options = {"backend": judge.settings.backend, "eager_fallback": False, **options}
    return torch.compile(function, backend=backend, options=options, dynamic=dynamic)


HOW = {"aot": by_aot, "dynamo": by_dynamo}


class Run:
    """One side of a program: wraps what it compiles, and observes its calls."""

    def __init__(self, program, compiler=None):
        self.program, self.compiler = program, compiler
        self.calls = judge.Calls()

    def wrap(self, function, **options):
        is_module = isinstance(function, torch.nn.Module)
        if is_module:
            self.modules.append(function)
        if self.compiler is None:
            return function
        made = self.calls.watch(self.compiler(function, **options))
        if hasattr(made, "stats"):
            self.compiled.append(made)
        return made

    def observe(self, order):
        self.compiled, self.modules = [], []
        torch.compiler.reset()
        judge.seed(3)
        made = self.program.make(self.wrap)
        call, state = made if isinstance(made, tuple) else (made, [])
        seen = judge.Seen()
        for step in range(self.program.steps):
            judge.seed(100 + step)
            arguments = [argument(step) for argument in self.program.arguments]
            arguments, _ = judge.clone((arguments, {}))
            parameters = [tensor for module in self.modules for tensor in module.parameters() if not torch.nn.parameter.is_lazy(tensor)]
            buffers = [tensor for module in self.modules for tensor in module.buffers() if not torch.nn.parameter.is_lazy(tensor)]
            leaves = [tensor for tensor in judge.tensors(arguments) + parameters if tensor.is_leaf]
            seen += judge.observe(partial(self.seeded, call, step), leaves, arguments, {}, order, [*state, *buffers], aliases=False)
            seen.note_all(f"call {step}: state of the generators", [hash(random.getstate()), hash(numpy.random.get_state()[1].tobytes()), torch.get_rng_state()])
        return seen

    @staticmethod
    def seeded(call, step, *arguments):
        judge.seed(200 + step)
        return call(*arguments)

    def counts(self):
        stats = [function.stats() for function in self.compiled]
        return sum(one.entries for one in stats), sum(one.hits for one in stats)


def judge_program(program, compiler):
    """The outcome, and in words how many captures and hits the calls were."""
    eager, ours = Run(program), Run(program, compiler)
    outcome = ours.calls.outcome(judge.judge_to_order(eager.observe, ours.observe, program.order))
    captures, hits = ours.counts()
    if outcome[0] != "passed":
        return outcome
    return ("error", f"{captures} captures, expected {program.captures}") if captures > program.captures else ("passed", f"{captures} captures, {hits} hits")


def entry(program, how):
    yield how, partial(judge_program, program, HOW[how])


def entries(options):
    return [(name, partial(entry, program, options.how)) for name, program in PROGRAMS.items()]


if __name__ == "__main__":
    how = next((how for how in HOW if how in sys.argv and how != "aot"), "")
    suite.main(f"program_db_{how}".rstrip("_"), __doc__, entries, lambda parser: parser.add_argument("--how", choices=HOW, default="aot"))
