"""Second derivatives through Functions of the user's, and through hooks, inside of compiled functions."""
import diptych
import pytest
import torch
from torch.autograd import Function, grad, gradcheck, gradgradcheck
from torch.autograd.function import once_differentiable


class Cube(Function):
    """Saves its argument."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


class Exp(Function):
    """Saves its result."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


class Product(Function):
    """Two arguments, two results; written with setup_context."""

    @staticmethod
    def forward(x, w):
        return x * w, x + w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        return g * w + h, g * x + h


class Round(Function):
    """Its derivative is not that of its operators."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


def hooked(x):
    y = x.sin()
    y.register_hook(lambda g: g * g)
    return y * x


def nested(x):
    return Cube.apply(Exp.apply(x) * x).sin()


def products(x):
    a, b = Product.apply(x.sin(), x * 2)
    return a * b.exp()


SMOOTH = {
    "argument": lambda x: Cube.apply(x.sin()) * x,
    "result": lambda x: Exp.apply(x * x) * x,
    "products": products,
    "nested": nested,
    "bare": Exp.apply,
    "with others": lambda x: (Exp.apply(x) @ x.t()).tanh(),
}
FUNCTIONS = SMOOTH | {
    "rounded": lambda x: Round.apply(x * 3) ** 3,
    "hook": hooked,
    "in a loss": lambda x: (Round.apply(x * 3) * Exp.apply(x)).sum(),
}


def leaf():
    return torch.randn(3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double).requires_grad_()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_to_the_third_order(name):
    function = FUNCTIONS[name]
    compiled = diptych.aot_function(function)
    found = []
    for call in (function, compiled):
        x = leaf()
        orders = [call(x)]
        for order in range(3):
            last = orders[-1]
            if not last.requires_grad:
                break
            orders += grad((last * torch.linspace(0.5, 1.5, last.numel(), dtype=torch.double).view(last.shape)).sum(), x, create_graph=order < 2)
        found.append(orders)
    assert [one.requires_grad for one in found[1]] == [one.requires_grad for one in found[0]]
    torch.testing.assert_close(found[1], found[0])
    assert compiled.stats().originals == 0


@pytest.mark.parametrize("name", SMOOTH)
def test_by_differences(name):
    compiled = diptych.aot_function(SMOOTH[name])
    assert gradcheck(compiled, leaf())
    assert gradgradcheck(compiled, leaf())


def test_several_arguments_and_a_parameter():
    w = torch.linspace(-1, 1, 6, dtype=torch.double).view(3, 2).requires_grad_()

    def f(x, y):
        a, b = Product.apply(x * w, y)
        return Exp.apply(a) + b * w, a.sum()

    found = []
    for call in (f, diptych.aot_function(f)):
        x, y = leaf(), leaf().detach().cos().requires_grad_()
        one, two = call(x, y)
        first = grad(one.sin().sum() + two, (x, y, w), create_graph=True)
        second = grad(sum((g * g).sum() for g in first), (x, y, w))
        found.append([*first, *second])
    torch.testing.assert_close(found[1], found[0])


def test_a_penalty_in_a_step():
    found = []
    for compiles in (False, True):
        torch.manual_seed(0)
        layer = torch.nn.Linear(2, 2).double()

        def f(x):
            return Exp.apply(layer(x))

        call = diptych.aot_function(f) if compiles else f
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
        for _ in range(3):
            x = leaf()
            y = call(x).sum()
            (g,) = grad(y, x, create_graph=True)
            optimizer.zero_grad()
            (y + g.square().sum()).backward()
            optimizer.step()
        found.append([p.detach() for p in layer.parameters()])
    torch.testing.assert_close(found[1], found[0])


def test_draws_are_the_forwards():
    def f(x):
        return Exp.apply(torch.nn.functional.dropout(x, 0.5)) * torch.rand(3, 2)

    found = []
    for call in (f, diptych.aot_function(f)):
        x = leaf()
        torch.manual_seed(1)
        (g,) = grad(call(x).sum(), x, create_graph=True)
        found.append([g, *grad(g.sum(), x), torch.get_rng_state()])
    torch.testing.assert_close(found[1], found[0])


def test_once_differentiable():
    def f(x):
        return Once.apply(x) * x

    found = []
    for call in (f, diptych.aot_function(f)):
        x = leaf()
        (g,) = grad(call(x).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="twice a function that was marked"):
            g.sum().backward(retain_graph=True)
        found.append([g, *grad(g.sum(), x)])  # eager does not come to what throws
    torch.testing.assert_close(found[1], found[0])


class OfItsSize(Function):
    """Its derivative is another at every third length, and so is the derivative of that."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (BranchesLater.apply(x) if x.shape[0] % 5 else x.exp())


