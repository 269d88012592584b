"""Derivatives of derivatives where a function writes to tensors, or reads them, where autograd does not see it: under no_grad, through
detach() and by .data."""
import diptych
import pytest
import torch
from torch import no_grad
from torch.autograd import grad
from torch.nn import functional as F

from beside_eager import loop

X = torch.rand(2, 3, dtype=torch.double, generator=torch.Generator().manual_seed(0)) + 0.1
B = torch.rand(3, dtype=torch.double, generator=torch.Generator().manual_seed(1))


# What is written has no history: statistics, buffers, new tensors.
def average(x, b):
    with no_grad():
        b.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return (x * b).pow(3).sum()


def copy(x, b):
    with no_grad():
        b.copy_(x[0])
    return (x * b).pow(3).sum() + b.sum() * x.pow(2).sum()


def copy_to_an_element(x, b):
    with no_grad():
        b[0].copy_(x[0, 0])
        b[1:].zero_()
    return (x * b.sin()).pow(3).sum()


def statistics_of_views(x, b):
    y = F.relu(x * 2, inplace=True)
    with no_grad():
        b.mul_(0.5).add_(y.transpose(0, 1).reshape(3, -1).mean(1))
    return (y * b).pow(3).sum()


def by_index(x, b):
    with no_grad():
        b.index_add_(0, torch.tensor([0, 2]), x[0, :2])
        b.scatter_(0, torch.tensor([1]), x[1, :1])
        b[x[0] > 0.5] = 0.25
    return (x * b).pow(3).sum()


def new_tensor(x, b):
    z = torch.zeros(3, dtype=x.dtype)
    with no_grad():
        z.add_(x[0])
        z[1] = x[1, 1]
    z.mul_(x[1])
    return (x * z).pow(3).sum()


def lists(x, b):
    with no_grad():
        torch._foreach_lerp_([b], [x[0]], 0.3)
    return (x * b).pow(3).sum()


def parts_of_complex(x, b):
    c = torch.zeros(2, 3, dtype=torch.complex128)
    with no_grad():
        c.real.copy_(x)
        c.imag.add_(x[0])
    return (x * c.abs()).pow(3).sum()


def codebook(x, b):
    book = b.expand(2, 3).clone()
    with no_grad():
        nearest = (x[:, None] - book[None]).pow(2).sum(-1).argmin(1)
        book.index_add_(0, nearest, x)
        b.lerp_(book.mean(0), 0.2)
    chosen = x + (book[nearest] - x).detach()
    return (chosen.pow(3) * b).sum() + F.mse_loss(x, book[nearest]).pow(2)


# It has one, and keeps it.
def clamped(x, b):
    y = x.clone()
    with no_grad():
        y.clamp_(min=0.5)
    return y.pow(3).sum()


def row_set(x, b):
    y = x.clone()
    with no_grad():
        y[0].fill_(0.5)
    return y.pow(3).sum()


def through_detach(x, b):
    y = x * 2
    y.detach().add_(1)
    return y.pow(3).sum()


def history_from_a_write(x, b):
    z = torch.zeros(3, dtype=x.dtype)
    z.add_(x[1])
    with no_grad():
        z.add_(x[0])
    return (x * z).pow(3).sum()


def given_for_the_result(x, b):
    y = x[0] * 3
    with no_grad():
        torch.mul(x[0], 2, out=y)
    return (x * y.pow(2)).sum()


def cosine(x, b):
    return F.cosine_similarity(x.pow(2), x.exp()).sum()


def gaussian(x, b):
    return F.gaussian_nll_loss(x, x.detach() * 2, x.pow(2))


def two_results(x, b):
    y = x.clone()
    with no_grad():
        y[0].clamp_(min=0.7)
    return (y.pow(3) + x.pow(2)).sum()


# By .data, which no operator makes.
def data_read(x, b):
    y = x.exp()
    return (y * y.data).sum() + (x * x.data.exp()).pow(2).sum()


