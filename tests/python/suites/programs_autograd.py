"""Programs about derivatives: transforms, Functions of one's own, checkpoints, gradients that are taken inside, hooks, modes."""
import functools

import diptych
import torch
import torch.autograd.forward_ad as forward_ad
from programs import add, add_functions, leaf, program, signed
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

cell = lambda c, x: ((c * x).sin(), c + x)  # noqa: E731
TRANSFORMS = {
    "grad": lambda f: grad(lambda x: f(x).sum()),
    "vmap": vmap,
    "jacrev": jacrev,
    "jacfwd": jacfwd,
    "hessian": lambda f: hessian(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: jvp(f, (x,), (torch.ones_like(x),)),
    "vjp": lambda f: lambda x: vjp(f, x)[1](torch.ones_like(x)),
    "gradient_per_sample": lambda f: vmap(grad(lambda x: f(x).sum())),
}
INNER = {
    "function": lambda wrap: wrap(lambda x: (x * 2).sin().cumsum(0)),
    "scan": lambda wrap: lambda x: diptych.scan(cell, x * 2, x.expand(3, *x.shape))[0],
    "cond": lambda wrap: lambda x: diptych.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, x),
    "checkpoint": lambda wrap: lambda x: diptych.checkpoint(lambda x: x.sin().exp())(x),
    "map": lambda wrap: lambda x: diptych.map(lambda x: x.sin(), x.expand(2, *x.shape)),
}
for _transform, _apply in TRANSFORMS.items():
    for _name, _inner in INNER.items():
        arguments = (leaf(4, 3),) if _transform in ("vmap", "gradient_per_sample") else (leaf(3),)
        add(f"transforms_{_transform}_over_{_name}", arguments, lambda wrap, apply=_apply, inner=_inner: lambda x: apply(inner(wrap))(x), steps=2)
        add(f"transforms_{_transform}_over_{_name}_inside", arguments, lambda wrap, apply=_apply, inner=_inner: wrap(lambda x: apply(inner(lambda f: f))(x)), steps=2)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Exponential(torch.autograd.Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


class Straight(torch.autograd.Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Reversed(torch.autograd.Function):
    """With setup_context and a constant."""

    @staticmethod
    def forward(x, scale):
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return -ctx.scale * g, None


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Parts(torch.autograd.Function):
    """As many results as it is told."""

    @staticmethod
    def forward(ctx, x, n):
        ctx.n = n
        return tuple(x * i for i in range(1, n + 1))

    @staticmethod
    def backward(ctx, *gradients):
        return sum(g * i for i, g in enumerate(gradients, 1)), None


add_functions("functions", {
    "square": ((leaf(3),), Square.apply),
    "straight_through": ((leaf(3),), lambda x: Straight.apply(x * 3).sin()),
    "reversed_gradient": ((leaf(3),), lambda x: Reversed.apply(x, 0.5).sin()),
    "in_place": ((leaf(3),), lambda x: Doubled.apply(x.clone()).sin()),
    "in_place_of_a_view": ((leaf(3),), lambda x: Doubled.apply(x.clone()[:]).sin()),
    "as_many_results_as_told": ((leaf(3), lambda step: step % 2 + 2), lambda x, n: sum(Parts.apply(x, n)), 2),
    "in_a_scan": ((leaf(3), leaf(2, 3)), lambda c, xs: diptych.scan(lambda c, x: (Square.apply(c) + x, Square.apply(x)), c, xs)),
    "in_a_scan_without_gradient": ((lambda step: torch.ones(3), leaf(2, 3)), lambda c, xs: diptych.scan(lambda c, x: (Square.apply(c) + x, x), c, xs)),
    "under_vmap": ((leaf(3),), lambda x: vmap(lambda x: x.sin() * 2)(x)),
})  # fmt: skip


@program(leaf(3), order=2)
def functions_square_twice(wrap):
    return wrap(Square.apply)


@program(leaf(3), order=2)
def functions_save_their_output(wrap):
    return wrap(lambda x: Exponential.apply(x * 2) * 3)


def dropout_block(x):
    return torch.nn.functional.dropout(x.sin(), 0.5) * 2


def two_layers():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))


