"""Corners of transforms around compiled functions and operators, each beside eager: closures over tensors of outer levels, Functions
with derivatives of their own, writes to parts, parameters that are replaced, identity and strides of arguments."""
import diptych
import pytest
import torch
from torch import nn
from torch.func import grad, hessian, jacrev, jvp, vjp, vmap

from loops import close

checkpoint, aot = diptych.checkpoint, diptych.aot_function
torch.manual_seed(0)
S, W, X = torch.rand(2, dtype=torch.float64), torch.rand(3, 2, dtype=torch.float64), torch.rand(3, 2, dtype=torch.float64)
OUTER = {"grad": lambda f, w: grad(lambda w: f(w).sum())(w), "jvp": lambda f, w: jvp(f, (w,), (w * 2,))[1], "vmap": lambda f, w: vmap(f)(torch.stack([w, w * 2]))}
WAYS = {"operator": checkpoint, "compiled": aot}
each_way = pytest.mark.parametrize("way", WAYS)


@each_way
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", [
    lambda w, s: grad(lambda q: (q * w).sin().sum())(s),
    lambda w, s: jvp(lambda q: (q * w).sin(), (s,), (s,))[1],
    lambda w, s: jvp(torch.sin, (s,), (w,))[1],
    lambda w, s: vmap(lambda q: q * w)(torch.stack([s, s])).sum(0),
    lambda w, s: vjp(lambda q: q.sin() * w, s)[1](s)[0],
], ids=["grad", "jvp", "direction", "vmap", "vjp"])
def test_a_transform_inside_over_a_tensor_of_a_transform_outside(way, outer, inner):
    ours = OUTER[outer](lambda w: WAYS[way](lambda s: inner(w, s))(S), S * 3)
    close(ours, OUTER[outer](lambda w: inner(w, S), S * 3))


@each_way
def test_forward_mode_inside_over_a_loop(way):
    def second(loop, compile):
        f = lambda x: jvp(lambda x: loop(lambda c: c.sum() < 40, lambda c: c * 1.5 + 1, x).sin().sum(), (x,), (x,))[1]  # noqa: E731
        return jvp(compile(f), (S,), (S,))[1]

    def plain(test, step, c):
        while test(c):
            c = step(c)
        return c

    close(second(diptych.while_loop, WAYS[way]), second(plain, lambda f: f))


