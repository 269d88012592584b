"""What bodies of higher-order operators may take, do and return: trees, numbers, layouts, conjugates; and what is refused."""
import dataclasses
import re
from typing import NamedTuple

import diptych
import pytest
import torch
from torch import library, nn
from torch.utils import _pytree

from beside_eager import loop
from operators import randn


class Pair(NamedTuple):
    a: object
    b: object


@dataclasses.dataclass(frozen=True)
class Config:
    b: object
    scale: float
    a: object


class Registered:
    def __init__(self, a, b):
        self.a, self.b = a, b


_pytree.register_pytree_node(Registered, lambda r: ([r.b, r.a], None), lambda children, _: Registered(children[1], children[0]))


class Frozen(nn.Module):
    """A module whose tensors have no gradient, around which others may have one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("one", torch.ones(3, dtype=torch.float64))


def members(tree):
    return (tree["a"], tree["b"]) if isinstance(tree, dict) else (tree.a, tree.b)


ARGUMENTS = {
    "dataclass": lambda a, b: Config(b, 2.0, a),
    "named tuple": Pair,
    "dict": lambda a, b: {"b": b, "a": a, "mode": "text"},
    "registered": Registered,
    "nested": lambda a, b: Config({"x": Pair(b, [b, 3])}, 1.0, (a, Frozen())),
}


@pytest.mark.parametrize("kind", ARGUMENTS)
@pytest.mark.parametrize("given", ["a and b", "a", "b", "none"])
def test_custom_vjp_of_trees(kind, given):
    """The rules' gradients are those of autograd, and None at any depth is none for the tensors in its place."""
    make = ARGUMENTS[kind]

    def inner(tree):
        a, b = members(tree)
        return (a[0], b["x"].a) if kind == "nested" else (a, b)

    def f(tree, x):
        a, b = inner(tree)
        return (a * b).sin() * x

    def fwd(tree, x):
        a, b = inner(tree)
        return f(tree, x), (a, b, x)

    def bwd(residuals, tangent):
        a, b, x = residuals
        slope = tangent * (a * b).cos() * x
        of_a, of_b = slope * b if "a" in given.split() else None, slope * a if "b" in given.split() else None
        if kind == "nested" and given != "none":
            tree = Config({"x": Pair(of_b, None)}, 1.0, None if of_a is None else (of_a, None))
        else:
            tree = None if given == "none" else make(of_a, of_b)
        return tree, tangent * (a * b).sin()

    ours = diptych.custom_vjp(f, fwd, bwd)
    for run in (ours, diptych.aot_function(ours)):
        a, b, x = (randn(3).requires_grad_() for _ in range(3))
        expected = torch.autograd.grad(f(make(a, b), x).sum(), (a, b, x))
        run(make(a, b), x).sum().backward()
        torch.testing.assert_close(x.grad, expected[2])
        for name, leaf, gradient in (("a", a, expected[0]), ("b", b, expected[1])):
            torch.testing.assert_close(leaf.grad if leaf.grad is not None else torch.zeros(3).double(), gradient * (name in given.split()))


@pytest.mark.parametrize("gradient, words", [
    (lambda g: g, "bwd returns a Tensor as the gradient of argument 0, which is a dict of w, n"),
    (lambda g: {"w": g}, "bwd returns a dict of w as the gradient of argument 0, which is a dict of w, n"),
    (lambda g: {"w": [g], "n": None}, "bwd returns a list of 0 as the gradient of argument 0.w, which is a Tensor; return a tree of the same parts"),
    (lambda g: {"w": g, "n": g}, "bwd returns a Tensor as the gradient of argument 0.n, which is a float"),
    (lambda g: (g, g), "bwd returned 2 gradients, expected one for each of the 1 arguments"),
])
def test_a_gradient_that_is_no_tree_like_its_argument_is_named(gradient, words):
    f = diptych.custom_vjp(lambda d: d["w"] * d["n"], lambda d: (d["w"] * d["n"], ()), lambda residuals, tangent: gradient(tangent))
    with pytest.raises(diptych.UserError, match=re.escape(words)):
        f({"w": randn(3).requires_grad_(), "n": 2.0})


