"""A whole backward by a compiler of one's own, and captures that say what they leave to autograd's engine."""
import diptych
import pytest
import torch
from diptych import backward_capture
from torch import nn


def problem():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    return model, torch.randn(5, 4, dtype=torch.float64)


class Compiler:
    """Runs graphs by the interpreter, and keeps what it was given."""

    def __init__(self):
        self.graphs, self.runs = [], 0

    def __call__(self, graph):
        self.graphs.append(graph)
        run = diptych.Program(graph)

        def counted(inputs):
            self.runs += 1
            return run(inputs)

        return counted


def gradients(model, x, steps=1, **keywords):
    for _ in range(steps):
        model.zero_grad()
        model(x).square().sum().backward(**keywords)
    return [parameter.grad for parameter in model.parameters()]


def test_a_compiler_gets_the_whole_backward_and_is_found_again():
    model, x = problem()
    expected, compiler = gradients(model, x), Compiler()
    for _ in range(2):  # two captures of one compiler
        with backward_capture.capture(compiler=compiler) as capture:
            torch.testing.assert_close(gradients(model, x, steps=3), expected)
    assert len(compiler.graphs) == 1 and compiler.runs == 6 and capture.stats().hits == 3
    assert any("aten.mm" in str(line) for line in compiler.graphs[0].code().splitlines())
    other = Compiler()
    with backward_capture.capture(compiler=other):
        torch.testing.assert_close(gradients(model, x), expected)
    assert len(other.graphs) == 1 and compiler.runs == 6


def test_a_compiler_between_hooks_and_with_gradients_that_are_recorded():
    model, x = problem()
    seen, compiler = [], Compiler()
    model[2].weight.register_hook(lambda gradient: seen.append(gradient.sum().item()) or gradient * 2)
    expected = gradients(model, x)
    with backward_capture.capture(compiler=compiler):
        torch.testing.assert_close(gradients(model, x), expected)
    assert seen[0] == pytest.approx(seen[1]) and compiler.runs == len(compiler.graphs) >= 1
    x = x.clone().requires_grad_()

    def second():
        (first,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    expected = second()
    with backward_capture.capture(compiler=compiler):
        torch.testing.assert_close(second(), expected)


def test_what_a_compiler_raises_ends_the_backward():
    model, x = problem()

    def raises(graph):
        raise ValueError("cannot compile this")

    with backward_capture.capture(compiler=raises), pytest.raises(ValueError, match="cannot compile this"):
        gradients(model, x)
    with backward_capture.capture(compiler=lambda graph: lambda inputs: []), pytest.raises(diptych.UserError, match="compiler"):
        gradients(model, x)
    gradients(model, x)


def test_enabled_for_all_threads():
    model, x = problem()
    expected, compiler = gradients(model, x), Compiler()
    backward_capture.enable(compiler=compiler, strict=True)
    try:
        torch.testing.assert_close(gradients(model, x), expected)
        with pytest.raises(diptych.UserError, match="anomaly mode"), torch.autograd.set_detect_anomaly(True, check_nan=False):
            gradients(model, x)
    finally:
        backward_capture.disable()
    assert compiler.runs == 1


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_strict_captures_raise_where_the_engine_would_run():
    model, x = problem()
    y = model(x)
    with backward_capture.capture(strict=True) as capture:
        torch.testing.assert_close(gradients(model, x), gradients(model, x))
        with pytest.raises(diptych.UserError, match=r"\[backward\] autograd's engine would run this backward itself: batched gradients"):
            torch.autograd.grad(y, list(model.parameters()), torch.eye(5, dtype=torch.float64)[..., None], is_grads_batched=True, retain_graph=True)
        assert capture.stats().eager == 0
    with backward_capture.capture() as capture:
        torch.autograd.grad(y, list(model.parameters()), torch.eye(5, dtype=torch.float64)[..., None], is_grads_batched=True, retain_graph=True)
    assert capture.stats().eager == 1
    for wrong in ({"backend": "native", "compiler": Compiler()}, {"compiler": "native"}, {"backend": "nonsense"}):
        with pytest.raises(diptych.UserError):
            backward_capture.capture(**wrong)
