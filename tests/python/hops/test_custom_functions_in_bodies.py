"""Bodies that call a torch.autograd.Function, for every choice of the inputs that require grad, beside the loop written out."""
import itertools

import diptych
import pytest
import torch


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x**2


class Product(torch.autograd.Function):
    """Has a backward that asks which gradients are needed."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * y if ctx.needs_input_grad[0] else None, gradient * x if ctx.needs_input_grad[1] else None


BODIES = {
    "of a slice": lambda c, s, w: (c + Cube.apply(s), c * 2),
    "of the carry": lambda c, s, w: (Cube.apply(c) * 0.1 + s, c * 2),
    "of both": lambda c, s, w: (Product.apply(c, s) + w, Product.apply(s, w)),
    "of what is captured": lambda c, s, w: (c * 0.5 + s.detach(), Cube.apply(w) + s),
    "of the carry alone": lambda c, s, w: (Cube.apply(c) * 0.1, s + w),
}


def written_out(body, init, xs, w):
    carry, ys = init, []
    for x in xs:
        carry, y = body(carry, x, w)
        ys.append(y)
    return carry, torch.stack(ys)


def scanned(body, init, xs, w):
    return diptych.scan(lambda carry, x: body(carry, x, w), init, xs)


def looped(body, init, xs, w):
    """A while_loop for the carry, and a map for the rest."""
    _, carry = diptych.while_loop(lambda state: state[0] < 4, lambda state: (state[0] + 1, body(state[1], xs[0], w)[0]), (torch.tensor(0), init))
    return carry, diptych.map(lambda x: body(init, x, w)[1], xs)


def looped_in_eager(body, init, xs, w):
    carry = init
    for _ in range(4):
        carry = body(carry, xs[0], w)[0]
    return carry, torch.stack([body(init, x, w)[1] for x in xs])


@pytest.mark.parametrize(("call", "eager", "compiled"), [(scanned, written_out, False), (scanned, written_out, True), (looped, looped_in_eager, False)])
@pytest.mark.parametrize("name", BODIES)
def test_beside_eager(name, call, eager, compiled):
    body = BODIES[name]
    for wanted in itertools.product((False, True), repeat=3):
        torch.manual_seed(2)
        given = [torch.randn(size, dtype=torch.float64, requires_grad=needs) for size, needs in zip(((3,), (4, 3), (3,)), wanted)]

        def function(*given):
            return call(body, *given)

        results = (diptych.aot_function(function) if compiled else function)(*given)
        expected = eager(body, *given)
        torch.testing.assert_close(results, expected)
        assert [result.requires_grad for result in results] == [result.requires_grad for result in expected], wanted
        leaves = [tensor for tensor in given if tensor.requires_grad]
        for result, right in zip(results, expected):
            if not right.requires_grad:
                continue
            gradients, right = (torch.autograd.grad(one.sin().sum(), leaves, retain_graph=True, materialize_grads=True) for one in (result, right))
            torch.testing.assert_close(gradients, right)
