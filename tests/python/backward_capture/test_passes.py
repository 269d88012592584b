"""Whole backwards that Python shapes: nested, batched, of subclasses, with hooks and modes; beside eager."""
import warnings

import pytest
import torch
from torch import autograd

from passes import beside_eager


def nested(depth):
    """The gradient of a Function whose backward calls backward, so many levels deep."""

    class Nested(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach().clone()

        @staticmethod
        def backward(ctx, gradient):
            if ctx.x > 0:
                with torch.enable_grad():
                    Nested.apply(ctx.x).sum().backward()
            return gradient

    x = torch.tensor(float(depth), requires_grad=True)
    Nested.apply(x).sum().backward()
    return x.grad


@pytest.mark.parametrize("depth", [5, 20, 100, 500])
def test_backwards_inside_backwards(depth):
    stats = beside_eager(lambda: nested(depth), passes=2)
    assert stats.hits > 0
    assert (stats.eager_by_reason.get("backward runs are nested too deeply", 0) > 0) == (depth > 8)


def changed_view(x):
    y = x.clone()
    y[0].mul_(3)
    return y * x


def test_batched_gradients():
    def rows():
        x = torch.tensor([2.0, 3.0], requires_grad=True)
        (found,) = autograd.grad(changed_view(x), x, torch.eye(2), is_grads_batched=True)
        return found

    def together():
        x = torch.tensor([2.0, 3.0, 5.0])
        jacobian = autograd.functional.jacobian(changed_view, x, vectorize=True)
        hessian = autograd.functional.hessian(lambda t: changed_view(t).prod(), x, vectorize=True)
        return jacobian, hessian

    for look in (rows, together):
        stats = beside_eager(look)
        assert stats.eager_by_reason["batched gradients"] >= 3


def test_transforms_of_functions_and_modes_see_eagers_operators():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.names.append(str(function))
            return function(*args, **(kwargs or {}))

    def seen():
        x = torch.ones(3, requires_grad=True)
        loss = changed_view(x).exp().sum()
        with Names() as mode:
            loss.backward()
        return mode.names

    assert beside_eager(seen).eager_by_reason == {"a dispatch mode": 3}
    x = torch.tensor([2.0, 3.0, 5.0])
    for transform in (torch.func.grad, torch.func.hessian):
        beside_eager(lambda transform=transform: transform(lambda t: changed_view(t).prod())(x))

    def forward_over_reverse():
        with autograd.forward_ad.dual_level():
            y = autograd.forward_ad.make_dual(x.clone().requires_grad_(), torch.ones(3))
            (found,) = autograd.grad(changed_view(y).prod(), y)
            return autograd.forward_ad.unpack_dual(found)

    beside_eager(lambda: tuple(forward_over_reverse()))


@pytest.mark.parametrize("order", ["sparse first", "dense first", "both sparse", "through a product"])
def test_sparse_gradients_beside_dense_ones(order):
    def look():
        torch.manual_seed(3)
        weight = torch.randn(5, 2, requires_grad=True)
        rows = torch.tensor([1, 3, 1])
        used = weight * 2 if order == "through a product" else weight

        def sparse():
            return torch.nn.functional.embedding(rows, used, sparse=True).square().sum()

        dense = sparse if order == "both sparse" else lambda: (used * 3).sum()
        first, second = (dense, sparse) if order == "dense first" else (sparse, dense)
        (first() + second()).backward()
        return weight.grad

    beside_eager(look)


def test_nested_tensors_and_subclasses_run_in_eager():
    from torch.testing._internal.two_tensor import TwoTensor

    def ragged():
        x, y = torch.ones(2, 3, requires_grad=True), torch.ones(4, 3, requires_grad=True)
        rows = torch.nested.as_nested_tensor([x, y])
        torch.nested.to_padded_tensor(rows * 2, 0.0).square().sum().backward()
        return x.grad, y.grad

    def jagged():
        x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged, requires_grad=True)
        (x * 2).values().square().sum().backward()
        return x.grad.values()

    def two():
        x = TwoTensor(torch.ones(3), torch.full((3,), 2.0)).requires_grad_()
        (x * x).sum().backward()
        return x.grad.a, x.grad.b

    for look, reason in ((ragged, "a nested tensor"), (jagged, "a nested tensor"), (two, "a tensor subclass")):
        assert beside_eager(look).eager_by_reason == {reason: 3}


def test_lazily_conjugated_tensors():
    def look():
        x = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
        y = torch.tensor([2 - 1j, 1 + 1j]).conj()
        torch.view_as_real((x * y).resolve_conj()).square().sum().backward()
        return x.grad.resolve_conj()

    beside_eager(look)


def test_hooks_of_saved_tensors():
    calls = []

    def pack(tensor):
        calls.append("pack")
        return tensor.detach() * 2

    def unpack(tensor):
        calls.append("unpack")
        return tensor / 2

    def by_context():
        calls.clear()
        x = torch.arange(1.0, 4.0, requires_grad=True)
        with autograd.graph.saved_tensors_hooks(pack, unpack):
            y = x.exp() * x
        y.sum().backward()
        return x.grad, list(calls)

    def by_node():
        calls.clear()
        x = torch.arange(1.0, 4.0, requires_grad=True)
        y = (x * 2).sin().square()
        y.grad_fn._raw_saved_self.register_hooks(pack, unpack)
        y.sum().backward()
        return x.grad, list(calls)

    for look in (by_context, by_node):
        assert beside_eager(look).hits == 2


def test_anomaly_mode_says_where_the_forward_was():
    class Failing(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise RuntimeError("on purpose")

    def look():
        x = torch.ones(2, requires_grad=True)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with autograd.detect_anomaly():
                loss = Failing.apply(x).sum()
                with pytest.raises(RuntimeError, match="on purpose"):
                    loss.backward()
        return ["Traceback of forward call" in str(one.message) and "FailingBackward" in str(one.message) for one in seen]

    assert beside_eager(look).eager_by_reason == {"anomaly mode": 3}


def test_warnings_of_nodes_come_each_time():
    def look():
        x = torch.ones(2, requires_grad=True)
        y = x * torch.tensor([1 + 1j, 2 - 1j])
        loss = y.real.sum() + y.imag.sum()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            loss.backward()
        return x.grad, sorted({str(one.message).split("(")[0] for one in seen})

    class Warning_(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            warnings.warn("from a backward", stacklevel=1)
            return gradient * 2

    def of_a_function():
        x = torch.ones(2, requires_grad=True)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            Warning_.apply(x).sum().backward()
        return x.grad, [str(one.message) for one in seen]

    beside_eager(look)
    beside_eager(of_a_function)
