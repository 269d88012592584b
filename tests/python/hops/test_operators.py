"""Higher-order operators on Python functions against loops written out."""
import diptych
import pytest
import torch
from torch import nn

from beside_eager import loop
from operators import check, randn


def test_scan():
    w = randn(3, 3)

    def step(w):
        def f(carry, x):
            carry = torch.tanh(carry @ w + x)
            return carry, carry * 2

        return f

    def ours(init, xs, w):
        carry, ys = diptych.scan(step(w), init, xs)
        return ys.sum() + carry.prod() + ys

    def expected(init, xs, w):
        carry, ys = loop(step(w), init, xs)
        return ys.sum() + carry.prod() + ys

    check(ours, expected, randn(3), randn(5, 3), w)


def test_scan_of_trees():
    def f(carry, x):
        return {"h": carry["h"] * x["a"] + x["b"]}, (carry["h"], [x["a"]])

    carry, (hs, [xs]) = diptych.scan(f, {"h": torch.zeros(2)}, {"a": torch.ones(4, 2), "b": torch.ones(4, 2)})
    torch.testing.assert_close(carry["h"], torch.full((2,), 4.0))
    torch.testing.assert_close(hs[:, 0], torch.arange(4.0))
    assert xs.shape == (4, 2)


def test_scan_with_a_module_and_buffers():
    torch.manual_seed(0)
    cell = nn.GRUCell(3, 3)
    xs = torch.randn(6, 2, 3)
    _, ys = diptych.scan(lambda h, x: (cell(x, h),) * 2, torch.zeros(2, 3), xs)
    ys.sum().backward()
    ours = [p.grad.clone() for p in cell.parameters()]
    cell.zero_grad()
    loop(lambda h, x: (cell(x, h),) * 2, torch.zeros(2, 3), xs)[1].sum().backward()
    torch.testing.assert_close(ours, [p.grad for p in cell.parameters()])


def test_a_carry_that_changes_is_named():
    with pytest.raises(diptych.UserError, match="carry"):
        diptych.scan(lambda c, x: (torch.cat([c, c]), x), torch.zeros(2), torch.zeros(3, 2))
    with pytest.raises(diptych.UserError, match="expected a tuple of two"):
        diptych.scan(lambda c, x: c, torch.zeros(2), torch.zeros(3, 2))


def test_cond():
    def ours(x, y):
        return diptych.cond(x.sum() > 0, lambda x, y: x * y.sin(), lambda x, y: x + y.square(), x, y)

    def expected(x, y):
        return x * y.sin() if x.sum() > 0 else x + y.square()

    x = randn(3).abs()
    check(ours, expected, x, randn(3))
    check(ours, expected, -x, randn(3))


def test_while_loop():
    def ours(x):
        return diptych.while_loop(lambda c: c["x"].abs().sum() < 10, lambda c: {"x": c["x"] * 1.5}, {"x": x})["x"]

    def expected(x):
        while x.abs().sum() < 10:
            x = x * 1.5
        return x

    check(ours, expected, randn(3))


def test_map_and_associative_scan():
    check(lambda x: diptych.map(lambda row: row.sin().cumsum(0), x), lambda x: torch.stack([r.sin().cumsum(0) for r in x]),
          randn(4, 3))
    check(lambda x: diptych.associative_scan(lambda a, b: a * b, x, dim=1), lambda x: x.cumprod(1), randn(2, 5))


def test_scan_layers():
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)]
    x = torch.randn(2, 4)
    diptych.scan_layers(layers, x).sum().backward()
    ours = [p.grad.clone() for layer in layers for p in layer.parameters()]
    for layer in layers:
        layer.zero_grad()
    y = x
    for layer in layers:
        y = layer(y)
    y.sum().backward()
    torch.testing.assert_close(ours, [p.grad for layer in layers for p in layer.parameters()])


def test_checkpoint():
    def block(x, w):
        return torch.tanh(x @ w).sin() @ w

    check(diptych.checkpoint(block), block, randn(3, 3), randn(3, 3))
    pair = diptych.capture(diptych.checkpoint(block, diptych.save_nothing()), randn(3, 3), randn(3, 3).requires_grad_())
    assert {node.name for node in pair.backward.nodes} >= {"aten.tanh", "aten.sin"}


def test_cond_by_a_bool_calls_one_function():
    x, called = randn(3).requires_grad_(), []
    for function in (lambda x, flag: diptych.cond(flag, lambda x: (called.append(1), x.sin())[1], lambda x: x.cos(), x),):
        for call in (function, diptych.aot_function(function)):
            torch.testing.assert_close(call(x, True), x.sin())
            torch.testing.assert_close(call(x, False), x.cos())
    assert len(called) == 2
    for predicate in (1, 0.5, None, "yes"):
        with pytest.raises(diptych.UserError, match=r"\[cond\] the predicate is a .*, expected a tensor of one element of dtype bool, or a bool"):
            diptych.cond(predicate, torch.sin, torch.cos, x)


def test_custom_vjp():
    def fwd(x, scale):
        return (x * scale).sin(), ((x * scale).cos(), scale)

    def bwd(residuals, tangent):
        cosine, scale = residuals
        return 10 * tangent * cosine * scale, None

    f = diptych.custom_vjp(lambda x, scale: (x * scale).sin(), fwd, bwd)
    x, scale = randn(3).requires_grad_(), randn(3).requires_grad_()
    for function in (f, diptych.aot_function(f)):
        x.grad = scale.grad = None
        function(x, scale).sum().backward()
        torch.testing.assert_close(x.grad, (10 * (x * scale).cos() * scale).detach())
        assert scale.grad is None or not scale.grad.any()


def test_backward_capture():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.randn(5, 3)
    model(x).sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    diptych.backward_capture.reset()
    for _ in range(2):
        model.zero_grad()
        with diptych.backward_capture.capture():
            model(x).sum().backward()
        torch.testing.assert_close([p.grad for p in model.parameters()], expected)
    statistics = diptych.backward_capture.statistics()
    assert (statistics.captures, statistics.hits, statistics.eager) == (1, 1, 0)
    assert "tanh" in diptych.backward_capture.last_graph().code()