@pytest.mark.parametrize("number", [2, 0, 0.5, -0.0])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_number_is_a_predicate(number, shape):
    def f(predicate, x):
        return diptych.cond(predicate, torch.sin, lambda x: x * 2, x)

    predicate, x = torch.full(shape, number), torch.ones(3, requires_grad=True)
    expected = torch.sin(x) if number else x * 2
    torch.testing.assert_close(f(predicate, x), expected)
    torch.testing.assert_close(diptych.aot_function(f)(predicate, x), expected)


def test_a_number_is_the_condition_of_a_loop():
    last = diptych.while_loop(lambda c: (5 - c).relu().sum(), lambda c: c + 2, torch.tensor(0.0))
    assert last == 6


def test_what_a_body_can_not_do_is_refused_with_the_way_round_it():
    x = torch.arange(3.0)
    with pytest.raises(diptych.UserError, match="index_select or gather for an index that is a tensor"):
        diptych.scan(lambda c, i: (c, c[i : i + 1]), x, torch.arange(3))
    last, picked = diptych.scan(lambda c, i: (c, c.index_select(0, i.reshape(1))[0]), x, torch.arange(3).flip(0))
    torch.testing.assert_close(picked, x.flip(0))
    with pytest.raises(diptych.UserError, match=r"\[cond\] 'out' is f32\[3\] in the true function's result, f32\[2\] in the false function's; return tensors of the same sizes"):
        diptych.cond(x.sum() > 0, lambda x: x, lambda x: x[:2], x)


@pytest.mark.parametrize("layout", ["dense", "transposed"])
def test_a_body_may_reshape_what_is_laid_out_otherwise_at_each_call(layout):
    def flat(x):
        return x.reshape(6).sigmoid()

    def laid_out(x):
        return x if layout == "dense" else x.t().contiguous().t()

    x = laid_out(randn(2, 3).double()).requires_grad_()
    loops = {
        "cond": lambda x: diptych.cond(torch.tensor(True), flat, flat, x),
        "while_loop": lambda x: diptych.while_loop(lambda carry: carry[0] < 2, lambda carry: (carry[0] + 1, flat(carry[1]).reshape(2, 3)), (torch.tensor(0), x))[1],
        "map": lambda x: diptych.map(flat, x[None]),
    }
    for loop in loops.values():
        assert torch.autograd.gradcheck(loop, x) and torch.autograd.gradgradcheck(loop, x)
        (gradient,) = torch.autograd.grad(loop(x).sum(), x, create_graph=True)
        (again,) = torch.autograd.grad(gradient, x, laid_out(torch.ones(2, 3).double()))
        assert again.isfinite().all()


@pytest.mark.parametrize("layout", ["dense", "transposed"])
def test_a_bwd_may_reshape_a_tangent_of_any_layout(layout):
    f = diptych.custom_vjp(lambda x: x * 2, lambda x: (x * 2, ()), lambda residuals, tangent: tangent.reshape(6).mul(2).reshape(2, 3))
    x, tangent = randn(2, 3).requires_grad_(), randn(2, 3) if layout == "dense" else randn(3, 2).t()
    for function in (f, diptych.aot_function(lambda x: f(x))):
        torch.testing.assert_close(torch.autograd.grad(function(x), x, tangent)[0], tangent * 2)


def test_a_leaf_of_its_own_is_no_result_of_a_body():
    def body(x):
        return x * 2, torch.ones(3).requires_grad_()

    def computed(x):
        return x * 2, torch.ones(3).requires_grad_() * 2

    for call in (lambda x: diptych.cond(torch.tensor(True), body, body, x), lambda x: diptych.map(computed, x)):
        for function in (call, diptych.aot_function(call)):
            with pytest.raises(diptych.UserError, match="the body returns '.*1', which requires grad through a leaf"):
                function(randn(2, 3))


