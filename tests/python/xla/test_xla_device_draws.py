"""Random numbers that programs of backend="xla" draw for themselves: one mask for both halves, new numbers in each step
and call, and seeds by torch's generator."""
import os
import re
import subprocess
import sys

import diptych
import pytest
import torch
import torch.nn.functional as F


def compile(function, **options):
    return diptych.aot_function(function, backend="xla", draws="device", **options)


def with_gradient(function, *arguments):
    leaves = [argument.detach().clone().requires_grad_() for argument in arguments]
    result = function(*leaves)
    result.sum().backward()
    return [result.detach(), *(leaf.grad for leaf in leaves)]


PARTITIONS = ["default", "min_cut", "memory_budget(0.1)"]
#: functions of x = ones whose gradient is their value: both halves have to use one mask
ONE_MASK = {
    "dropout": lambda x: F.dropout(x, 0.5),
    "dropouts": lambda x: F.dropout(F.dropout(x, 0.5) * 2, 0.3),
    "rand_like": lambda x: x * torch.rand_like(x),
    "normal in place": lambda x: x * torch.empty(64, 32).normal_(1, 3),
    "bernoulli of a tensor": lambda x: x * torch.bernoulli(torch.full((64, 32), 0.3)),
    "checkpoint": lambda x: diptych.checkpoint(lambda y: F.dropout(y, 0.5) * torch.rand_like(y))(x),
    "scan": lambda x: diptych.scan(lambda h, row: (h + F.dropout(row, 0.5), row * torch.rand_like(row)), torch.zeros(32), x)[1],
    "scan of a carry": lambda x: diptych.scan(lambda h, _: (F.dropout(h, 0.1), None), x, torch.ones(5))[0],
    "cond": lambda x: diptych.cond(torch.tensor(True), lambda y: F.dropout(y, 0.5), lambda y: y * 2, x),
    "scan in a scan": lambda x: diptych.scan(
        lambda h, _: (diptych.scan(lambda g, _: (F.dropout(g, 0.1), None), h, torch.ones(2))[0], None), x, torch.ones(3))[0],
    "custom_vjp": lambda x: diptych.custom_vjp(
        lambda y: y * torch.rand_like(y), lambda y: (lambda mask: (y * mask, mask))(torch.rand_like(y)), lambda mask, t: (t * mask,))(x),
    # No program inverts a matrix, so the interpreter runs these bodies, and draws in them.
    "scan by the interpreter": lambda x: diptych.scan(
        lambda h, row: (h, F.dropout(row, 0.5) + 0 * torch.linalg.inv(row.detach().diag()).sum()), torch.zeros(1), x)[1],
    "cond by the interpreter": lambda x: diptych.cond(
        x.sum() > 0, lambda y: F.dropout(y, 0.5) + 0 * torch.linalg.inv(y[0].detach().diag()).sum(), lambda y: y * 2, x),
    "attention": lambda x: x * F.scaled_dot_product_attention(*[torch.ones(1, 1, 8, 32)] * 3, dropout_p=0.5).repeat(1, 1, 8, 1)[0, 0],
}


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("name", ONE_MASK)
def test_halves_share_a_mask(name, partition):
    compiled = compile(ONE_MASK[name], partition=partition)
    x = torch.ones(64, 32)
    torch.manual_seed(1)
    first, second = with_gradient(compiled, x), with_gradient(compiled, x)
    torch.manual_seed(1)
    again = with_gradient(compiled, x)
    torch.testing.assert_close(first[0], first[1])
    torch.testing.assert_close(second[0], second[1])
    assert not torch.equal(first[0], second[0])
    assert all(map(torch.equal, first, again))


def test_masks_of_half_the_elements():
    y = compile(lambda x: F.dropout(x, 0.25))(torch.ones(400, 250))
    assert set(y.unique().tolist()) == {0.0, torch.tensor(4 / 3).item()}
    assert abs((y == 0).double().mean().item() - 0.25) < 0.006
    assert abs((y == 0).double().mean(0) - 0.25).max() < 0.12


def test_each_step_of_a_loop_draws_anew():
    def loops(x):
        rows = diptych.scan(lambda c, _: (c, torch.rand(50)), x, torch.zeros(20))[1]
        nested = diptych.scan(lambda c, _: (c, diptych.scan(lambda d, _: (d, torch.rand(5)), c, torch.zeros(4))[1]), x, torch.zeros(5))[1]
        total, _ = diptych.while_loop(lambda c: c[1] < 20, lambda c: (torch.cat([torch.rand(50), c[0][:-50]]), c[1] + 1),
                                      (torch.zeros(1000), torch.tensor(0)))
        # The condition draws too: from a stream of its own.
        walked = diptych.while_loop(lambda n: torch.rand(()) < 0.9, lambda n: n + 1, torch.tensor(0))
        return rows, nested, total, walked

    compiled = compile(loops)
    numbers = []
    for seed in range(3):
        torch.manual_seed(seed)
        rows, nested, total, walked = compiled(torch.tensor(0.0))
        numbers += [rows.flatten(), nested.flatten(), total.flatten()]
        assert walked.item() < 300
    drawn = torch.cat(numbers)
    assert drawn.numel() == 3 * 2100
    # Of 6300 numbers on a grid of 2^24 about one pair is equal by chance.
    assert drawn.unique().numel() > drawn.numel() - 10
    assert abs(drawn.mean() - 0.5) < 0.02


