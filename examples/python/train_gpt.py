"""Trains a small GPT by a captured pair of its loss, and hands the run to a C++ program that goes on with it, or takes one over.

    PYTHONPATH=build/ci/python python examples/python/train_gpt.py --steps 100 --save out/run
    build/ci/bin/train_saved --load out/run --steps 100 --save out/run        # no Python in it
    PYTHONPATH=build/ci/python python examples/python/train_gpt.py --load out/run --steps 100

A run is two files: `out/run` holds the graphs, `out/run.safetensors` the parameters ("params.<name>"), AdamW's moments
("exp_avg.<name>", "exp_avg_sq.<name>"), the number of steps done ("step") and the state of torch's default generator
("random_state"), which dropout draws from. examples/cpp/train_saved.cpp is the same program.
"""
import argparse
import math
import pathlib
import sys
import time

import diptych
import torch
from torch import nn
from torch.nn import functional as F

TEXT = pathlib.Path(__file__).resolve().parents[2] / "data" / "kjv_new_testament.txt"
LR, WEIGHT_DECAY, BETA1, BETA2, EPS = 1e-3, 0.1, 0.9, 0.99, 1e-8
STRIDE = 530_063  # between windows: a prime far from any fraction of the text, so that windows spread out


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.attention_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp_in, self.mlp_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.query_key_value(self.attention_norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + F.dropout(self.attention_out(mixed.transpose(1, 2).reshape(batch, length, width)), self.dropout)
        return x + F.dropout(self.mlp_out(F.gelu(self.mlp_in(self.mlp_norm(x)), approximate="tanh")), self.dropout)


class Gpt(nn.Module):
    """Tokens i64[batch, length <= block] -> scores of each next token, f32[batch, length, vocabulary]. Its parameters have
    the names of examples/cpp/models/gpt.h."""

    def __init__(self, vocabulary, block, layers, width, heads, dropout=0.0):
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(vocabulary, width) * 0.02)
        self.positions = nn.Parameter(torch.randn(block, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.final_norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = F.embedding(tokens, self.tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.final_norm(x), self.tokens)


def read_tokens(path):
    """The text as i64[n], one token for each different byte in it, in the order of the bytes; and how many there are."""
    text = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8).long()
    occurring = text.unique()
    return torch.searchsorted(occurring, text), len(occurring)


def batch_of(text, step, count, block):
    """Inputs and targets, i64[count, block], as a function of the step alone; the last tenth of the text is left out."""
    starts = [(step * count + i) * STRIDE % (len(text) - len(text) // 10 - block) for i in range(count)]
    windows = torch.stack([text[start : start + block + 1] for start in starts])
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


class Run:
    """A pair of the loss with what it is trained on. `tensors` are those of the file; what is trained is among them."""

    def __init__(self, pair, tensors):
        self.pair, self.tensors = pair, tensors
        self.parameters, self.exp_avg, self.exp_avg_sq = (
            diptych.tensors_of_argument(pair.signature, "params", tensors, prefix) for prefix in ("params.", "exp_avg.", "exp_avg_sq.")
        )
        for name in ("step", "random_state"):
            if name not in tensors:
                raise diptych.UserError(f"[train_gpt] the file has no tensor '{name}'; pass a file of a training run")
        names = [info.path for info in pair.signature.forward_inputs[len(self.parameters) :]]
        if names != ["tokens", "targets"]:
            raise diptych.UserError(f"[train_gpt] the pair takes {names} behind its parameters, expected tokens and targets")
        torch.set_rng_state(tensors["random_state"])

    def save(self, path):
        self.tensors["random_state"] = torch.get_rng_state()
        diptych.save(self.pair, path, self.tensors)

    @property
    def batch_shape(self):
        return self.pair.signature.forward_inputs[-1].meta.shape

    def step(self, text):
        """Does one step; returns its loss."""
        done = int(self.tensors["step"])
        outputs, residuals = self.pair.forward_call([*self.parameters, *batch_of(text, done, *self.batch_shape)])
        gradients = self.pair.backward_call(residuals, [torch.ones(())])
        self.tensors["step"] += 1
        self.update(gradients[: len(self.parameters)], done + 1)
        return outputs[0].item()

    def update(self, gradients, step):
        """AdamW, in the order of operations that train_saved.cpp has: the bits are to be the same."""
        for parameter, gradient, average, square in zip(self.parameters, gradients, self.exp_avg, self.exp_avg_sq, strict=True):
            average.mul_(BETA1).add_(gradient, alpha=1 - BETA1)
            square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
            denominator = square.sqrt().div_(math.sqrt(1 - BETA2**step)).add_(EPS)
            parameter.mul_(1 - LR * WEIGHT_DECAY).addcdiv_(average, denominator, value=-LR / (1 - BETA1**step))


def new_run(text, vocabulary, options):
    torch.manual_seed(options.seed)
    model = Gpt(vocabulary, options.block, options.layers, options.width, options.heads, options.dropout)

    def loss(params, tokens, targets):
        logits = torch.func.functional_call(model, params, (tokens,))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    params = dict(model.named_parameters())
    pair = diptych.capture(loss, params, *batch_of(text, 0, options.batch, options.block))
    tensors = {"step": torch.tensor(0), "random_state": torch.get_rng_state()}
    for name, parameter in params.items():
        tensors[f"params.{name}"] = parameter.detach()
        tensors[f"exp_avg.{name}"], tensors[f"exp_avg_sq.{name}"] = torch.zeros(2, *parameter.shape)
    return Run(pair, tensors)


def train(run, text, steps):
    start = time.monotonic()
    for i in range(steps):
        value = run.step(text)
        print(f"step {int(run.tensors['step'])} loss {value:.9g}")
        if sys.stderr.isatty():
            left = (time.monotonic() - start) / (i + 1) * (steps - i - 1)
            print(f"\r{i + 1}/{steps} steps, {left:.0f} s left \x1b[K", end="" if i + 1 < steps else "\n", file=sys.stderr)


def parse_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="steps to do now")
    parser.add_argument("--save", metavar="FILE", help="write the run to FILE and FILE.safetensors")
    parser.add_argument("--load", metavar="FILE", help="go on with the run of these files; the options below are then its own")
    parser.add_argument("--data", type=pathlib.Path, default=TEXT, help="text to train on")
    for name, default in (("batch", 4), ("block", 64), ("layers", 2), ("width", 64), ("heads", 4), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dropout", type=float, default=0.0)
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_options(arguments)
    try:
        text, vocabulary = read_tokens(options.data)
        run = Run(*diptych.load(options.load, with_parameters=True)) if options.load else new_run(text, vocabulary, options)
        train(run, text, options.steps)
        if options.save:
            run.save(options.save)
    except (diptych.UserError, OSError) as error:
        print(f"train_gpt.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