def test_an_operator_without_a_fake_kernel_is_named():
    @library.custom_op("diptych_test_hops::twice", mutates_args=())
    def twice(a: torch.Tensor) -> torch.Tensor:
        return a * 2

    with pytest.raises(diptych.UserError, match="diptych_test_hops::twice .* has no fake kernel.*register_fake"):
        diptych.aot_function(lambda a: diptych.map(lambda row: twice(row) + 1, a))(torch.ones(3, 2))
    twice.register_fake(torch.empty_like)
    torch.testing.assert_close(diptych.aot_function(lambda a: twice(a) + 1)(torch.ones(2)), torch.full((2,), 3.0))


def test_a_packed_sequence_is_refused_by_name():
    def f(x, lengths):
        return nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True).data

    with pytest.raises(diptych.UserError, match="_pack_padded_sequence.*a mask instead of a packed sequence"):
        diptych.aot_function(f, path_limit=0)(torch.ones(2, 3, 4), torch.tensor([3, 2]))


@pytest.mark.parametrize("step", [lambda s: torch.flip(s, ()), lambda s: torch.squeeze(s, ()), lambda s: torch.sum(s, ()), lambda s: torch.amax(s, ())])
def test_an_empty_list_of_dimensions_in_a_body(step):
    x = randn(3, 2, 1).requires_grad_()
    expected = torch.stack([step(row) for row in x])
    _, results = diptych.scan(lambda c, s: (c + s.sum(), step(s)), x.new_zeros(()), x)
    torch.testing.assert_close(results, expected)
    torch.testing.assert_close(torch.autograd.grad(results.square().sum(), x), torch.autograd.grad(expected.square().sum(), x))


@pytest.mark.parametrize("flag", [False, True])
def test_a_running_sum_of_bools(flag):
    flag = torch.tensor(flag)

    def any_true(start, xs):
        return diptych.scan(lambda c, x: (c + flag, x), start, xs)[0]

    for call in (any_true, diptych.aot_function(any_true)):
        last = call(torch.tensor(False), torch.zeros(4))
        assert last.dtype == torch.bool and last == flag


def real_twice(x):
    return torch.view_as_real(x) * 2


@pytest.mark.parametrize("compile", [lambda f: f, diptych.aot_function], ids=["eager", "compiled"])
@pytest.mark.parametrize("call", [
    lambda x: diptych.map(real_twice, x), lambda x: diptych.checkpoint(real_twice)(x),
    lambda x: diptych.cond(x.real.sum() > -99, real_twice, real_twice, x),
    lambda x: diptych.scan(lambda c, row: (c, real_twice(row)), torch.zeros(()), x)[1],
    lambda x: diptych.scan(lambda c, row: (c.conj(), real_twice(c) + row.imag[0]), x[0], x)[1][0] * 0 + real_twice(x.resolve_conj()),
    lambda x: torch.view_as_real(diptych.while_loop(
        lambda c: torch.view_as_real(c[1]).sum() * 0 + c[0] < 2, lambda c: (c[0] + 1, c[1].conj()), (torch.tensor(0), x))[1]) * 2])
def test_conjugates_go_into_bodies(call, compile):
    function = compile(call)
    for _ in range(2):
        x = torch.view_as_complex(torch.arange(12.0).view(3, 2, 2)).conj()
        assert torch.equal(function(x), torch.view_as_real(x.resolve_conj()) * 2)


@pytest.mark.parametrize("call", [
    lambda x: diptych.scan(lambda c, _: (c, torch.nn.functional.gelu(x)), x.new_zeros(()), None, length=2)[1],
    lambda x: diptych.map(lambda s: torch.nn.functional.gelu(x) * s, x.new_ones(3)),
])
def test_gradients_of_gelu_of_what_stays_the_same(call):
    x = torch.arange(3.0, requires_grad=True)
    results = call(x)
    expected = torch.nn.functional.gelu(x)
    weights = torch.arange(float(results.numel())).reshape(results.shape)
    torch.testing.assert_close(torch.autograd.grad(results, x, weights), torch.autograd.grad(expected, x, weights.sum(0)))