def saves_products(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op == torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE


add_functions("checkpoints", {
    "plain": ((leaf(3),), lambda x: checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False)),
    "dropout": ((leaf(8),), lambda x: checkpoint(dropout_block, x, use_reentrant=False)),
    "selective": ((leaf(3, 3),), lambda x: checkpoint(lambda x: (x @ x).sin().exp() @ x, x, use_reentrant=False, context_fn=functools.partial(create_selective_checkpoint_contexts, saves_products))),
    "selective_by_list": ((leaf(3, 3),), lambda x: checkpoint(lambda x: (x @ x).sin(), x, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts([torch.ops.aten.mm.default]))),
    "nested": ((leaf(3),), lambda x: checkpoint(lambda x: checkpoint(torch.sin, x, use_reentrant=False).exp(), x, use_reentrant=False)),
    "of_ours": ((leaf(3),), lambda x: diptych.checkpoint(lambda x: x.sin().exp())(x)),
    "of_ours_dropout": ((leaf(8),), lambda x: diptych.checkpoint(dropout_block)(x)),
})  # fmt: skip


def by_backward(f, x):
    """A reentrant checkpoint knows no torch.autograd.grad."""
    y = f(x)
    y.sum().backward()
    return y, x.grad.clone()


@program(lambda step: torch.randn(8).requires_grad_())
def checkpoints_reentrant(wrap):
    return functools.partial(by_backward, wrap(lambda x: checkpoint(lambda x: x.sin().exp(), x, use_reentrant=True)))


@program(lambda step: torch.randn(8).requires_grad_())
def checkpoints_reentrant_dropout(wrap):
    return functools.partial(by_backward, wrap(lambda x: checkpoint(dropout_block, x, use_reentrant=True)))


@program(leaf(2, 4))
def checkpoints_sequential(wrap):
    model = two_layers()
    return wrap(lambda x: checkpoint_sequential(model, 2, x, use_reentrant=False))


@program(leaf(8))
def checkpoints_round_a_compiled_function(wrap):
    f = wrap(dropout_block)
    return lambda x: checkpoint(f, x, use_reentrant=False)


@program(leaf(8), captures=2)  # one without gradients
def checkpoints_reentrant_round_a_compiled_function(wrap):
    return functools.partial(by_backward, functools.partial(checkpoint, wrap(dropout_block), use_reentrant=True))


