#!/usr/bin/env python3
"""Random sequences of small models in one process beside eager.
Usage: sequences.py [--models N] [--seed S] [--sequence SEED]

A sequence makes a few models one after the other, each compiled in another way, and trains them by turns: batch sizes change, evaluations, failing
calls, hooks and accumulation come between. After each step losses, gradients, buffers and the state of the generators are compared with those of
the same sequence in eager. Prints what differs, with the seed of its sequence; exits with 1 if something does.
"""
import argparse
import contextlib
import os
import random
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import diptych  # noqa: E402

WIDTH = 8
TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-4}


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Checkpointed(nn.Module):
    def __init__(self, inner, reentrant):
        super().__init__()
        self.inner, self.reentrant = inner, reentrant

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=self.reentrant)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x)[:, None].chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0)[:, 0]


class Noisy(nn.Module):
    def forward(self, x):
        return x + 0.1 * torch.randn_like(x) if self.training else x


class Counting(nn.Module):
    """Keeps a running mean as a buffer, and how often it was called."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if self.training:
            self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
            self.calls += 1
        return x - self.mean


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(WIDTH, 2), nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        return sum(weights[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))


ACTIVATIONS = (nn.Tanh, nn.GELU, nn.SiLU, nn.ReLU, nn.Softplus)
BLOCKS = {
    "linear": lambda draw: nn.Sequential(nn.Linear(WIDTH, WIDTH), draw.choice(ACTIVATIONS)()),
    "layer norm": lambda draw: nn.LayerNorm(WIDTH),
    "batch norm": lambda draw: nn.BatchNorm1d(WIDTH, momentum=draw.choice((0.1, None))),
    "group norm": lambda draw: nn.GroupNorm(2, WIDTH),
    "dropout": lambda draw: nn.Dropout(0.3),
    "residual": lambda draw: Residual(block(draw)),
    "checkpoint": lambda draw: Checkpointed(nn.Sequential(plain_block(draw), nn.Dropout(0.2)), draw.random() < 0.3),
    "attention": lambda draw: Attention(),
    "noise": lambda draw: Noisy(),
    "counting": lambda draw: Counting(),
    "mixture": lambda draw: Mixture(),
    "weight norm": lambda draw: nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)),
}


# What keeps state is counted twice by eager's checkpoint, and once by a captured one (docs/limits.md).
PLAIN = [name for name in BLOCKS if name not in ("batch norm", "counting", "residual", "checkpoint")]


def plain_block(draw):
    return BLOCKS[draw.choice(PLAIN)](draw)


def block(draw):
    return BLOCKS[draw.choice(list(BLOCKS))](draw)


def inside(module, compile):
    """Compiles one of the blocks alone."""
    module[0] = compile(module[0])
    return module


class Loss:
    """The module as a part of a function that is compiled."""

    def __init__(self, module, compile):
        self.module = module
        self.function = compile(lambda x: module(x) * 1)

    def __call__(self, x):
        return self.function(x)


def each(module, compile):
    return nn.Sequential(*map(compile, module))


WAYS = {
    "aot_module": lambda module: diptych.aot_module(module),
    "in place": lambda module: diptych.compile(module),
    "dynamic": lambda module: diptych.aot_module(module, dynamic=True),
    "min_cut": lambda module: diptych.aot_module(module, partition="min_cut"),
    "interpreter": lambda module: diptych.aot_module(module, backend="interpreter"),
    "torch.compile": lambda module: torch.compile(module, backend="diptych", dynamic=False),
    "inside": lambda module: inside(module, diptych.aot_module),
    "each": lambda module: each(module, diptych.aot_module),
    "inside, torch.compile": lambda module: inside(module, lambda inner: torch.compile(inner, backend="diptych", dynamic=False)),
    "function": lambda module: Loss(module, diptych.aot_function),
    "twice": lambda module: diptych.aot_module(inside(module, diptych.aot_module)),
}
OPTIMIZERS = (lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.5), lambda p: torch.optim.AdamW(p, lr=1e-2), lambda p: torch.optim.Adam(p, lr=1e-2, foreach=True))


class Model:
    """A model of a sequence with its optimizer, compiled or not."""

    def __init__(self, draw, way, is_compiled):
        self.dtype = torch.float64 if draw.random() < 0.7 else torch.float32
        torch.manual_seed(draw.randrange(1 << 30))
        self.module = nn.Sequential(*(block(draw) for _ in range(draw.randint(1, 4))), nn.Linear(WIDTH, 2)).to(self.dtype)
        self.has_autocast = self.dtype == torch.float32 and draw.random() < 0.2
        if "torch.compile" in way:  # Dynamo takes a reentrant checkpoint for one that is not
            for part in self.module.modules():
                part.reentrant = False
        # The others make large steps of gradients that are but rounding.
        self.optimizer = (OPTIMIZERS[0] if self.dtype == torch.float32 else draw.choice(OPTIMIZERS))(self.module.parameters())
        self.captures_backward = draw.random() < 0.15
        if draw.random() < 0.25:
            self.module[-1].register_forward_hook(lambda module, inputs, output: output * 1.5)
        if draw.random() < 0.2:
            self.module[-1].weight.register_hook(lambda gradient: gradient * 0.5)
        self.call = WAYS[way](self.module) if is_compiled else self.module
        self.is_compiled, self.way = is_compiled, way

    def run(self, x):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.has_autocast):
            return self.call(x)

    def loss(self, size, step):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(size, WIDTH, generator=generator, dtype=torch.float64).to(self.dtype)
        return self.run(x).to(self.dtype).square().mean()

    def backward(self, loss):
        with diptych.backward_capture.capture() if self.captures_backward and self.is_compiled else contextlib.nullcontext():
            loss.backward()

    def seen(self):
        tensors = [p.grad for p in self.module.parameters() if p.grad is not None] + list(self.module.parameters()) + list(self.module.buffers())
        return [tensor.detach().clone() for tensor in tensors]


def train(model, draw):
    model.module.train()
    losses = []
    model.optimizer.zero_grad(set_to_none=draw.random() < 0.7)
    for _ in range(draw.choice((1, 1, 1, 2))):
        loss = model.loss(draw.choice((4, 4, 5, 7)), draw.randrange(1 << 30))
        model.backward(loss)
        losses.append(loss.detach())
    if draw.random() < 0.3:
        nn.utils.clip_grad_norm_(model.module.parameters(), 0.5)
    model.optimizer.step()
    return losses


def evaluate(model, draw):
    model.module.eval()
    with draw.choice((torch.no_grad, torch.inference_mode))():
        return [model.loss(draw.choice((4, 6)), draw.randrange(1 << 30)).clone()]


def fail(model, draw):
    """A call that raises on the way. Dynamo raises before anything is done."""
    if "torch.compile" in model.way:
        return []
    try:
        model.run(torch.ones(3, WIDTH + 1, dtype=model.dtype))
    except Exception:  # noqa: BLE001: eager's error or a refusal, which other tests compare
        return []
    return [torch.ones(1)]


def fail_in_hook(model, draw):
    """A call that raises at its end."""

    def hook(module, inputs, output):
        raise ValueError("a hook of the test's")

    handle = model.module[-1].register_forward_hook(hook)
    try:
        model.loss(4, draw.randrange(1 << 30))
    except ValueError:
        return []
    finally:
        handle.remove()
    return [torch.ones(1)]


def swap(model, draw):
    """New numbers in a parameter, as a checkpoint brings them."""
    torch.manual_seed(draw.randrange(1 << 30))
    model.module.load_state_dict({name: torch.rand_like(t) if t.is_floating_point() else t for name, t in model.module.state_dict().items()})
    return []


EVENTS = ((train, 10), (evaluate, 2), (fail, 1), (fail_in_hook, 1), (swap, 1))


def plan(seed, most):
    """Returns (seed of a model, way) of the models, and (index of a model, event, seed) of what is done, of a sequence."""
    draw = random.Random(seed)
    models = [(draw.randrange(1 << 30), draw.choice(list(WAYS))) for _ in range(draw.randint(2, most))]
    steps = []
    for newest in range(len(models)):
        for _ in range(draw.randint(2, 5)):
            index = newest if draw.random() < 0.7 else draw.randrange(newest + 1)
            steps.append((index, draw.choices([event for event, _ in EVENTS], [weight for _, weight in EVENTS])[0], draw.randrange(1 << 30)))
    return models, steps


def run(models, steps, is_compiled):
    """Yields (what was done, tensors, the generator's state) of each step of a sequence."""
    made = {}
    for number, (index, event, seed) in enumerate(steps):
        if index not in made:
            made[index] = Model(random.Random(models[index][0]), models[index][1], is_compiled)
        torch.manual_seed(seed % 1000)
        found = event(made[index], random.Random(seed))
        yield f"step {number}, {event.__name__} of model {index}", made[index], [*found, *made[index].seen()], torch.get_rng_state()


def difference(expected, got, has_autocast):
    for number, (one, other) in enumerate(zip(expected, got, strict=True)):
        tolerance = 5e-2 if has_autocast else TOLERANCE.get(one.dtype, 0)
        largest = one.abs().max().item() if tolerance and one.numel() else 0.0  # by which rounding is measured
        if one.shape != other.shape or one.dtype != other.dtype or not torch.allclose(one, other, tolerance, tolerance * max(largest, 1.0), equal_nan=True):
            return f"tensor {number} of {len(expected)} is off by {(one - other).abs().max().item():.1e}" if one.shape == other.shape else f"tensor {number} has other sizes"
    return ""


def judge(seed, most):
    """Returns what differs from eager in a sequence, or "", and how many models it had."""
    models, steps = plan(seed, most)
    try:
        eager = list(run(models, steps, is_compiled=False))
        for (words, model, expected, state), (_, _, got, ours) in zip(eager, run(models, steps, is_compiled=True), strict=True):
            found = difference(expected, got, model.has_autocast) or ("" if torch.equal(state, ours) else "the generator's state differs")
            if found:
                return f"{words} ({model.way}): {found}\n{model.module}", len(models)
    except Exception as error:  # noqa: BLE001: a finding
        import traceback

        return f"{type(error).__name__}: {error}\n" + "".join(traceback.format_tb(error.__traceback__)[-3:]), len(models)
    return "", len(models)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=30, help="how many models at least")
    parser.add_argument("--seed", type=int, default=1, help="of the first sequence; the next ones have the next numbers")
    parser.add_argument("--most", type=int, default=5, help="models of a sequence")
    parser.add_argument("--sequence", type=int, help="judge the sequence of this seed alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch._dynamo.config.skip_nnmodule_hook_guards = False  # else it does not see hooks that come later
    torch._dynamo.config.recompile_limit = 1000
    torch.set_num_threads(1)
    seed, num_models, faults = options.sequence if options.sequence is not None else options.seed, 0, 0
    while num_models < options.models:
        found, num = judge(seed, options.most)
        num_models += num
        if found:
            faults += 1
            print(f"sequence {seed}: {found}", flush=True)
        if options.sequence is not None:
            break
        seed += 1
    print(f"{num_models} models, {faults} sequences differ from eager")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
