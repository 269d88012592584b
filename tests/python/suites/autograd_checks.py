"""Checks of AOTAutograd pointed at Diptych: the behaviours that its own tests exercise, each in many modes.

    python tests/python/suites/autograd_checks.py [--only mutation,views] [--list]

The cases are in the cases_*.py beside this file: a function, and what builds its arguments. Each is called twice in every mode of MODES, and everything that
can be seen is compared with eager: results, aliases, arguments and their bases afterwards, and gradients. Cases that change nothing are given to
PyTorch's aot_autograd_check as well, which compiles by what is put in the place of AOTAutograd.
"""
import contextlib
import dataclasses
from functools import partial
from unittest import mock

import diptych
import judge
import suite
import torch
from cases import CASES, settings
from torch.testing._internal.optests import aot_autograd


@dataclasses.dataclass
class Mode:
    options: dict = dataclasses.field(default_factory=dict)
    around: object = contextlib.nullcontext
    inside: object = contextlib.nullcontext  # around the calls alone, not the making of their arguments
    sizes: tuple = (3, 3)
    grad: bool = True
    transposed: bool = False
    order: int = 1
    compiled: bool = True
    captured: bool = False  # whether backward passes are captured as a whole


MODES = {
    "default": Mode(),
    "second": Mode(order=2),
    "second-min_cut": Mode({"partition": "min_cut"}, order=2),
    "min_cut": Mode({"partition": "min_cut"}),
    "budget": Mode({"partition": "memory_budget(0.3)"}),
    "decomposed": Mode({"decompositions": ["all"]}),
    "dynamic": Mode({"dynamic": True, "partition": "min_cut"}, sizes=(3, 5, 4, 5)),
    "tangents": Mode(transposed=True),
    "backward": Mode(compiled=False, captured=True, order=2),
    "both": Mode(captured=True),
    "constant": Mode(grad=False),
    "no_grad": Mode(inside=torch.no_grad),
    "inference": Mode(around=torch.inference_mode, grad=False),
}


def bases(arguments):
    """Leaves that the arguments were computed from, and tensors of which they are views."""
    leaves, seen = {}, set()
    pending = [argument.grad_fn for argument in arguments if argument.grad_fn is not None]
    for argument in arguments:
        if argument.is_leaf and argument.requires_grad:
            leaves[id(argument)] = argument
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves[id(node.variable)] = node.variable
        pending += [following for following, _ in node.next_functions]
    viewed = {id(argument._base): argument._base for argument in arguments if argument._is_view()}
    return list(leaves.values()), list(viewed.values())


def observe(case, mode, order, compile_, backward):
    """What is seen of the calls of a mode, of one side."""
    settings.grad = mode.grad
    seen = judge.Seen()
    with mode.around():
        judge.seed(3)
        function, state = case.function() if case.makes_state else (case.function, [])
        call = compile_(function)
        for step, size in enumerate(mode.sizes):
            judge.seed(11 + step)
            arguments = case.arguments(size, step) if case.by_step else case.arguments(size)
            leaves, viewed = bases(judge.tensors(arguments) + state)
            if mode.inside is torch.no_grad:
                order = 0

            def called(*args):
                with mode.inside():
                    result = call(*args)
                return case.then(result, *args) if case.then else result

            how = {"transposed": mode.transposed, "around": backward}
            seen += judge.observe(called, leaves, arguments, {}, min(order, case.order), state + viewed, **how)
    return seen


def judge_case(case, mode):
    judge.settings.narrow = case.narrow

    def ours(function):
        return judge.compiled(function, **mode.options) if mode.compiled else function

    eager = partial(observe, case, mode, compile_=lambda function: function, backward=contextlib.nullcontext)
    around = diptych.backward_capture.capture if mode.captured else contextlib.nullcontext
    return judge.judge_to_order(eager, partial(observe, case, mode, compile_=ours, backward=around), mode.order)


def compiled_by_diptych(function, forward_compiler, backward_compiler, *, dynamic, partition_fn, **_):
    """Stands in the place of functorch.compile.compiled_function."""
    cut = partition_fn is aot_autograd.min_cut_rematerialization_partition
    return judge.compiled(function, dynamic=dynamic, partition="min_cut" if cut else "default")


def torch_check(case, dynamic):
    """PyTorch's own check, which raises what it finds."""
    settings.grad = True
    judge.seed(11)
    arguments = case.arguments(3)
    try:
        outputs = judge.tensors(case.function(*arguments))
    except Exception as error:
        return "eager refuses", judge.words(error)
    gradients = any(output.requires_grad for output in outputs)
    try:
        with mock.patch.object(aot_autograd, "compiled_function", compiled_by_diptych):
            aot_autograd.aot_autograd_check(case.function, arguments, {}, dynamic, check_gradients=gradients, try_check_data_specialization=True)
    except diptych.UserError as error:
        return "refused", judge.words(error)
    except AssertionError as error:
        return "wrong", judge.words(error)
    except Exception as error:
        return "error", judge.words(error)
    return "passed", ""


def entry(case):
    for name, mode in MODES.items():
        if name not in case.skip:
            yield name, partial(judge_case, case, mode)
    if case.pure:
        yield "aot_autograd_check", partial(torch_check, case, False)
        yield "aot_autograd_check-dynamic", partial(torch_check, case, True)


def entries(options):
    return [(name, partial(entry, case)) for name, case in CASES.items()]


if __name__ == "__main__":
    suite.main("autograd_checks", __doc__, entries)
