"""PyTorch's database of optimizers as a judge: training steps in eager and as one compiled function, for each optimizer and its options.

    python tests/python/suites/optim_db.py [--only SGD]

The first step is eager on both sides, as it makes the optimizer's state; then three follow, of which the compiled function captures the first. Compared are
losses, parameters and the optimizer's state. "update" compiles optimizer.step() alone, "training" forward, backward and step.
"""
import copy
import itertools
from functools import partial

import judge
import suite
import torch
from torch import nn
from torch.testing._internal.common_optimizers import optim_db

NEED_MORE = ("LBFGS", "SparseAdam")  # a closure that is called by values; sparse gradients


class Training:
    """A small network, and a step of its training by an optimizer."""

    def __init__(self, make, whole):
        judge.seed(3)
        self.module = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 2, bias=False)).double()  # Muon takes matrices alone
        self.optimizer, self.whole = make(self.module.parameters()), whole

    def backward(self, x):
        loss = self.module(x).square().sum()
        loss.backward()
        return loss.detach()

    def step(self, x):
        loss = self.backward(x) if self.whole else x.sum()
        self.optimizer.step()
        return loss

    def observe(self, compile_):
        step, seen = None, judge.Seen()
        for _ in range(4):
            x = torch.randn(5, 3, dtype=torch.float64)
            self.optimizer.zero_grad(set_to_none=False)
            if not self.whole or step is None:
                self.backward(x)
            if step is None:
                self.optimizer.step()
                step = compile_(lambda x: self.step(x))
                continue
            seen.note("loss", step(x))
            seen.note_all("parameter", [parameter.detach() for parameter in self.module.parameters()])
            seen.note_all("state", judge.tensors(copy.copy(self.optimizer.state_dict()["state"])))
        return seen


def judge_options(info, whole, limit):
    outcomes = []
    for options in itertools.islice(info.optim_inputs_func(device="cpu"), limit):
        make = partial(info.optim_cls, **options.kwargs)
        try:
            make([torch.ones(2, 2)])
        except (ValueError, RuntimeError) as error:
            outcomes.append(("eager refuses", judge.words(error)))
            continue
        outcomes.append(judge.judge(
            lambda: Training(make, whole).observe(lambda step: step), lambda: Training(make, whole).observe(judge.compiled)))
    return judge.worst(outcomes)


def entry(info, limit):
    yield "update", partial(judge_options, info, False, limit)
    yield "training", partial(judge_options, info, True, limit)


def entries(options):
    return [(info.optim_cls.__name__, partial(entry, info, options.samples)) for info in optim_db if info.optim_cls.__name__ not in NEED_MORE]


if __name__ == "__main__":
    suite.main("optim_db", __doc__, entries)
