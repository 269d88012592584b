"""Random numbers in programs by backend="xla": eager's, draw for draw, and drawn before one program for all the rest."""
import os
import re
import subprocess
import sys

import diptych
import pytest
import torch
import torch.nn.functional as F

SETUP = """
import diptych, torch
import torch.nn.functional as F
torch.manual_seed(0)
x = torch.randn(4, 5, requires_grad=True)
xs = torch.randn(6, 4, 5, requires_grad=True)
probabilities = torch.rand(4, 5)
def scan(step, carry, xs, **options):
    return diptych.scan(step, carry, xs, **options)
def step(h, x):
    return F.dropout(h, 0.3) + x, h * torch.rand_like(h)
"""

#: (a function, its arguments)
ONE_PROGRAM = {
    "dropout": ("lambda x: F.dropout(F.dropout(x.sin(), 0.5) * 2, 0.1)", "x"),
    "dropout of a transposed tensor": ("lambda x: F.dropout(x.t().sin(), 0.5).cos()", "x"),
    "native_dropout": ("lambda x: torch.native_dropout(x.sin(), 0.3, True)", "x"),
    "alpha_dropout": ("lambda x: F.alpha_dropout(x.sin(), 0.5, True)", "x"),
    "dropout2d": ("lambda xs: F.dropout2d(xs.sin(), 0.5)", "xs"),
    "rand_like": ("lambda x: torch.rand_like(x.sin()) * x + torch.randn_like(x.t()).t()", "x"),
    "factories": ("lambda x: torch.randn(4, 5) * x + torch.rand(5) + torch.randint(0, 9, (4, 5)) + torch.randperm(5)", "x"),
    "in place": ("lambda x: x * torch.empty_like(x).uniform_(1, 2) + torch.empty(5).exponential_() + torch.zeros(4, 5).normal_(1, 3)", "x"),
    "normal": ("lambda x: torch.normal(x.sin(), x.exp()) + torch.normal(x.cos(), 2.0) + torch.normal(1.5, x.exp())", "x.detach()"),
    "normal, broadcast": ("lambda x: torch.normal(x.sin(), x.exp()[0])", "x.detach()"),
    "normal numbers, more than a block": ("lambda x: torch.randn_like(x.exp()).cos()", "torch.randn(33, 5)"),
    "bernoulli": ("lambda p: torch.bernoulli(p.sqrt()) + torch.bernoulli(p.double().sqrt()).float()", "probabilities"),
    "bernoulli of a transposed tensor": ("lambda p: torch.bernoulli(p.t().sqrt()) + torch.zeros_like(p.t()).bernoulli_(p.sqrt().t().contiguous())", "probabilities"),
    "bernoulli, channels last": ("lambda xs: torch.bernoulli(xs.sigmoid())", "torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)"),
    "half types": ("lambda x: F.dropout(x.bfloat16().sin(), 0.5) + torch.rand_like(x.bfloat16()) + torch.bernoulli(x.bfloat16().sigmoid())", "x"),
    "float64": ("lambda x: F.dropout(x.double().sin(), 0.5) + torch.randn_like(x.double())", "x"),
    "attention": ("lambda xs: F.scaled_dot_product_attention(xs, xs, xs, dropout_p=0.5)", "xs"),
    "gumbel_softmax": ("lambda x: F.gumbel_softmax(x.sin(), hard=True)", "x"),
    "a generator": ("lambda x: torch.rand(4, 5, generator=diptych_test_generator) * x.sin()", "x"),
    "scan": ("lambda x, xs: scan(step, x, xs)", "x, xs"),
    "scan in reverse": ("lambda x, xs: scan(step, x, xs, reverse=True)", "x, xs"),
    "scan without gradients": ("lambda x, xs: scan(step, x, xs, reverse=True)", "x.detach(), xs.detach()"),
    "scan without steps": ("lambda x, xs: scan(step, x, xs[:0])", "x.detach(), xs.detach()"),
    "scan of draws alone": ("lambda xs: scan(lambda n, x: (n + 1, torch.rand(3)), torch.tensor(0), xs)", "xs.detach()"),
    "scan in a scan": ("lambda x, xs: scan(lambda h, y: (scan(step, h, xs)[0], F.dropout(y.sin())), x, xs)", "x.detach(), xs.detach()"),
    "draws around a scan": ("lambda x, xs: F.dropout(scan(step, F.dropout(x), xs)[1]) + torch.rand(5)", "x, xs"),
    "checkpoint": ("lambda x: diptych.checkpoint(lambda y: F.dropout(y.sin(), 0.5).exp())(x)", "x"),
}
#: What it draws depends on values.
SEVERAL_PROGRAMS = {
    "multinomial": ("lambda x: torch.rand_like(x) + torch.multinomial(F.dropout(x.exp(), 0.5) + 1, 1) + torch.rand_like(x.sin())", "x.detach()"),
    "rrelu": ("lambda x: F.dropout(F.rrelu(x.sin(), training=True), 0.5)", "x"),
    "cond": ("lambda x: torch.rand_like(x) + diptych.cond(x.sum() > 0, lambda y: F.dropout(y), lambda y: y * torch.rand(4, 1), x.exp()) + torch.rand(5)", "x.detach()"),
    "scan of samples": ("lambda x, xs: scan(lambda h, y: (h + torch.multinomial(h.exp(), 1), torch.rand(2)), x, xs)", "x.detach(), xs.detach()"),
    "while_loop": ("lambda x: diptych.while_loop(lambda x: x.sum() < 9, lambda x: x + torch.rand_like(x), x) + torch.rand(5)", "x.detach()"),
}