def test_conditions_draw_anew_before_each_step():
    count = compile(lambda n: diptych.while_loop(lambda n: torch.rand(()) < 0.9, lambda n: n + 1, n))
    torch.manual_seed(0)
    lengths = [count(torch.tensor(0)).item() for _ in range(200)]
    assert 7 < sum(lengths) / len(lengths) < 11.5  # 9 on average
    assert len(set(lengths)) > 10


def test_branches_draw_anew():
    both = compile(lambda p, x: diptych.cond(p, lambda y: torch.rand_like(y), lambda y: torch.rand_like(y), x) + 0 * torch.rand_like(x))
    x = torch.ones(50)
    seen = [both(torch.tensor(flag), x) for flag in (True, True, False)]
    assert len({tuple(value.tolist()) for value in seen}) == 3


def test_a_generator_of_the_callers_is_read_as_by_eager():
    mine, other = torch.Generator(), torch.Generator()
    function = lambda x, generator: torch.rand(4, generator=generator) * x  # noqa: E731
    compiled = compile(lambda x: function(x, mine))
    mine.manual_seed(6), other.manual_seed(6)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(4)), function(torch.ones(4), other))


def test_what_no_program_draws_is_eagers():
    def function(x):
        return x[torch.randperm(20)], torch.multinomial(x, 5), torch.poisson(x)
    compiled, x = compile(function), torch.rand(20)
    torch.manual_seed(2)
    got = compiled(x)
    torch.manual_seed(2)
    assert all(map(torch.equal, got, function(x)))


def test_sizes_that_change():
    compiled = compile(lambda x: F.dropout(x, 0.5), dynamic=True)
    for rows in (30, 50, 80, 130, 50):
        first, second = with_gradient(compiled, torch.ones(rows, 40)), with_gradient(compiled, torch.ones(rows, 40))
        assert torch.equal(first[0], first[1]) and not torch.equal(first[0], second[0])
        assert abs(first[0].mean() - 1) < 0.2


def test_modules():
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(0.5), torch.nn.Linear(32, 1))
    compiled, x = diptych.aot_module(model, backend="xla", draws="device"), torch.randn(16, 8)
    assert not torch.equal(compiled(x), compiled(x))
    compiled.eval()
    torch.testing.assert_close(compiled(x), model(x))


SCRIPT = """
import diptych, torch
import torch.nn.functional as F
def compile(f):
    return diptych.aot_function(f, backend="xla", draws="device")
x = torch.ones(4, 5)
print("case loops", file=__import__("sys").stderr, flush=True)
compile(lambda x: diptych.while_loop(lambda y: y.sum() < 90, lambda y: y + torch.rand_like(y), x) + F.dropout(x, 0.5))(x)
print("case branches", file=__import__("sys").stderr, flush=True)
compile(lambda x: diptych.cond(x.sum() > 0, lambda y: F.dropout(y, 0.5), lambda y: y + torch.randn_like(y), x) + torch.randint(0, 9, (5,)))(x)
print("case scans", file=__import__("sys").stderr, flush=True)
compile(lambda x: diptych.scan(lambda h, y: (F.dropout(h, 0.5) + y, torch.rand_like(h)), x[0], x))(x)
"""


def test_loops_and_branches_split_no_program():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env={**os.environ, "DIPTYCH_LOG": "graphs"})
    assert run.returncode == 0, run.stderr[-2000:]
    for part in run.stderr.split("case ")[1:]:
        assert len(re.findall(r"xla: graph '", part)) == 1, part
        assert len(re.findall(r"the interpreter runs node", part)) == 1, part  # the seed
        assert "stablehlo.rng_bit_generator" in part


def test_errors():
    function, x = (lambda x: (F.dropout(x, 0.5) * x * x).sum()), torch.ones(4, requires_grad=True)
    with pytest.raises(diptych.UserError, match=f"'{diptych.default_backend()}' got draws 'device', but it draws with eager's generator"):
        diptych.aot_function(function, draws="device")(x)
    with pytest.raises(diptych.UserError, match="got draws 'gpu', expected 'host' or 'device'"):
        diptych.aot_function(function, backend="xla", draws="gpu")(x)
    with pytest.raises(diptych.UserError, match="got draws 'device' and a forward compiler"):
        compile(function, forward_compiler=lambda graph: graph)(x)
    with pytest.raises(diptych.UserError, match="got draws 'device', so this call draws other numbers"):
        compile(function, check=1)(x)
    with pytest.raises(diptych.UserError, match="backward is differentiated again"):
        torch.autograd.grad(compile(function)(x), x, create_graph=True)
