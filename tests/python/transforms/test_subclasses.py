"""Tensors of classes of one's own, what is refused under transforms, and what a function did before it met one."""
import collections

import diptych
import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from loops import T, W, X, cell, close, plain_loop


class Named(torch.Tensor):
    """Only __torch_function__, which counts."""

    calls = collections.Counter()

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls[getattr(func, "__name__", str(func))] += 1
        return super().__torch_function__(func, types, args, kwargs)


class Doubled(torch.Tensor):
    """__torch_dispatch__: holds a tensor, and doubles what sin gives."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        unwrapped = torch.utils._pytree.tree_map(lambda t: t.inner if isinstance(t, Doubled) else t, (args, kwargs or {}))
        result = func(*unwrapped[0], **unwrapped[1])
        if func is torch.ops.aten.sin.default:
            result = result * 2
        return torch.utils._pytree.tree_map(lambda t: Doubled(t) if isinstance(t, torch.Tensor) else t, result)


def test_subclasses_with_torch_function_alone():
    f = diptych.aot_function(lambda x: x.sin() + 1)
    f(X)
    for _ in range(2):
        Named.calls.clear()
        y = f(X.as_subclass(Named))
        assert type(y) is Named and Named.calls["sin"] == 1
        close(y.as_subclass(torch.Tensor), X.sin() + 1)
    assert type(f(X)) is torch.Tensor
    assert f.stats().originals == 2 and "'x' is a test_subclasses.Named" in f.stats().original_reasons


def test_subclasses_with_torch_function_in_operators():
    x = X.as_subclass(Named)
    carry, ys = diptych.scan(cell, x[0], x)
    assert type(carry) is Named and type(ys) is Named
    close([carry.as_subclass(torch.Tensor), ys.as_subclass(torch.Tensor)], list(plain_loop(cell, X[0], X)))
    assert type(diptych.map(torch.sin, x)) is Named
    assert type(diptych.cond(X.sum() > 0, torch.sin, torch.cos, x)) is Named
    assert type(diptych.while_loop(lambda c: c.sum() < 40, lambda c: c * 2, x)) is Named
    assert type(diptych.checkpoint(torch.sin)(x)) is Named


def test_subclasses_with_their_own_dispatch():
    f = diptych.aot_function(lambda x: x.sin() + 1)
    f(X)
    for _ in range(2):
        y = f(Doubled(X))
        assert type(y) is Doubled
        close(y.inner, 2 * X.sin() + 1)
    held = Doubled(X)
    by_closure = diptych.aot_function(lambda x: held.sin() * x)
    for _ in range(2):
        close(by_closure(torch.ones_like(X)).inner, 2 * X.sin())
    layer = nn.Module()
    layer.weight = nn.Parameter(Doubled(X), requires_grad=False)
    layer.forward = lambda x: layer.weight.sin() * x
    close(diptych.aot_module(layer)(torch.ones_like(X)).inner, 2 * X.sin())


def test_a_subclass_that_the_function_makes():
    f = diptych.aot_function(lambda x: (x * 2).as_subclass(Named))
    for _ in range(2):
        assert type(f(X)) is Named


def test_torchs_own_subclasses():
    f = diptych.aot_function(lambda x: x.sin() @ x.t())
    f(X)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = f(mode.from_tensor(X))
    assert type(fake) is torch._subclasses.FakeTensor and fake.shape == (3, 3)
    functional = torch._to_functional_tensor(X)
    y = f(functional)
    assert torch._is_functional_tensor(y)
    close(torch._from_functional_tensor(y), X.sin() @ X.t())
    close(f(X), X.sin() @ X.t())


class Nothing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_bare_captures_refuse_what_no_graph_stands_for():
    with forward_ad.dual_level():
        with pytest.raises(diptych.UserError, match="'x' has a forward-mode tangent, expected plain tensors"):
            diptych.capture(lambda x: x * 2, forward_ad.make_dual(X, T))
        dual = forward_ad.make_dual(X, T)
        with pytest.raises(diptych.UserError, match="'free.0' has a forward-mode tangent, which a graph can't represent"):
            diptych.capture(lambda x: x * dual, X)
        pair = diptych.capture(lambda x: x * 2, X)
        with pytest.raises(diptych.UserError, match="tensor 0 has a forward-mode tangent, expected a plain one"):
            diptych.call_pair(pair, [dual])
    with pytest.raises(diptych.UserError, match="a TorchDispatchMode is active, expected plain tensors and no mode"), Nothing():
        diptych.capture(lambda x: x * 2, X)
    with pytest.raises(diptych.UserError, match="'x' is a test_subclasses.Named"):
        diptych.capture(lambda x: x * 2, X.as_subclass(Named))


def test_a_gradient_asked_for_with_a_dual():
    x = X.clone().requires_grad_()
    y = diptych.scan(cell, x[0], x)[1]
    with forward_ad.dual_level():
        (gradient,) = torch.autograd.grad(y, x, forward_ad.make_dual(torch.ones_like(y), W), retain_graph=True)
        close(forward_ad.unpack_dual(gradient).tangent, torch.autograd.grad(y, x, W)[0])


def test_a_dual_tangent_of_a_compiled_function():
    def look(f):
        x = X.clone().requires_grad_()
        y = f(x)
        with forward_ad.dual_level():
            (gradient,) = torch.autograd.grad(y, x, forward_ad.make_dual(W, T))
            gradient = forward_ad.unpack_dual(gradient)
            return [gradient.primal, gradient.tangent]

    compiled = diptych.aot_function(lambda x: x.sin())
    close(look(compiled), look(torch.sin))


def test_calls_run_by_the_function_are_listed():
    before = diptych.eager_calls()
    with torch.autograd.graph.save_on_cpu():
        diptych.map(torch.sin, X)
    added = {why: count - before.get(why, 0) for why, count in diptych.eager_calls().items() if count != before.get(why, 0)}
    assert added == {"[scan] hooks on saved tensors are active around the call": 1}


def test_loops_in_eager_check_what_captured_ones_check():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X.clone(), T)
        with pytest.raises(diptych.UserError, match="a carry must keep its sizes"):
            diptych.scan(lambda c, x: (c[:1], x), x[0], x)
        changed = x[0].clone()
        carry, _ = diptych.scan(lambda c, x: (c.mul_(2), x), changed, x)
        for result in (carry, changed):
            close(result, 8 * x[0])
            close(forward_ad.unpack_dual(result).tangent, 8 * T[0])
        with pytest.raises(diptych.UserError, match="expected one element;"):
            diptych.while_loop(lambda c: c, lambda c: c, x)
        carry, ys = diptych.scan(cell, x[0], x[:0])
        assert ys.shape == (0, 4) and carry is not x
        close(forward_ad.unpack_dual(carry).tangent, T[0])


def test_scan_of_layers_under_transforms():
    layers = [nn.Linear(4, 4).double() for _ in range(3)]

    def ours(x):
        return diptych.scan_layers(layers, x).sum()

    def theirs(x):
        return layers[2](layers[1](layers[0](x))).sum()

    close(torch.func.grad(ours)(X), torch.func.grad(theirs)(X))
    close(torch.func.vmap(ours)(X), torch.func.vmap(theirs)(X))
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, T)
        close(forward_ad.unpack_dual(ours(x)).tangent, forward_ad.unpack_dual(theirs(x)).tangent)


def test_what_a_function_wrote_before_a_dual_was_met():
    held, calls = [X.clone()], []

    def f(x):
        calls.append(len(calls))
        return x * held[0] * (2.0 if len(calls) % 2 else 1.0)

    compiled = diptych.aot_function(f)
    with forward_ad.dual_level():
        held[0] = forward_ad.make_dual(X.clone(), torch.ones_like(X))
        expected = forward_ad.unpack_dual(f(X))
        calls.clear()
        torch.testing.assert_close(tuple(forward_ad.unpack_dual(compiled(X))), tuple(expected))
        assert calls == [0]


def test_an_iterator_that_was_advanced_before_a_dual_was_met():
    held, scales = [X.clone()], iter([2.0, 3.0, 4.0])
    compiled = diptych.aot_function(lambda x: x * next(scales) * held[0])
    with forward_ad.dual_level():
        held[0] = forward_ad.make_dual(X.clone(), torch.ones_like(X))
        with pytest.raises(diptych.UserError, match="takes from"):
            compiled(X)
