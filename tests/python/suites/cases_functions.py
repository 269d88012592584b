"""Custom autograd Functions: what they save, mark, return and leave out."""
import torch
from cases import case, computed, leaf


class Scale(torch.autograd.Function):
    """Gives a gradient that no formula of its forward has."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor * 10, None


@case(lambda n: (leaf(n),), pure=True)
def function_own_backward(x):
    return Scale.apply(x, 3.0) + x


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0] * 2


@case(lambda n: (leaf(n),), pure=True)
def function_saves_its_input(x):
    return Square.apply(Square.apply(x))


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


@case(lambda n: (leaf(n),), pure=True)
def function_saves_its_result(x):
    return Exp.apply(x)


@case(lambda n: (leaf(n),), pure=True)
def function_saves_its_result_which_is_used(x):
    y = Exp.apply(x)
    return y.sin() * y


class Intermediate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = x.cos()
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.kept


@case(lambda n: (leaf(n),), pure=True)
def function_keeps_a_tensor_as_attribute(x):
    return Intermediate.apply(x)


class Undefined(torch.autograd.Function):
    """Says in its gradient which of its tangents were there."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    @staticmethod
    def backward(ctx, first, second):
        if first is None:
            return second * 100
        return first if second is None else first + second * 2


@case(lambda n: (leaf(n),), pure=True, then=lambda result, *_: result[1])
def function_undefined_tangents(x):
    return Undefined.apply(x)


@case(lambda n: (leaf(n),), pure=True)
def function_all_tangents(x):
    a, b = Undefined.apply(x)
    return a * b


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


@case(lambda n: (computed(n),))
def function_changes_an_input(x):
    return Dirty.apply(x) + 1


@case(lambda n: (leaf(n),), pure=True)
def function_changes_an_intermediate(x):
    return Dirty.apply(x.sin())


class Sort(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y, order = x.sort()
        ctx.mark_non_differentiable(order)
        ctx.save_for_backward(order)
        return y, order

    @staticmethod
    def backward(ctx, gradient, _):
        (order,) = ctx.saved_tensors
        return torch.zeros_like(gradient).scatter(0, order, gradient)


@case(lambda n: (leaf(n),), pure=True)
def function_marks_a_result_as_not_differentiable(x):
    return Sort.apply(x)


class SameInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 5


@case(lambda n: (leaf(n),))
def function_returns_its_input(x):
    return SameInput.apply(x)


@case(lambda n: (leaf(n),), pure=True)
def function_returns_an_intermediate_as_it_is(x):
    return SameInput.apply(x.sin()) * 2


class ViewOfInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.view(-1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.view(ctx.shape) * 3


@case(lambda n: (leaf(n, 4),))
def function_returns_a_view_of_its_input(x):
    return ViewOfInput.apply(x)


@case(lambda n: (leaf(n, 4),), pure=True)
def function_returns_a_view_of_an_intermediate(x):
    return ViewOfInput.apply(x.sin())


class NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        return None, gradient * 2


@case(lambda n: (leaf(n), leaf(n)), pure=True)
def function_gives_no_gradient_to_one(x, y):
    return NoGradient.apply(x, y)


class Needs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * y if ctx.needs_input_grad[0] else None, gradient * x if ctx.needs_input_grad[1] else None


@case(lambda n: (leaf(n), torch.ones(n, dtype=torch.float64)), pure=True)
def function_asks_what_is_needed(x, y):
    return Needs.apply(x, y) + Needs.apply(y, x)


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return Square.apply(x) + 1

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return Square.apply(gradient) * x


@case(lambda n: (leaf(n),), pure=True)
def function_in_a_function(x):
    return Outer.apply(x)


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0] * 2


# A gradient of eager's says that it requires grad, and leads nowhere; ours says that it does not.
@case(lambda n: (leaf(n),), pure=True, order=1)
def function_that_is_once_differentiable(x):
    return Once.apply(x)


class GradInside(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(leaf.pow(3).sum(), leaf)
        return gradient

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 6 * ctx.saved_tensors[0]


@case(lambda n: (leaf(n),), pure=True, skip=("inference",))
def function_takes_a_gradient_inside(x):
    return GradInside.apply(x)


class Buffered(torch.autograd.Function):
    """Its backward changes a tensor that the caller sees."""

    @staticmethod
    def forward(ctx, x, count):
        ctx.count = count
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        ctx.count.add_(1)
        return gradient * 2, None


@case(lambda n: (leaf(n), torch.zeros(())), order=1)
def function_changes_an_input_in_its_backward(x, count):
    (gradient,) = torch.autograd.grad(Buffered.apply(x, count).sum(), x, create_graph=True) if x.requires_grad and torch.is_grad_enabled() else (x,)
    return gradient * x, count + 0


class Tuple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *tensors):
        ctx.save_for_backward(*tensors)
        return tuple(tensor.sin() for tensor in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(gradient * tensor.cos() for gradient, tensor in zip(gradients, ctx.saved_tensors))


@case(lambda n: (leaf(n), leaf(2, n), leaf()), pure=True)
def function_of_many(x, y, z):
    return Tuple.apply(x, y, z)
