"""Backends of captured passes in one process, and orders of differentiation beside eager."""
import diptych
import pytest
import torch

from passes import beside_eager, same

backward_capture = diptych.backward_capture


def gradient():
    x = torch.arange(1.0, 4.0, requires_grad=True)
    (x.exp() * x).sum().backward()
    return x.grad


def test_each_backend_has_graphs_of_its_own():
    expected = gradient()
    with backward_capture.capture() as outer:
        same(gradient(), expected)
        with backward_capture.capture("xla") as inner:
            same(gradient(), expected)
            same(gradient(), expected)
        same(gradient(), expected)
    assert (inner.stats().captures, inner.stats().hits) == (1, 1)
    assert (outer.stats().captures, outer.stats().hits) == (2, 2)
    assert outer.stats().misses_by_reason["other backend"] == 1


def test_enabled_with_a_backend_until_it_is_disabled():
    expected = gradient()
    backward_capture.enable(backend="xla")
    try:
        same(gradient(), expected)
        with backward_capture.capture() as captured:
            same(gradient(), expected)
        assert captured.stats().misses == [f"backend xla changed to {diptych.default_backend()}"]
        backward_capture.enable()
        same(gradient(), expected)
    finally:
        backward_capture.disable()
    assert (backward_capture.statistics().captures, backward_capture.statistics().hits) == (2, 1)


def test_unknown_backends_are_refused():
    for call in (backward_capture.capture, backward_capture.enable):
        with pytest.raises(diptych.UserError, match=r"\[backend\] got 'cuda', expected one of: interpreter, xla, native"):
            call(backend="cuda")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(2, 3, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(3)
        self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.last = torch.nn.Linear(16, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.convolution(x))).flatten(2)
        return self.last(torch.nn.functional.dropout(self.attention(x, x, x, need_weights=False)[0], 0.3))


def test_a_model_accumulates_over_two_passes():
    def look():
        torch.manual_seed(5)
        model = Model().double()
        x = torch.randn(2, 2, 4, 4, dtype=torch.float64)
        for _ in range(2):
            model(x).log_softmax(-1)[..., 0].mean().backward()
        return [parameter.grad for parameter in model.parameters()]

    assert beside_eager(look).eager == 0


def test_second_order_of_a_model():
    def look():
        torch.manual_seed(5)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
        x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        slope.square().sum().backward()
        return [x.grad, *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]

    assert beside_eager(look).eager == 0


def test_a_compiled_function_and_eager_code():
    for inner in diptych.backend_names():
        compiled = diptych.aot_function(lambda w, x: torch.tanh(x @ w), backend=inner)

        def look(compiled=compiled):
            torch.manual_seed(5)
            w, x = torch.randn(3, 3, requires_grad=True), torch.randn(4, 3)
            compiled(w, compiled(w, x).exp()).sum().backward()
            return w.grad

        beside_eager(look)


def test_sizes_that_change():
    def look():
        torch.manual_seed(5)
        w = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
        for size in (4, 6, 5, 9, 1, 0):
            (torch.ones(size, 3, dtype=torch.float64) @ w).exp().sum().backward()
        return w.grad

    beside_eager(look)


def test_a_gradient_of_some_results_is_a_view_of_another():
    def look():
        x = torch.arange(6.0).view(2, 3).requires_grad_()
        y, z = x.t(), x.view(6)
        found = torch.autograd.grad((y.sin() * z.view(2, 3).t()).sum(), (x, y, z))
        return [gradient.clone() for gradient in found]

    beside_eager(look)