def data_written(x, b):
    y = x.exp()
    y.data.clamp_(max=1.5)
    return y.pow(3).sum()


def data_written_without_grad(x, b):
    y = x * 2
    with no_grad():
        y.data.add_(1)
        y.data[0].mul_(2)
    return y.pow(3).sum()


def data_written_and_read(x, b):
    y = x.exp()
    d = y.data
    assert d.mul_(2) is d and torch.add(d, 1, out=d) is d
    return (y.sin() * d).sum()


def data_given_to_a_branch(x, b):
    y = x.exp()
    return (diptych.cond(x.sum() > 0, torch.sin, torch.cos, y.data) * y).sum()


def data_of_what_has_none(x, b):
    z = torch.zeros_like(x)
    z.data.add_(3)
    z.view(-1)[0] = 2
    return (x * z).pow(3).sum()


def data_of_another_shape(x, b):
    y = x.exp()
    d, e = y.data, (x * 2).data
    d.t_()
    e.unsqueeze_(0)
    assert d.shape == (x.shape[1], x.shape[0])
    return (d @ x).sum() + (e * y).sum()


def data_with_a_history_of_its_own(x, b):
    y = x.exp()
    d = y.data
    d.add_(y)
    e = (x * 2).data
    e[0].mul_(x[0])
    return (y * d).sum() + e.sum()


def data_that_requires_grad(x, b):
    y = x.exp()
    d = y.data.requires_grad_()
    inner, = grad(d.pow(3).sum(), d, create_graph=True)
    return (inner * y).sum() + (d * y).sum()


def data_of_an_argument_that_requires_grad(x, b):
    d = x.data.requires_grad_()
    inner, = grad(d.pow(3).sum(), d, create_graph=True)
    return (inner * x).sum() + (d * x * x).sum()


def lists_with_a_history(x, b):
    y, z = x * 2, x * 3
    with no_grad():
        torch._foreach_zero_([y])
    torch._foreach_mul_([z.data], 2.0)
    return (y + x).pow(3).sum() + z.pow(3).sum()


class SquareByData(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * 2 * x.data


class SquareThatWritesBackward(SquareByData):
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        g = g.clone()
        g.data.clamp_(max=1.5)
        return g * x


def in_a_backward(x, b):
    return SquareByData.apply(x.exp()).sum()


def written_in_a_backward(x, b):
    with no_grad():
        b.add_(x[0])
    return SquareThatWritesBackward.apply(x.exp()).pow(2).sum()


FUNCTIONS = [
    average, copy, copy_to_an_element, statistics_of_views, by_index, new_tensor, lists, parts_of_complex, codebook, clamped, row_set,
    through_detach, history_from_a_write, given_for_the_result, cosine, gaussian, two_results, data_read, data_written,
    data_written_without_grad, data_written_and_read, data_given_to_a_branch, data_of_what_has_none,
    data_of_another_shape, data_with_a_history_of_its_own, data_that_requires_grad,
    data_of_an_argument_that_requires_grad, lists_with_a_history, in_a_backward, written_in_a_backward,
]
each_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)


def derivatives(function, x, order):
    """Returns the value, the derivatives of squares of derivatives up to `order`, and the buffer."""
    x, b = x.clone().requires_grad_(), B.clone()
    results = [function(x, b)]
    y = results[0]
    for _ in range(order):
        if not y.requires_grad:
            break
        g, = grad(y, x, create_graph=True)
        results.append(g)
        y = g.pow(2).sum()
    return results + [b]


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one, other)
        assert one.requires_grad == other.requires_grad


@each_function
@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives(function, order):
    if function is written_in_a_backward and order == 3:
        pytest.skip("a backward that is not linear in what arrives has another third derivative by levels")
    compiled = diptych.aot_function(function)
    for x in (X, X + 0.3):
        same(derivatives(compiled, x, order), derivatives(function, x, order))
    assert compiled.stats().originals == 0