class AsksInItsBackward(torch.autograd.Function):
    """Decides on a value of its gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        return g * 2 if g.sum().item() > 0 else g


class Asks(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return AsksInItsBackward.apply(self.linear(x))


add("fallbacks_backward_asks", (leaf(2, 3),), lambda wrap: wrap(Asks(), eager_fallback=True))
add("fallbacks_refused_forward", (leaf(3, 3),), lambda wrap: wrap(nn.Sequential(nn.Linear(3, 3), Sparse()), eager_fallback=True))


class Sparse(nn.Module):
    def forward(self, x):
        return torch.eye(3).to_sparse() @ x


def with_backward(w, x):
    loss = (w * x).sin().sum()
    loss.backward()
    return loss.detach()


@program(lambda step: torch.randn(3))
def inside_backward(wrap):
    w = torch.ones(3, requires_grad=True)
    f = wrap(with_backward)

    def call(x):
        w.grad = None
        return f(w, x), w.grad

    return call


@program(leaf(3))
def inside_grad(wrap):
    return wrap(lambda x: torch.autograd.grad((x**3).sum(), x, create_graph=True)[0].sin())


@program(leaf(3))
def inside_leaf(wrap):
    f = wrap(lambda x: (w := torch.ones(3, requires_grad=True), (w * x).sum()))

    def call(x):
        w, loss = f(x)
        loss.backward()
        return w.grad

    return call


@program(leaf(3))
def inside_func_grad_with_parameters(wrap):
    model = nn.Linear(3, 1)
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    return wrap(lambda x: grad(lambda p: functional_call(model, p, (x,)).sum())(parameters))


@program(leaf(3))
def results_of_one_another(wrap):
    f = wrap(lambda x: (x.exp(), x.exp().sin()))
    return lambda x: (lambda a, b: (a, b))(*f(x))


@program(leaf(3))
def results_gradient_with_respect_to_another(wrap):
    f = wrap(lambda x: (a := x * 2, a.sin()))

    def call(x):
        a, b = f(x)
        return torch.autograd.grad(b.sum(), a)[0]

    return call


@program(leaf(3), leaf(3))
def results_independent_backwards(wrap):
    f = wrap(lambda x, w: (x.sin(), w.exp()))

    def call(x, w):
        a, b = f(x, w)
        a.sum().backward()
        b.sum().backward()
        return x.grad.clone(), w.grad.clone()

    return call


@program(leaf(3))
def hooks_on_an_intermediate(wrap):
    def hooked(x):
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return y.sin()

    return wrap(hooked)


@program(leaf(3), order=2)
def hooks_second_order(wrap):
    def hooked(x):
        y = x**2
        y.register_hook(lambda g: g * 3)
        return y.sin()

    return wrap(hooked)


@program(leaf(2, 4))
def hooks_of_modules(wrap):
    model = two_layers()
    model[1].register_forward_hook(lambda module, args, result: result * 2)
    model[0].register_full_backward_hook(lambda module, gi, go: (gi[0] * 3,))
    return wrap(model)


@program(lambda step: torch.randn(3))
def transforms_duals(wrap):
    f = wrap(lambda x: x.sin() * 2)

    def call(x):
        with forward_ad.dual_level():
            return tuple(forward_ad.unpack_dual(f(forward_ad.make_dual(x, torch.ones(3)))))

    return call


@program(leaf(2, 3))
def transforms_batched_gradients(wrap):
    f = wrap(lambda x: x.sin().cumsum(0))
    return lambda x: torch.autograd.functional.jacobian(f, x, vectorize=True)


class Doubles(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.sin else out


class DoublesBelow(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.ops.aten.sin.default else out


def entered(mode):
    def make(wrap):
        f = wrap(lambda x: torch.sin(x) + 1)

        def call(x):
            with mode():
                inside = f(x)
            return inside, f(x)

        return call

    return make


add("modes_functions", (leaf(3),), entered(Doubles))
add("modes_dispatch", (leaf(3),), entered(DoublesBelow))
add("modes_autocast", (leaf(3, 3),), lambda wrap: wrap(lambda x: autocast(x)))
add("modes_no_grad", (leaf(3),), lambda wrap: wrap(lambda x: torch.no_grad()(torch.sin)(x) * x))


def autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ x
    return y.float().sin()


add_functions("writes", {
    "carry": ((leaf(3), leaf(2, 3)), lambda c, xs: diptych.scan(lambda c, x: (c.mul_(2).add_(x), x.sin()), c * 1, xs)),
    "slice": ((leaf(3), leaf(2, 3)), lambda c, xs: diptych.scan(lambda c, x: (c + x.mul_(2), x * 1), c * 1, xs * 1)),
    "closure": ((leaf(3), leaf(2, 3)), lambda c, xs: closure_counts(c, xs)),
    "branch": ((signed(3),), lambda x: diptych.cond(x.sum() > 0, lambda y: y.mul_(2) * 1, lambda y: y.sin(), x * 1)),
    "expanded": ((leaf(3),), lambda x: (x * 1).sum().expand(3, 3).clone().fill_(2) * x),
    "floor_division": ((leaf(3),), lambda x: x // 2 + 2 // (x.abs() + 1)),
    "conjugate_view": ((lambda step: torch.randn(3, dtype=torch.complex64),), lambda y: conjugated(y * 1)),
})  # fmt: skip


def closure_counts(c, xs):
    total = torch.zeros(3)

    def step(c, x):
        total.add_(x.detach())
        return c * x, c + total

    return (*diptych.scan(step, c, xs), total)


def conjugated(y):
    y.conj().mul_(2j)
    y.imag.add_(1)
    return y