class Odd(torch.autograd.Function):
    """A Function whose derivatives are not those of what it computes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, tangent):
        return tangent * 3 * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 5 * ctx.saved_tensors[0]


@each_way
def test_a_function_keeps_its_own_derivatives(way):
    f = lambda c: Odd.apply(c) * 2  # noqa: E731
    ours = WAYS[way](f)
    close(jvp(ours, (S,), (S,)), jvp(f, (S,), (S,)))
    close(grad(lambda W: vmap(ours)(W).sum())(W), grad(lambda W: vmap(f)(W).sum())(W))
    close(grad(lambda s: ours(s).sum())(S), grad(lambda s: f(s).sum())(S))
    close(jvp(lambda w: WAYS[way](lambda s: (Odd.apply(w) * s).sum())(S), (S,), (S,))[1], (5 * S * S * S).sum())


@each_way
def test_a_write_to_an_element_of_a_batch(way):
    def f(x, w):
        y = x * 1
        y[0] = w[0]
        return y

    ours = WAYS[way](f)
    wanted = grad(lambda W: sum(f(x, w).sum() for x, w in zip(X, W)))(W)
    close(grad(lambda W: vmap(ours)(X, W).sum())(W), wanted)
    close(vmap(ours)(X, W), torch.stack([f(x, w) for x, w in zip(X, W)]))


def test_parameters_that_are_replaced():
    module = nn.Linear(2, 2).double()
    compiled = diptych.aot_module(module)
    for _ in range(2):
        close(vmap(compiled)(X), module(X))
        module.weight = nn.Parameter(module.weight.detach() + 1)


@pytest.mark.parametrize("identical", [True, False])
def test_which_arguments_are_one_tensor(identical):
    f = lambda x, y: (x * 2 if x is y else x * 3).sum()  # noqa: E731
    compiled = aot(f)
    for _ in range(2):
        close(vmap(lambda x: compiled(x, x if identical else x + 0))(X), (2 if identical else 3) * X.sum(1))
        close(vmap(lambda x: compiled(x, x + 0 if identical else x))(X), (3 if identical else 2) * X.sum(1))


@pytest.mark.parametrize("f", [
    lambda x: x.as_strided((2,), (1,)).sum(), lambda x: (x * 2 if x.is_contiguous() else x * 3).sum(), lambda x: x * x.stride(0)
], ids=["as_strided", "is_contiguous", "stride"])
def test_strides_of_an_argument(f):
    for x in (X.t(), X.t().contiguous()):
        close(grad(lambda x: aot(f)(x).sum())(x), grad(lambda x: f(x).sum())(x))


def test_what_has_no_second_derivative_has_a_first():
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).double()
    x = torch.rand(2, 3, 4, dtype=torch.float64)
    close(grad(lambda x: diptych.aot_module(layer)(x).sum())(x), grad(lambda x: layer(x).sum())(x))
    with pytest.raises(RuntimeError, match="not implemented|flash"):
        grad(lambda x: grad(lambda x: diptych.aot_module(layer)(x).sum())(x).sin().sum())(x)


def test_a_rule_that_captures_a_tensor_of_an_outer_level():
    def rule(x, k):
        value = lambda x: (x.sin() * k).sum()  # noqa: E731
        return diptych.custom_vjp(value, lambda x: (value(x), x), lambda x, t: (t * x.cos() * k,))(x)

    close(vmap(lambda k: grad(lambda x: rule(x, k))(S))(W), S.cos() * W)


def by_while_loop(f):
    return lambda x: diptych.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(x)), (torch.tensor(0), torch.zeros_like(f(x))))[1]


def test_the_backward_of_a_loop_that_writes_to_an_element():
    def f(x):
        y = x * 2
        y[0].mul_(x[1])
        return y

    for ours in (by_while_loop(f), checkpoint(f), aot(f)):
        close(jacrev(ours)(X), jacrev(f)(X))
        close(hessian(lambda x: ours(x).sin().sum())(X), hessian(lambda x: f(x).sin().sum())(X))


def test_a_loop_of_views_in_batches_along_other_dimensions():
    f = lambda x: (x.view(-1) * 2).sin().view(3, 2)  # noqa: E731
    x = torch.rand(3, 2, 3, 2, dtype=torch.float64).requires_grad_()
    look = lambda g: torch.autograd.grad(vmap(vmap(g, out_dims=-1), in_dims=1)(x).pow(2).sum(), x)  # noqa: E731
    close(look(by_while_loop(f)), look(f))


@pytest.mark.parametrize("draw", ["normal_", "uniform_", "exponential_", "cauchy_", "log_normal_"])
def test_draws_in_place_follow_the_randomness_of_vmap(draw):
    f = lambda x: x + getattr(torch.empty_like(x), draw)()  # noqa: E731

    def look(f, randomness):
        torch.manual_seed(0)
        return vmap(f, randomness=randomness)(X)

    for ours in (aot(f), checkpoint(f)):
        for randomness in ("same", "different"):
            close(look(ours, randomness), look(f, randomness))
        with pytest.raises(RuntimeError, match="randomness error mode"):
            look(ours, "error")


@pytest.mark.parametrize("loss", ["mse_loss", "smooth_l1_loss", "huber_loss"])
@pytest.mark.parametrize("sizes", [(2,), ()])
def test_losses_that_broadcast(loss, sizes):
    f = getattr(torch.ops.aten, loss).default
    target = torch.rand(sizes, dtype=torch.float64)

    def look(f):
        leaves = [X.clone().requires_grad_(), target.clone().requires_grad_()]
        return torch.autograd.grad(f(*leaves), leaves)

    close(look(aot(lambda x, y: f(x, y))), look(f))
    grads = lambda f: grad(lambda t: vmap(f, (0, None))(X, t).sin().sum())(target)  # noqa: E731
    close(grads(aot(lambda x, y: f(x, y))), grads(f))


def test_linearize_inside_a_capture_is_refused_in_words():
    with pytest.raises(diptych.UserError, match="linearize"):
        aot(lambda x: torch.func.linearize(torch.sin, x)[1](x))(X)


@pytest.mark.parametrize("f", [torch.linalg.det, lambda a: torch.linalg.solve(a, a.sin()), lambda a: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), a.cos())],
                         ids=["det", "solve", "lu_solve"])
def test_factors_that_are_broadcast_over_batches(f):
    """LibTorch's linalg_lu_solve takes the factors of another batch where they are broadcast, as derivatives in batches of batches do."""

    def loop(a):
        return diptych.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(a)), (torch.tensor(0), torch.zeros_like(f(a))))[1]

    a = torch.rand(2, 3, 3, dtype=torch.float64) + torch.eye(3, dtype=torch.float64)
    one_by_one = torch.stack([jacrev(jacrev(f))(element) for element in a])
    for ours in (loop, aot(f), aot(loop)):
        close(jacrev(torch.func.jacfwd(ours))(a[0]), jacrev(torch.func.jacfwd(f))(a[0]))
        close(vmap(hessian(ours))(a), one_by_one)  # eager's is wrong for the second


def test_factors_of_each_batch():
    """Captured, the answer is that of the systems one by one. Eager's is not."""
    factors, pivots = torch.linalg.lu_factor(torch.rand(2, 3, 3, dtype=torch.float64))
    right = torch.rand(2, 4, 3, 3, dtype=torch.float64)
    expected = torch.stack([torch.stack([torch.linalg.lu_solve(factors[i], pivots[i], right[i, k]) for k in range(4)]) for i in range(2)])
    close(aot(lambda f, p, b: torch.linalg.lu_solve(f[:, None], p[:, None], b))(factors, pivots, right), expected)