@each_function
def test_dynamic_sizes(function):
    compiled = diptych.aot_function(function, dynamic=True)
    for rows in (2, 3, 5, 4, 2):
        x = torch.cat([X, X.flip(0) + 0.2, X])[:rows]
        if function in (codebook, parts_of_complex) and rows != 2:
            continue
        same(derivatives(compiled, x, 2), derivatives(function, x, 2))


@each_function
def test_hessian(function):
    compiled = diptych.aot_function(function)
    wanted = torch.autograd.functional.hessian(lambda x: function(x, B.clone()), X)
    torch.testing.assert_close(torch.autograd.functional.hessian(lambda x: compiled(x, B.clone()), X), wanted)


def own_tensor(function):
    return lambda x: function(x, B.clone())


@pytest.mark.parametrize("transform", ["grad", "grad_of_grad", "vjp", "jvp", "hessian", "under_no_grad"])
@pytest.mark.parametrize("function", [data_read, data_given_to_a_branch], ids=lambda function: function.__name__)
def test_data_inside_of_transforms(function, transform):
    def of(f):
        if transform == "grad":
            return torch.func.grad(own_tensor(f))(X)
        if transform == "grad_of_grad":
            return torch.func.grad(lambda x: torch.func.grad(own_tensor(f))(x).pow(2).sum())(X)
        if transform == "vjp":
            return torch.func.vjp(own_tensor(f), X)[1](torch.ones((), dtype=torch.double))[0]
        if transform == "hessian":
            return torch.func.hessian(own_tensor(f))(X)
        return torch.func.jvp(own_tensor(f), (X,), (X.sin(),))[1]

    def read_under_no_grad(x, b):
        with no_grad():
            d = x.data * 2
        return function(x, b) + (d * x).sum()

    one = read_under_no_grad if transform == "under_no_grad" else function
    torch.testing.assert_close(of(diptych.aot_function(one)), of(one))


@pytest.mark.parametrize("transform", [lambda f: torch.func.grad(f)(X), lambda f: torch.func.vjp(f, X)[0]], ids=["grad", "vjp"])
def test_a_refused_transform_draws_once(transform):
    def function(x):
        y = F.dropout(x.exp(), 0.5)
        with no_grad():
            y.clamp_(max=1.5)
        return (y * x).sum()

    def drawn(f):
        torch.manual_seed(3)
        return [transform(f), torch.rand(3)]

    same(drawn(diptych.aot_function(function)), drawn(function))


# As a layer that initializes itself by its first batch does it.
@pytest.mark.parametrize("change", [
    lambda scale, x: scale.copy_(torch.full((2,), 0.3)), lambda scale, x: scale.copy_(x.detach().std(0)),
    lambda scale, x: scale.zero_(), lambda scale, x: scale.fill_(0.3), lambda scale, x: scale.div_(2), lambda scale, x: scale.data.copy_(x[0]),
], ids=["copy", "copy of x", "zero", "fill", "div", "data"])
def test_a_parameter_that_is_overwritten(change):
    def second(wrap):
        scale = torch.ones(2, dtype=torch.double, requires_grad=True)

        def function(x):
            with no_grad():
                change(scale, x)
            return x * scale * scale

        x = torch.tensor([[1., 2.], [0.5, -3]], dtype=torch.double, requires_grad=True)
        found = grad(wrap(function)(x).square().sum(), [x, scale], create_graph=True)
        return [*found, *grad(sum(g.square().sum() for g in found), [x, scale])]

    same(second(diptych.aot_function), second(lambda function: function))


# A result of its own and one that is computed from it, and arguments that share memory.
def hidden_between_results(x, b):
    y = x.clone()
    y.detach().clamp_(min=0.7)
    return y, y.pow(3)