def outcome(function, arguments):
    leaves = [argument.detach().clone().requires_grad_(argument.requires_grad) for argument in arguments]
    torch.manual_seed(5)
    names["diptych_test_generator"].manual_seed(6)
    seen = []
    for _ in range(2):
        results = function(*leaves)
        results = list(results) if isinstance(results, tuple) else [results]
        needing = [result for result in results if result.requires_grad]
        if needing:
            sum((result * result).sum() for result in needing).backward()
        seen += [result.detach() for result in results] + [leaf.grad.clone() for leaf in leaves if leaf.grad is not None]
    return seen + [torch.rand(3), torch.rand(3, generator=names["diptych_test_generator"])]


names = {"diptych_test_generator": torch.Generator()}
exec(SETUP, names)


@pytest.mark.parametrize("name", [*ONE_PROGRAM, *SEVERAL_PROGRAMS])
@pytest.mark.parametrize("partition", ["default", "min_cut"])
def test_draws_are_eagers(name, partition):
    function, arguments = (eval(text, names) for text in {**ONE_PROGRAM, **SEVERAL_PROGRAMS}[name])
    arguments = arguments if isinstance(arguments, tuple) else (arguments,)
    compiled = diptych.aot_function(function, backend="xla", partition=partition)
    for got, expected in zip(outcome(compiled, arguments), outcome(function, arguments), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_sizes_that_change():
    function = lambda x: F.dropout(x.sin(), 0.5).sum(0) * torch.rand_like(x)  # noqa: E731
    compiled = diptych.aot_function(function, backend="xla", dynamic=True)
    for rows in (3, 5, 8, 13, 5):
        x = torch.randn(rows, 4, requires_grad=True)
        for got, expected in zip(outcome(compiled, [x]), outcome(function, [x]), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_one_program_for_what_is_not_drawn():
    """Runs all of ONE_PROGRAM in a process that logs its programs: one for each forward."""
    lines = [SETUP, "import sys", "diptych_test_generator = torch.Generator()"]
    for name, (function, arguments) in ONE_PROGRAM.items():
        lines += [f"print('case {name}', file=sys.stderr, flush=True)", f"diptych.aot_function({function}, backend='xla')({arguments})"]
    run = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, env={**os.environ, "DIPTYCH_LOG": "graphs"})
    assert run.returncode == 0, run.stderr[-2000:]
    counts = {part.split("\n", 1)[0]: len(re.findall(r"xla: graph '", part)) for part in run.stderr.split("case ")[1:]}
    assert {name: count for name, count in counts.items() if count > 1} == {}
    assert counts.keys() == ONE_PROGRAM.keys()
