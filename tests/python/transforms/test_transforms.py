"""Calls that no graph stands for: forward-mode duals, torch.func and vmap. Eager's results come out, in the first call as in
later ones, and nothing of them stays behind."""
import functools

import diptych
import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch import nn

from loops import T, W, X, cell, close, plain_loop, plain_while


def scanned(x, scan=diptych.scan):
    carry, ys = scan(cell, x[0], x)
    return carry.sum() + ys.sin().sum()


def looped(x, loop=diptych.while_loop):
    return loop(lambda c: c.sum() < 40, lambda c: c * 1.5, x).sin().sum()


def branched(x, cond=diptych.cond):
    return cond(x.sum() > 0, lambda x: x.sin().sum(), lambda x: x.cos().sum(), x)


def swapped(f, **kept):
    return functools.partial(f, **kept)


# name: (with Diptych, in plain torch), each from [3, 4] to a number
CASES = {
    "aot_function": (diptych.aot_function(lambda x: (x.sin() * W).sum()), lambda x: (x.sin() * W).sum()),
    "scan": (scanned, swapped(scanned, scan=plain_loop)),
    "map": (lambda x: diptych.map(lambda row: row.sin() * row.sum(), x).sum(), lambda x: torch.stack([row.sin() * row.sum() for row in x]).sum()),
    "cond": (branched, swapped(branched, cond=lambda p, a, b, x: (a if p else b)(x))),
    "while_loop": (looped, swapped(looped, loop=plain_while)),
    "checkpoint": (diptych.checkpoint(lambda x: (x.sin() * W).sum()), lambda x: (x.sin() * W).sum()),
    "associative_scan": (lambda x: diptych.associative_scan(lambda a, b: a * b, x).sum(), lambda x: x.cumprod(0).sum()),
    "custom_vjp": (
        diptych.custom_vjp(lambda x: x.sin().sum(), lambda x: (x.sin().sum(), x), lambda x, t: (t * x.cos(),)),
        lambda x: x.sin().sum(),
    ),
    "compiled scan": (diptych.aot_function(scanned), swapped(scanned, scan=plain_loop)),
    "value_and_grad": (lambda x: diptych.value_and_grad(lambda x: (x.sin() * W).sum())(x)[1].pow(2).sum(), lambda x: (x.cos() * W).pow(2).sum()),
}
each_case = pytest.mark.parametrize("name", CASES)


@each_case
def test_forward_mode_duals_give_their_tangent(name):
    ours, theirs = CASES[name]
    plain = ours(X)
    for _ in range(2):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(X, T)
            got, wanted = forward_ad.unpack_dual(ours(dual)), forward_ad.unpack_dual(theirs(dual))
            assert got.tangent is not None
            close(got.primal, wanted.primal)
            close(got.tangent, wanted.tangent)
        close(ours(X), plain)
        assert forward_ad.unpack_dual(ours(X), level=0).tangent is None


@each_case
def test_duals_of_what_requires_grad(name):
    ours, theirs = CASES[name]
    if name == "custom_vjp":
        return

    def look(f):
        x = X.clone().requires_grad_()
        with forward_ad.dual_level():
            y = f(forward_ad.make_dual(x, T))
            (gradient,) = torch.autograd.grad(y, x)
            gradient = forward_ad.unpack_dual(gradient)
            return [gradient.primal, gradient.tangent]

    close(look(ours), look(theirs))
    close(look(ours), look(theirs))


@each_case
@pytest.mark.parametrize("transform", [
    torch.func.grad,
    lambda f: torch.func.jacrev(f),
    lambda f: torch.func.jacfwd(f),
    lambda f: lambda x: torch.func.jvp(f, (x,), (T,)),
    lambda f: lambda x: torch.func.vjp(f, x)[1](torch.tensor(2.0, dtype=torch.float64)),
    lambda f: torch.func.grad(lambda x: torch.func.grad(f)(x).pow(2).sum()),
    lambda f: lambda x: torch.func.linearize(f, x)[0],
], ids=["grad", "jacrev", "jacfwd", "jvp", "vjp", "second order", "linearize"])
def test_transforms_of_torch_func(name, transform):
    ours, theirs = CASES[name]
    if name == "custom_vjp" and transform(theirs)(X) is not None:
        try:
            got = transform(ours)(X)
        except RuntimeError as error:  # torch's: a Function with a rule of its own has none forward
            assert "jvp" in str(error)
            return
        close(got, transform(theirs)(X))
        return
    try:
        transform(theirs)(X)
    except RuntimeError:  # linearize takes no decisions on values
        return
    close(transform(ours)(X), transform(theirs)(X))
    ours(X)
    close(transform(ours)(X), transform(theirs)(X))


