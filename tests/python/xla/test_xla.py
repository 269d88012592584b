"""Programs by backend="xla" beside eager: loops, branches, draws, mutation, sizes that change, and plugins that are none."""
import subprocess
import sys

import diptych
import pytest
import torch


def clones(tensors):
    return [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in tensors]


def outcome(function, tensors):
    """Results, what became of the arguments, and gradients, in one list."""
    arguments = clones(tensors)
    torch.manual_seed(3)
    results = function(*arguments)
    results = list(results) if isinstance(results, tuple) else [results]
    if any(result.requires_grad for result in results):
        sum((result * result).sum() for result in results if result.requires_grad).backward()
    return [result.detach() for result in results] + [a.detach() for a in arguments] + [a.grad for a in arguments]


def expect_as_eager(function, *tensors, calls=2, **options):
    compiled = diptych.aot_function(function, backend="xla", **options)
    for _ in range(calls):
        for got, expected in zip(outcome(compiled, tensors), outcome(function, tensors), strict=True):
            assert (got is None) == (expected is None)
            if expected is not None:
                torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def leaf(*sizes):
    return torch.randn(*sizes, requires_grad=True)


W, H, XS = leaf(3, 3), leaf(2, 3), leaf(5, 2, 3)

LOOPS = {
    "scan": (lambda w, h, xs: diptych.scan(lambda h, x: (torch.tanh(h @ w + x), h * 2), h, xs), W, H, XS),
    "scan in reverse": (lambda w, h, xs: diptych.scan(lambda h, x: (torch.tanh(h @ w + x), h.sin()), h, xs, reverse=True), W, H, XS),
    "scan without steps": (lambda w, h, xs: diptych.scan(lambda h, x: (torch.tanh(h @ w + x), h * 2), h, xs[:0]), W, H, XS),
    "scan of integers": (lambda xs: diptych.scan(lambda n, x: (n + 1, x * n), torch.tensor(0), xs), XS),
    "scan in a scan": (lambda w, xs: diptych.scan(lambda h, x: (diptych.scan(lambda c, y: (c * y, c), h, x)[0], h @ w), torch.ones(3), xs), W, XS),
    "cond, true": (lambda x: diptych.cond(x.sum() > -100, torch.sin, lambda x: x.cos() * 2, x), H),
    "cond, false": (lambda x: diptych.cond(x.sum() > 100, torch.sin, lambda x: x.cos() * 2, x), H),
    "checkpoint": (lambda w, x: diptych.checkpoint(lambda y: torch.tanh(y @ w).exp())(x), W, H),
    "associative_scan": (lambda xs: diptych.associative_scan(lambda a, b: a * b, xs, dim=0), XS),
    "while_loop": (lambda x: diptych.while_loop(lambda x: (x * x).sum() > 1, lambda x: x * 0.5, x), H.detach() * 9),
    "while_loop without steps over nothing": (lambda h, xs: diptych.while_loop(lambda c: c[0] < 0, lambda c: (c[0] + 1, c[1] + xs[:0].index_select(0, c[0].reshape(1))[0]), (torch.tensor(0), h))[1], H.detach(), XS.detach()),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches(name):
    function, *tensors = LOOPS[name]
    expect_as_eager(function, *tensors)


def in_place(x):
    x.mul_(2)
    return x.sin()


PLAIN = {
    "dropout": (lambda x: torch.nn.functional.dropout(x, 0.5) * 2, leaf(50)),
    "in place": (in_place, torch.randn(4)),
    "views of an argument": (lambda x: (x.t(), x[0], x.sum()), H),
    "attention": (lambda q: torch.nn.functional.scaled_dot_product_attention(q, q * 2, q, is_causal=True), leaf(2, 3, 5, 4)),
    "cross entropy": (lambda x: torch.nn.functional.cross_entropy(x, torch.tensor([0, 2])), H),
    "embedding": (lambda w: torch.nn.functional.embedding(torch.tensor([[0, 2], [2, 2]]), w), W),
    "what falls back": (lambda w: torch.linalg.inv(w.exp() + 9 * torch.eye(3)) @ w, W),
}


@pytest.mark.parametrize("partition", ["default", "min_cut"])
@pytest.mark.parametrize("name", PLAIN)
def test_plain_functions(name, partition):
    function, *tensors = PLAIN[name]
    expect_as_eager(function, *tensors, partition=partition)


def test_modules_train_as_in_eager():
    def trained(wrap):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.GELU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
                                    torch.nn.Linear(36, 300), torch.nn.Linear(300, 5))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = wrap(lambda x, y: torch.nn.functional.cross_entropy(model(x), y))
        values = []
        for step in range(4):
            x = torch.randn(40, 1, 8, 8, generator=torch.Generator().manual_seed(step))
            value = loss(x, torch.arange(40) % 5)
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
            values.append(value.item())
        return values, model.state_dict()

    (ours, our_state), (eager, eager_state) = trained(lambda f: diptych.aot_function(f, backend="xla")), trained(lambda f: f)
    assert ours == pytest.approx(eager, abs=1e-3)
    for name, tensor in eager_state.items():
        torch.testing.assert_close(our_state[name], tensor, rtol=1e-2, atol=1e-3)


