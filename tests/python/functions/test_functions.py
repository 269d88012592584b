"""Compiled functions beside eager: values, gradients, structure, guards."""
import dataclasses
import inspect
from typing import NamedTuple

import diptych
import pytest
import torch
from torch import nn

from compiled_beside_eager import agree, leaf


class Point(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@dataclasses.dataclass
class Config:
    scale: float
    weight: torch.Tensor


def test_a_function_of_two_tensors():
    agree(lambda x, y: (x * y).sin().sum(1), leaf(3, 4), leaf(4))


def test_results_keep_their_structure():
    agree(lambda x: {"b": (x, [x.exp()]), "a": Point(x.sin(), x.cos()), "n": 3, "s": "text", "none": None}, leaf(3))


def test_arguments_of_every_kind():
    def f(pair, options, point, config, scale):
        return pair[0] * options["w"] + point.x * point.y * config.scale + config.weight * scale

    agree(
        f,
        lambda: [torch.randn(3, requires_grad=True), 2],
        lambda: {"w": torch.randn(3, requires_grad=True), "a": "unused"},
        lambda: Point(torch.randn(3), torch.randn(3, requires_grad=True)),
        lambda: Config(2.5, torch.randn(3)),
        lambda: 1.5,
    )


def test_keywords_are_named_as_parameters():
    def f(x, *rest, scale=1.0, **more):
        return x * scale + sum(rest) + more["bias"]

    x, y, bias = torch.randn(2), torch.randn(2), torch.randn(2)
    pair = diptych.capture(f, x, y, bias=bias, scale=2.0)
    assert [info.path for info in pair.signature.forward_inputs] == ["x", "args.0", "bias"]
    torch.testing.assert_close(diptych.aot_function(f)(x, y, bias=bias, scale=2.0), f(x, y, bias=bias, scale=2.0))


def test_dict_arguments_are_sorted():
    x, y = torch.randn(2), torch.randn(2)
    for arguments in ({"b": x, "a": y}, {"a": y, "b": x}):
        pair = diptych.capture(lambda d: d["a"] - d["b"], arguments)
        assert [info.path for info in pair.signature.forward_inputs] == ["d.a", "d.b"]


def test_closures_are_guarded():
    scale, weight, steps = 2.0, torch.randn(3), [1.0]

    def f(x):
        return x * scale + weight * steps[0]

    compiled = diptych.aot_function(f)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), f(x))
    scale = 3.0
    torch.testing.assert_close(compiled(x), f(x))
    weight = torch.randn(3)
    torch.testing.assert_close(compiled(x), f(x))
    steps[0] = 5.0
    torch.testing.assert_close(compiled(x), f(x))
    assert compiled.stats().misses == 4
    torch.testing.assert_close(compiled(x), f(x))
    assert compiled.stats().hits == 1


def test_modules_of_objects_are_guarded():
    class Trainer:
        def __init__(self):
            self.model = nn.Linear(2, 2)
            self.model.owner = (self.model, self)  # objects that hold each other
            self.scale = torch.ones(2)

        def loss(self, x):
            return (self.model(x) * self.scale).sum()

    trainer = Trainer()
    compiled = diptych.aot_function(trainer.loss)
    x = torch.ones(2)
    for change in (lambda: None, lambda: setattr(trainer, "model", nn.Linear(2, 2)), lambda: setattr(trainer, "scale", torch.zeros(2))):
        change()
        torch.testing.assert_close(compiled(x), trainer.loss(x))
    kinds = [slot.kind for slot in diptych.capture(trainer.loss, x).signature.forward_inputs]
    assert kinds == ["argument", "free_variable", "free_variable", "free_variable"]


def test_free_variables_stand_behind_the_arguments():
    a, b = torch.randn(3, requires_grad=True), torch.randn(3)
    pair = diptych.capture(lambda x: x * b + a, torch.randn(3))
    assert pair.signature.num_arguments == 1
    assert len(pair.free_variables) == 2
    assert pair.free_variables[0] is b and pair.free_variables[1] is a


def test_a_pair_is_run_by_hand():
    x, w = torch.randn(4, 3), torch.randn(3, 2, requires_grad=True)
    pair = diptych.capture(lambda x, w: torch.tanh(x @ w), x, w)
    outputs, residuals = pair.forward_call([x, w])
    tangent = torch.randn(4, 2)
    gradients = pair.backward_call(residuals, [tangent])
    y = torch.tanh(x @ w)
    torch.testing.assert_close(outputs[0], y.detach())
    torch.testing.assert_close(gradients[1], torch.autograd.grad(y, w, tangent)[0])
    assert gradients[0] is None


def test_autograd_functions():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3 * ctx.saved_tensors[0] ** 2

    agree(lambda x: Cube.apply(x) + x, leaf(3))


def test_dropout_draws_as_in_eager():
    agree(lambda x: nn.functional.dropout(x, 0.5), leaf(100))