@each_case
def test_vmap_and_per_sample_gradients(name):
    ours, theirs = CASES[name]
    batch = torch.stack([X, X * 0.7, X + 0.3])
    wanted = torch.stack([theirs(x) for x in batch])
    for _ in range(2):
        close(torch.func.vmap(ours)(batch), wanted)
        gradients = torch.stack([torch.func.grad(theirs)(x) for x in batch])
        close(torch.func.vmap(torch.func.grad(ours))(batch), gradients)
        ours(X)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("custom_vjp", "while_loop", "cond")])
def test_hessians(name):
    ours, theirs = CASES[name]
    wanted = torch.func.hessian(theirs)(X)
    close(torch.func.hessian(ours)(X), wanted)
    for vectorize in (False, True):
        close(torch.autograd.functional.hessian(ours, X, vectorize=vectorize), wanted)


def test_a_rule_under_torch_func_is_the_rule():
    clipped = diptych.custom_vjp(lambda x: x.pow(2).sum(), lambda x: (x.pow(2).sum(), x), lambda x, t: ((t * 2 * x).clamp(-1, 1),))
    close(torch.func.grad(clipped)(X), (2 * X).clamp(-1, 1))
    batch = torch.stack([X, -X])
    close(torch.func.vmap(torch.func.grad(clipped))(batch), (2 * batch).clamp(-1, 1))
    leaf = batch.clone().requires_grad_()
    torch.func.vmap(clipped)(leaf).sum().backward()
    close(leaf.grad, (2 * batch).clamp(-1, 1))


def test_a_rule_of_a_dual_is_followed():
    f = diptych.custom_vjp(lambda x: x.sin(), lambda x: (x.sin(), x), lambda x, t: (t * x.cos() * 2,))
    for leaf in (X.clone().requires_grad_(), X):
        with forward_ad.dual_level():
            dual = forward_ad.unpack_dual(f(forward_ad.make_dual(leaf, T)))
            close(dual.primal, X.sin())
            close(dual.tangent, T * X.cos() * 2)
            if leaf.requires_grad:
                close(torch.autograd.grad(dual.primal.sum(), leaf)[0], X.cos() * 2)


def test_vmap_of_a_predicate_takes_both_branches():
    def f(x):
        return diptych.cond(x.sum() > 3, lambda x: x * 2, lambda x: x + 1, x)

    batch = torch.stack([X * 0, X])
    close(torch.func.vmap(f)(batch), torch.stack([f(x) for x in batch]))


@each_case
def test_batched_gradients_of_a_plain_call(name):
    ours, theirs = CASES[name]

    def look(f):
        x = X.clone().requires_grad_()
        y = f(x) * torch.ones(3, dtype=torch.float64)
        rows = torch.eye(3, dtype=torch.float64)
        (batched,) = torch.autograd.grad(y, x, rows, is_grads_batched=True, retain_graph=True)
        (again,) = torch.autograd.grad(y, x, rows, is_grads_batched=True, retain_graph=True, create_graph=True)
        by_func = torch.func.vmap(lambda row: torch.autograd.grad(y, x, row, retain_graph=True)[0])(rows)
        (second,) = torch.autograd.grad(again.sin().sum(), x, retain_graph=True)
        (plain,) = torch.autograd.grad(y, x, rows[0])
        return [batched, by_func, second, plain, torch.autograd.functional.jacobian(f, X, vectorize=True)]

    for _ in range(2):
        close(look(ours), look(theirs))


def test_batched_gradients_through_a_view_changed_in_place():
    def f(x):
        y = x.clone()
        y[0].mul_(3)
        return y.sin()

    compiled = diptych.aot_function(f)
    for _ in range(2):
        close(torch.autograd.functional.jacobian(compiled, X, vectorize=True), torch.autograd.functional.jacobian(f, X))