class BranchesLater(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.exp() if x.shape[0] % 3 else x.exp() * 2)


DYNAMIC = SMOOTH | {
    "rounded": FUNCTIONS["rounded"],
    "by size": lambda x: OfItsSize.apply(x) * x.shape[0],
    "linear": lambda x: Round.apply(x).sin() * x,
    "draws": lambda x: Exp.apply(torch.nn.functional.dropout(x, 0.5)),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_with_dynamic_sizes(name):
    function = DYNAMIC[name]
    compiled = diptych.aot_function(function, dynamic=True)
    for rows in (4, 7, 9, 10, 11, 12, 7, 15, 4):
        given = torch.randn(rows, 2, dtype=torch.double)
        found = []
        for call in (function, compiled):
            torch.manual_seed(rows)
            x = given.clone().requires_grad_()
            orders = [call(x)]
            for _ in range(3):
                last = orders[-1]
                if not last.requires_grad:
                    break
                orders += grad((last * torch.linspace(0.5, 1.5, last.numel(), dtype=torch.double).view(last.shape)).sum(), x, create_graph=True)
            found.append(orders)
        assert [one.requires_grad for one in found[1]] == [one.requires_grad for one in found[0]]
        torch.testing.assert_close(found[1], found[0])
    stats = compiled.stats()
    assert stats.originals == 0 and (name == "by size" or stats.misses <= 3)
    if name in SMOOTH:
        x = torch.randn(13, 2, dtype=torch.double).tanh().requires_grad_()
        assert gradcheck(compiled, x) and gradgradcheck(compiled, x)


def test_dynamic_sizes_that_are_not_checked():
    compiled = diptych.aot_function(lambda x: Exp.apply(x) * x, dynamic=True, check_sizes=False)
    for rows in (4, 8, 30):
        x = torch.randn(rows, 2).requires_grad_()
        y = compiled(x).sum()
        if rows < 30:
            continue
        with pytest.raises(diptych.UserError, match="torch.autograd.Function"):
            grad(y, x, create_graph=True)


class Linear(Function):
    """Its derivative depends on one of its arguments."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        return g * w, None


def test_which_gradients_require_grad():
    for w_requires_grad in (False, True):
        found = []
        for call in (Linear.apply, diptych.aot_function(lambda x, w: Linear.apply(x, w))):
            x, w = leaf(), leaf().detach().cos().requires_grad_(w_requires_grad)
            y = call(x, w)
            plain = grad(y.sum(), x, create_graph=True)[0]
            tangent = torch.ones_like(y).requires_grad_()
            also = grad(y, x, tangent, create_graph=True)[0]
            found.append([plain, plain.requires_grad, also, also.requires_grad])
        torch.testing.assert_close(found[1], found[0])


def test_a_second_backward_after_a_release():
    compiled = diptych.aot_function(lambda x: Exp.apply(x) * x)
    x = leaf()
    y = compiled(x).sum()
    (g,) = grad(y, x, create_graph=True)
    g.sum().backward(retain_graph=True)
    g.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        g.sum().backward()