def test_what_a_hidden_write_keeps_from_a_second_derivative_is_refused():
    x = X.clone().requires_grad_()
    g, = grad(diptych.aot_function(hidden_between_results)(x, B)[1].sum(), x)
    torch.testing.assert_close(g, grad(hidden_between_results(x, B)[1].sum(), x)[0])
    with pytest.raises(diptych.UserError, match="does not see it.* computed from another"):
        grad(diptych.aot_function(hidden_between_results)(x, B)[1].sum(), x, create_graph=True)

    def halves(a, b):
        with no_grad():
            b.mul_(2)
        return a.pow(3).sum()

    def of_halves(function, create_graph):
        y = x * 1
        return grad(function(y, y.detach()), x, create_graph=create_graph)[0]

    torch.testing.assert_close(of_halves(diptych.aot_function(halves), False), of_halves(halves, False))
    with pytest.raises(diptych.UserError, match="does not see it.* arguments share memory"):
        of_halves(diptych.aot_function(halves), True)


# In bodies of loops.
def reads_data(carry, x):
    y = carry * x
    return y * y.data.sin(), y


def writes_data(carry, x):
    y = carry * x
    y.data.mul_(2)
    return y.pow(2) * 0.1, y


def writes_a_history_to_data(carry, x):
    y = carry * x
    d = y.data
    d.mul_(y)
    return d * 0.3 + y, y


def scanned(body, scan):
    def function(carry, xs):
        carry, ys = scan(body, carry, xs)
        return carry.sum() + ys.pow(2).sum()

    return function


@pytest.mark.parametrize("wrap", [lambda f: f, diptych.aot_function], ids=["eager", "compiled"])
@pytest.mark.parametrize("body, order", [(reads_data, 1), (reads_data, 2), (writes_data, 1), (writes_a_history_to_data, 1)])
def test_data_in_a_body(body, order, wrap):
    def gradients(scan):
        given = torch.ones(3, dtype=torch.double, requires_grad=True), X.clone().requires_grad_()
        found = grad(wrap(scanned(body, scan))(*given), given, create_graph=order == 2)
        return grad(sum(g.pow(2).sum() for g in found), given) if order == 2 else found

    for ours, theirs in zip(gradients(diptych.scan), gradients(loop)):
        torch.testing.assert_close(ours, theirs)


# A body whose derivative is not that of its operators, in a loop in another: a gradient that runs the outer loop again has the graphs alone.
class Sevenfold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * 7


def doubled_by_data(x):
    y = x.clone()
    y.data.mul_(2)
    return y * y


def doubled_by_detach(x):
    y = x.clone()
    y.detach().mul_(2)
    return y * y


def whole(body, x):
    return body(x)


def mapped(body, x):
    return diptych.map(body, x)


def scanned_slices(body, x):
    return diptych.scan(lambda c, e: (c, body(e)), x[0], x)[1]


def branched(body, x):
    return diptych.cond(x.sum() > 0, body, lambda a: a.clone(), x)


def looped(body, x):
    return diptych.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, body(c[1])), (torch.zeros((), dtype=torch.long), x))[1]


def with_a_rule(body):
    return diptych.custom_vjp(body, lambda x: (body(x), x), lambda x, g: (g * 7,))


@pytest.mark.parametrize("inner", [whole, mapped, scanned_slices, branched, looped])
@pytest.mark.parametrize("body", [Sevenfold.apply, doubled_by_data, doubled_by_detach])
def test_a_derivative_of_a_bodys_own_is_not_lost_in_loops_in_loops(body, inner):
    def gradient(outer, of=body):
        x = X[0].clone().requires_grad_()
        return grad(diptych.aot_function(lambda x: outer(lambda a: inner(of, a), x))(x).sum(), x)[0]

    if inner is not looped:
        x = X[0].clone().requires_grad_()
        eager, = grad(body(x).sum(), x)
        torch.testing.assert_close(gradient(whole), eager)
        torch.testing.assert_close(gradient(branched), eager)
    with pytest.raises(diptych.UserError, match="calls a torch::autograd::Function or registers a hook, or changes a tensor in place.* does not see it"):
        gradient(looped)
    # What is given a rule has that derivative everywhere.
    torch.testing.assert_close(gradient(looped, with_a_rule(body)), 7 * torch.ones(3, dtype=torch.double))
