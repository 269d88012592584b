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


def test_a_class_that_counts_runs_the_function_itself():
    f = diptych.aot_function(lambda x: x.sin() + 1)
    f(X)
    for _ in range(2):
        Named.calls.clear()
        y = f(X.as_subclass(Named))
        assert type(y) is Named and Named.calls["sin"] == 1
        close(y.as_subclass(torch.Tensor), X.sin() + 1)
    assert type(f(X)) is torch.Tensor
    assert f.stats().originals == 2 and "calls" in f.stats().last_original


class Tagged(torch.Tensor):
    """No more than a class."""


class Scaling(torch.Tensor):
    """Scales what sin gives."""

    scale = 2.0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs)
        return result * cls.scale if func in (torch.sin, torch.Tensor.sin) else result


class Unit(torch.Tensor):
    """Has an attribute that decides."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = torch.utils._pytree.tree_map(lambda t: t.as_subclass(torch.Tensor) if isinstance(t, Unit) else t, (args, kwargs or {}))
        factor = next((t.factor for t in args if isinstance(t, Unit)), 1.0)
        return func(*plain[0], **plain[1]) * factor


class OfParameter(nn.Parameter):
    pass


def made(kind, x=X, **attributes):
    tensor = x.clone().as_subclass(kind)
    vars(tensor).update(attributes)
    return tensor


CARRIERS = {
    "class alone": (lambda x: x.sin() + 1, lambda: (made(Tagged),)),
    "acts": (lambda x: torch.sin(x) + 1, lambda: (made(Scaling),)),
    "with a plain one": (lambda x, y: x.sin() * y, lambda: (made(Scaling), X)),
    "attribute": (lambda x: x.cos(), lambda: (made(Unit, factor=3.0),)),
    "in containers": (lambda d: {"a": d["x"][0] * 2, "b": [d["x"][1].sin()]}, lambda: ({"x": [made(Tagged), made(Scaling)]},)),
    "returned": (lambda x: (x, x.view(-1), x * 1), lambda: (made(Tagged),)),
    "taken off": (lambda x: x.sin().as_subclass(torch.Tensor) * 2, lambda: (made(Scaling),)),
    "put on": (lambda x: x.as_subclass(Scaling).sin(), lambda: (X,)),
    "changed in place": (lambda x: x.mul_(2).sum(), lambda: (made(Tagged),)),
    "asks": (lambda x: x * 2 if x.sum() > 0 else x * 3, lambda: (made(Tagged),)),
    "asks for a number": (lambda x: x / x.sum().item(), lambda: (made(Tagged),)),
    "isinstance": (lambda x: x.sin() if isinstance(x, Tagged) else x.cos(), lambda: (made(Tagged),)),
}


def look(result, arguments):
    leaves = torch.utils._pytree.tree_leaves((result, arguments))
    return [(type(leaf), leaf.as_subclass(torch.Tensor)) for leaf in leaves]


@pytest.mark.parametrize("name", CARRIERS)
def test_classes_that_wrap_calls_are_traced_with(name):
    function, make = CARRIERS[name]
    compiled = diptych.aot_function(function)
    for _ in range(3):
        seen = []
        for call in (function, compiled):
            arguments = make()
            seen.append(look(call(*arguments), arguments))
        assert [kind for kind, _ in seen[0]] == [kind for kind, _ in seen[1]]
        close([tensor for _, tensor in seen[0]], [tensor for _, tensor in seen[1]])
    assert compiled.stats().originals == 0 and compiled.stats().hits == 2


def test_the_class_of_an_argument_is_guarded(monkeypatch):
    compiled = diptych.aot_function(lambda x: x.sin())
    for kind in (torch.Tensor, Tagged, Scaling, torch.Tensor, Tagged, Scaling):
        x = made(kind)
        result = compiled(x)
        assert type(result) is kind
        close(result.as_subclass(torch.Tensor), x.sin().as_subclass(torch.Tensor))
    assert compiled.stats().entries == 3 and compiled.stats().hits == 3
    monkeypatch.setattr(Scaling, "scale", 5.0)
    close(compiled(made(Scaling)).as_subclass(torch.Tensor), X.sin() * 5)
    monkeypatch.setattr(Scaling, "__torch_function__", classmethod(lambda cls, func, types, args=(), kwargs=None: X * 7))
    close(compiled(made(Scaling)), X * 7)


def test_an_attribute_of_a_carrier_is_guarded():
    compiled = diptych.aot_function(lambda x: x.cos())
    for factor in (2.0, 3.0, 2.0):
        close(compiled(made(Unit, factor=factor)), X.cos() * factor)
    assert compiled.stats().entries == 2 and compiled.stats().originals == 0


@pytest.mark.parametrize("kind", [Tagged, Scaling, OfParameter])
def test_parameters_and_closures_of_such_classes(kind):
    layer = nn.Linear(4, 3).double()
    layer.weight = nn.Parameter(layer.weight.detach().as_subclass(kind)) if kind is not OfParameter else OfParameter(layer.weight.detach())
    compiled = diptych.aot_module(layer, eager_fallback=False)
    held = made(kind) if kind is not OfParameter else OfParameter(X.clone())
    by_closure = diptych.aot_function(lambda x: held.sin() * x)
    for call, eager in ((compiled, layer), (by_closure, lambda x: held.sin() * x)):
        for _ in range(2):
            got, expected = call(X), eager(X)
            assert type(got) is type(expected)
            close(got.as_subclass(torch.Tensor), expected.as_subclass(torch.Tensor))
        assert call.stats().originals == 0 and call.stats().hits == 1
    compiled(X).sum().backward()
    got, layer.weight.grad = layer.weight.grad.clone(), None
    layer(X).sum().backward()
    close(got.as_subclass(torch.Tensor), layer.weight.grad.as_subclass(torch.Tensor))


def test_gradients_of_carriers():
    seen = []
    for call in (f := lambda x, w: (torch.sin(x) * w).exp(), diptych.aot_function(f)):
        x, w = made(Scaling).requires_grad_(), X.clone().requires_grad_()
        call(x, w).sum().backward()
        seen.append([x.grad.as_subclass(torch.Tensor), w.grad.as_subclass(torch.Tensor)])
    close(*seen)


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