def test_second_derivatives():
    compiled = diptych.aot_function(lambda x: (x.exp() * x.sin()).sum(), backend="xla")
    assert torch.autograd.gradgradcheck(compiled, [torch.randn(4, dtype=torch.float64, requires_grad=True)])


def test_sizes_that_change():
    compiled = diptych.aot_function(lambda x, w: torch.softmax(x @ w, 1).sum(0), backend="xla")
    for rows in (3, 5, 8, 13, 5):
        x, w = leaf(rows, 3), leaf(3, 4)
        got, expected = compiled(x, w), torch.softmax(x @ w, 1).sum(0)
        torch.testing.assert_close(got, expected)
        for ours, eager in zip(torch.autograd.grad(got.sin().sum(), (x, w)), torch.autograd.grad(expected.sin().sum(), (x, w))):
            torch.testing.assert_close(ours, eager)


def test_plugins_that_are_none(tmp_path, monkeypatch):
    text = tmp_path / "plugin.so"
    text.write_text("not a library")
    for path, words in ((tmp_path / "nothing.so", "cannot load the PJRT plugin"), (text, "cannot load the PJRT plugin"),
                        (diptych._core.__file__, "is not a PJRT plugin")):
        monkeypatch.setenv("DIPTYCH_PJRT_PLUGIN", str(path))
        with pytest.raises(diptych.UserError) as raised:
            diptych.aot_function(lambda x: x.sin(), backend="xla")(torch.ones(2))
        said = str(raised.value)
        assert said.startswith("[xla] ") and words in said and "xla-cpu-pjrt" in said


FORKED = """
import os, signal, sys, diptych, torch
compiled = diptych.aot_function(lambda x: x.sin(), backend="xla")
print(compiled(torch.ones(2)).sum().item() > 0, flush=True)
child = os.fork()
if child == 0:
    signal.alarm(60)  # a program that is run here would hang
    for function in (compiled, diptych.aot_function(lambda x: x.cos(), backend="xla")):
        try:
            function(torch.ones(2))
        except diptych.UserError as error:
            print(error, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(compiled(torch.ones(2)).sum().item() > 0)
"""


def test_a_forked_process_is_told():
    run = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True)
    lines = run.stdout.splitlines()
    assert run.returncode == 0 and len(lines) == 4, run.stdout + run.stderr
    assert lines[0] == lines[3] == "True"
    for line in lines[1:3]:
        assert line.startswith("[xla] this process was forked after XLA was started") and "spawn" in line


def test_results_share_memory_as_in_eager():
    def views(a, b):
        v = a.mul(b)
        return v, v.detach(), v.t(), a.t(), v[0]

    a, b = torch.randn(3, 4), torch.randn(3, 4)
    for function in (views, diptych.aot_function(views, backend="xla")):
        whole, *others = function(a, b)
        whole.fill_(7)
        assert [bool((other == 7).all()) for other in others] == [True, True, False, True]
        assert others[2].data_ptr() == a.data_ptr()


def test_a_body_with_one_operand_reads_it_anew():
    """XNNPACK keeps a product's right operand if that is a parameter of a computation."""
    compiled = diptych.aot_function(lambda flag, h: diptych.cond(flag, lambda h: h @ h, lambda h: h - 1, h.sin()), backend="xla")
    for seed in range(3):
        torch.manual_seed(seed)
        h = torch.randn(64, 64)
        torch.testing.assert_close(compiled(torch.tensor(True), h), h.sin() @ h.sin(), rtol=1e-4, atol=1e-4)