def test_mutation_and_views():
    def f(x, buffer):
        buffer.add_(x.detach().sum())
        return x.view(6).t(), buffer

    x, buffer = torch.randn(2, 3, requires_grad=True), torch.zeros(3)
    result, same = diptych.aot_function(f)(x, buffer)
    assert same is buffer
    torch.testing.assert_close(buffer, x.detach().sum().expand(3))
    assert result._is_view() and result._base is x


def test_value_and_grad():
    params = {"w": torch.randn(3), "b": torch.randn(())}
    value, gradients = diptych.value_and_grad(lambda p, x: (p["w"] @ x + p["b"]).square())(params, torch.ones(3))
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in params.items()}
    expected = (leaves["w"] @ torch.ones(3) + leaves["b"]).square()
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    for name in params:
        torch.testing.assert_close(gradients[name], leaves[name].grad)


def test_gradients_take_the_first_argument_by_its_name():
    def loss(params, x, first=1.0):
        return (params * x).square().sum() * first

    params, x = torch.randn(3), torch.randn(3)
    both, alone = diptych.value_and_grad(loss), diptych.grad(loss)
    value, gradient = both(params, x)
    for arguments, keywords in [((params,), {"x": x}), ((), {"params": params, "x": x}), ((), {"x": x, "first": 1.0, "params": params})]:
        torch.testing.assert_close(both(*arguments, **keywords), (value, gradient))
        torch.testing.assert_close(alone(*arguments, **keywords), gradient)
    torch.testing.assert_close(alone(params, x, first=2.0), 2 * gradient)
    assert inspect.signature(both) == inspect.signature(loss)
    with pytest.raises(TypeError, match=r"loss\(\) got no first argument"):
        both(x=x)
    with pytest.raises(TypeError, match="multiple values for argument 'params'"):
        both(x, params=params)
    with pytest.raises(TypeError, match="got no first argument"):
        diptych.grad(lambda params, /, **more: params.sum())(params=params)


def test_gradients_of_a_function_that_does_not_say_its_parameters():
    torch.testing.assert_close(diptych.grad(torch.dot)(torch.ones(2), torch.full((2,), 3.0)), torch.full((2,), 3.0))


def test_second_order():
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    compiled = diptych.aot_function(lambda x: (x.sin() * x).sum())
    assert torch.autograd.gradcheck(compiled, x)
    assert torch.autograd.gradgradcheck(compiled, x)


def test_nodes_say_where_they_come_from():
    def f(x):
        return nn.functional.gelu(x) * 2

    pair = diptych.capture(f, torch.randn(3))
    assert all("test_functions.py" in node.scope and " f" in node.scope for node in pair.forward.nodes)


def test_a_file_name_with_braces_is_a_place_as_any_other():
    names = {}
    exec(compile("def f(x):\n    return x.sin()\n", "/folder/{{x}}{}{:d}.py", "exec"), names)
    pair = diptych.capture(names["f"], torch.randn(3))
    assert {node.scope for node in pair.forward.nodes} == {"{{x}}{}{:d}.py:2 f"}


def test_keywords_of_any_name_are_the_functions():
    def f(x, function=None, options=2, policy=3, self=4):
        return x * options * policy * self

    x, words = torch.randn(3), {"function": "a", "options": 3, "policy": 4, "self": 5}
    expected = f(x, **words)
    torch.testing.assert_close(diptych.aot_function(f)(x, **words), expected)
    torch.testing.assert_close(diptych.checkpoint(f)(x, **words), expected)
    torch.testing.assert_close(diptych.call_pair(diptych.capture(f, x, **words), [x])[0], expected)
    value, _ = diptych.value_and_grad(lambda x, **words: f(x, **words).sum())(x.requires_grad_(), **words)
    torch.testing.assert_close(value, expected.sum())


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x, x * 3

    @staticmethod
    def backward(ctx, same, other):
        return same * 5 + other * 7


class View(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3, x.view(-1)

    @staticmethod
    def backward(ctx, other, view):
        return (view * 5).view(2, 1) + other * 7


class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x, x[:1], x.view(-1)

    @staticmethod
    def backward(ctx, whole, first, flat):
        return whole * 2 + 3 * first.sum() + flat.view(2, 1) * 5


@pytest.mark.parametrize("function", [Same, View, Both])
@pytest.mark.parametrize("before", [lambda x: x, lambda x: x * 1, lambda x: x.t().contiguous().t()])
def test_results_of_a_function_that_are_views_of_what_it_is_given(function, before):
    gradients = []
    for call in (lambda x: function.apply(before(x)), diptych.aot_function(lambda x: function.apply(before(x)))):
        for _ in range(2):
            x = torch.tensor([[1.0], [2.0]], requires_grad=True)
            results = call(x)
            assert all(result.requires_grad and result.grad_fn is not None for result in results)
            gradients.append([torch.autograd.grad(result.sum(), x, retain_graph=True)[0] for result in results])
    for got in gradients[1:]:
        torch.testing.assert_close(got, gradients[0])