def test_duals_where_nothing_shows_them():
    """In a closure, in a module's parameters, among the carries and the slices, on the base of a view."""
    held = {"w": W}
    layer = nn.Linear(4, 4).double().requires_grad_(False)
    by_closure = lambda x: (x * held["w"]).sum()  # noqa: E731
    calls = [
        (diptych.aot_function(by_closure), by_closure, held, "w"),
        (lambda x: diptych.scan(lambda c, x: (c + (x * held["w"]).sum(), x), x.sum(), x[None])[0], lambda x: x.sum() + (x * held["w"]).sum(), held, "w"),
        (lambda x: diptych.checkpoint(by_closure)(x), by_closure, held, "w"),
        (lambda x: diptych.cond(x.sum() > 0, by_closure, by_closure, x), by_closure, held, "w"),
        (diptych.aot_module(layer), layer, layer._parameters, "weight"),
    ]
    for ours, theirs, holder, key in calls:
        for _ in range(2):
            with forward_ad.dual_level():
                before = holder[key]
                # A dual of a parameter is none, as torch.func.functional_call puts it there.
                holder[key] = forward_ad.make_dual(before.detach(), torch.ones_like(before))
                got, wanted = forward_ad.unpack_dual(ours(X)), forward_ad.unpack_dual(theirs(X))
                assert got.tangent is not None
                close(got.tangent, wanted.tangent)
                holder[key] = before
            close(ours(X), theirs(X))


def test_a_tensor_that_becomes_a_dual_after_the_capture():
    w = torch.zeros(3, 4, dtype=torch.float64)
    base = torch.zeros(24, dtype=torch.float64)
    part = base[:12].view(3, 4)
    f = diptych.aot_function(lambda x: x * w * (part + 1))
    f(X)
    with forward_ad.dual_level():
        w.add_(forward_ad.make_dual(W, T))
        assert forward_ad.unpack_dual(f(X)).tangent is not None
    w = W.clone()
    g = diptych.aot_function(lambda x: x * (part + 1))
    g(X)
    with forward_ad.dual_level():
        base.add_(forward_ad.make_dual(torch.ones_like(base), torch.ones_like(base)))
        close(forward_ad.unpack_dual(g(X)).tangent, X)
    assert g.stats().originals == 0


def test_functional_call_of_a_compiled_module_under_transforms():
    layer = nn.Sequential(nn.Linear(4, 3), nn.Tanh()).double()
    parameters = {name: value.detach() for name, value in layer.named_parameters()}
    compiled = diptych.aot_function(lambda parameters, x: torch.func.functional_call(layer, parameters, (x,)).sum())
    wanted = torch.func.grad(lambda p: torch.func.functional_call(layer, p, (X,)).sum())(parameters)
    for _ in range(2):
        close(torch.func.grad(compiled)(parameters, X), wanted)
        close(compiled(parameters, X), torch.func.functional_call(layer, parameters, (X,)).sum())
    assert compiled.stats().originals == 0


def test_transforms_inside_a_compiled_function():
    functions = [
        lambda x: torch.func.vmap(lambda row: row.sin() * row.sum() + W.sum())(x),
        lambda x: torch.func.grad(lambda x: (x.sin() * W).sum())(x),
        lambda x: torch.func.vmap(torch.func.grad(lambda row: row.sin().sum()))(x),
        lambda x: torch.func.jvp(torch.sin, (x,), (T,))[1],
        lambda x: torch.func.vmap(lambda row: diptych.scan(cell, row[0], row)[1])(x),
        lambda x: torch.func.vmap(lambda row: diptych.cond(row.sum() > 3, torch.sin, torch.cos, row))(x),
        lambda x: torch.func.hessian(lambda x: (x.sin() * W).sum())(x),
    ]
    for f in functions:
        compiled = diptych.aot_function(f)
        for x in (X, X * 2, X + 1):
            close(compiled(x), f(x))


def test_plain_inputs_inside_a_transform():
    f = diptych.aot_function(lambda y: y.sin())
    f(X)
    for _ in range(2):
        close(torch.func.grad(lambda x: (f(W) * x).sum())(X), W.sin())
        close(torch.func.vmap(lambda x: f(W) * x)(X[None]), (W.sin() * X)[None])
    assert f.stats().originals == 0
