"""Compiled modules beside eager: training, changes, copies, and what they show of themselves."""
import copy
import inspect
import pickle

import diptych
import pytest
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 2)
        self.scale = 2.0

    def forward(self, x):
        return self.last(nn.functional.gelu(self.norm(self.first(x)))) * self.scale


def test_a_module_beside_eager():
    torch.manual_seed(0)
    eager = Net()
    ours = Net()
    ours.load_state_dict(eager.state_dict())
    compiled = diptych.aot_module(ours)
    for step in range(3):
        x = torch.randn(5, 4)
        eager(x).square().sum().backward()
        compiled(x).square().sum().backward()
        for (name, a), b in zip(eager.named_parameters(), ours.parameters()):
            torch.testing.assert_close(a.grad, b.grad, msg=name)
        for a, b in zip(eager.buffers(), ours.buffers()):
            torch.testing.assert_close(a, b)
    assert compiled.stats().misses == 1
    graph = compiled.forward_graphs()[0]
    assert [slot.path for slot in graph.input_slots][:2] == ["module.first.weight", "module.first.bias"]


@pytest.mark.parametrize("change", [
    lambda net: setattr(net, "scale", 3.0),
    lambda net: net.eval(),
    lambda net: setattr(net.norm, "momentum", 0.5),
    lambda net: net.last.register_forward_hook(lambda module, inputs, output: output * 2),
    lambda net: setattr(net, "last", nn.Linear(8, 2)),
])
def test_a_changed_module_is_captured_again(change):
    torch.manual_seed(0)
    net = Net()
    compiled = diptych.aot_module(net)
    x = torch.randn(5, 4)
    compiled(x)
    change(net)
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    expected = net(x)
    net.load_state_dict(state)
    torch.testing.assert_close(compiled(x), expected)
    assert compiled.stats().misses == 2


def test_a_compiled_module_shows_the_signature_of_its_forward():
    compiled = diptych.aot_module(Net())
    assert str(inspect.signature(compiled)) == "(x)"
    pair = diptych.capture(compiled, torch.randn(5, 4))
    assert pair.signature.forward_inputs[0].path == "x"
    slots = [slot.path for slot in diptych.capture(lambda x: compiled(x), torch.randn(5, 4)).forward.input_slots]
    assert slots[0] == "x"


def test_a_compiled_module_is_its_module_but_for_the_call():
    net = Net()
    compiled, x = diptych.aot_module(net), torch.randn(5, 4)
    for same in (compiled.eval(), compiled.train(), compiled.to(torch.float64), compiled.float(), compiled.requires_grad_(True)):
        assert same is compiled
    assert not compiled.eval().training and not net.training
    torch.testing.assert_close(compiled(x), net(x))
    compiled.scale = 3.0
    assert net.scale == 3.0 and compiled.scale == 3.0
    torch.testing.assert_close(compiled(x), net(x))
    compiled.last = nn.Linear(8, 3)
    assert "last.weight" in net.state_dict() and compiled(x).shape == (5, 3)
    del compiled.scale
    assert not hasattr(net, "scale") and not hasattr(compiled, "scale")
    with pytest.raises(AttributeError, match="scale"):
        del compiled.scale
    assert compiled.module is net and compiled.stats().misses == 3 and len(list(compiled.parameters())) == 6


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda compiled: pickle.loads(pickle.dumps(compiled))])
def test_a_copy_of_a_compiled_module_has_tensors_of_its_own(copied):
    compiled, x = diptych.aot_module(Net(), partition="min_cut").eval(), torch.randn(5, 4)
    expected = compiled(x)
    other = copied(compiled)
    assert isinstance(other, diptych.AotModule) and other.module is not compiled.module
    torch.testing.assert_close(other(x), expected)
    with torch.no_grad():
        other.last.weight.zero_()
    torch.testing.assert_close(compiled(x), expected)
    assert other.stats().misses == 1 and compiled.stats().misses == 1
    assert copy.copy(compiled).module is compiled.module


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w, x):
        ctx.save_for_backward(w, x)
        return w * x

    @staticmethod
    def backward(ctx, gradient):
        w, x = ctx.saved_tensors
        return 2 * gradient * x, 2 * gradient * w


class AppliesFunction(nn.Module):
    def __init__(self, is_used_besides):
        super().__init__()
        self.w, self.is_used_besides = nn.Parameter(torch.tensor([1.0, 2.0, 3.0])), is_used_besides

    def forward(self, x):
        y = Doubled.apply(self.w, x)
        return (y + self.w.sin() if self.is_used_besides else y).sum()


@pytest.mark.parametrize("is_used_besides", [False, True])
@pytest.mark.parametrize("has_hook", [False, True])
def test_a_parameter_that_a_function_of_autograd_is_applied_to_has_its_gradient(is_used_besides, has_hook):
    gradients = []
    for compile in (lambda module: module, diptych.aot_module):
        module, x = AppliesFunction(is_used_besides), torch.ones(3, requires_grad=True)
        if has_hook:
            module.w.register_hook(lambda gradient: gradient * 10)
        compiled = compile(module)
        for _ in range(2):
            compiled(x).backward()
        gradients.append((module.w.grad, x.grad))
    for ours, eager in zip(*gradients):
        torch.testing.assert_close(ours, eager)


class DecidesInItsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 if gradient.sum().item() > 0 else gradient


def test_a_refusal_in_the_backward_runs_the_module_itself():
    class Decides(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return DecidesInItsBackward.apply(self.linear(x))

    module, x = Decides(), torch.randn(2, 3)
    compiled = diptych.aot_module(module)
    with pytest.warns(UserWarning, match="needs the values of a tensor"):
        compiled(x)
    for sign in (1, -1, 1):
        got, expected = (torch.autograd.grad(call(x).sum() * sign, module.linear.weight) for call in (compiled, module))
        torch.testing.assert_close(got, expected)
    assert compiled.stats().originals == 4 and compiled.stats().refusals == 1
    with torch.no_grad():  # there is no backward to refuse
        compiled(x), compiled(x)
    assert compiled.stats().originals == 4
    with pytest.raises(diptych.UserError, match="needs the values of a tensor"):
        diptych.aot_module(module, eager_fallback=False)(x)


# What no tree can hold: keys that have no order, iterators, objects without parts.
UNKNOWN_TO_TREES = {
    "keys": lambda: {("user", "likes", "item"): torch.ones(2), ("item", "of", "user"): torch.full((2,), 2.0)},
    "numbers as keys": lambda: {0.5: torch.ones(2), True: torch.full((2,), 2.0)},
    "nested": lambda: [{"edges": {None: torch.ones(2)}}],
    "values": lambda: {"a": torch.ones(2), "b": torch.full((2,), 2.0)}.values(),
    "iterator": lambda: iter([torch.ones(2), torch.full((2,), 2.0)]),
}


def total(given):
    if isinstance(given, torch.Tensor):
        return given * 2
    return sum(total(one) for one in (given.values() if isinstance(given, dict) else given))


@pytest.mark.parametrize("name", UNKNOWN_TO_TREES)
def test_arguments_that_no_tree_holds_run_the_function_itself(name):
    calls = []

    def function(given):
        calls.append(name)
        return total(given)

    compiled = diptych.aot_function(function, eager_fallback=True)
    with pytest.warns(UserWarning, match="runs uncompiled, since no graph can be made of this call: .tree."):
        torch.testing.assert_close(compiled(UNKNOWN_TO_TREES[name]()), total(UNKNOWN_TO_TREES[name]()))
    torch.testing.assert_close(compiled(UNKNOWN_TO_TREES[name]()), total(UNKNOWN_TO_TREES[name]()))
    assert len(calls) == 2 and compiled.stats().originals == 2 and compiled.stats().last_original.startswith("[tree]")
    with pytest.raises(diptych.UserError, match="tree"):
        diptych.aot_function(total)(UNKNOWN_TO_TREES[name]())


@pytest.mark.filterwarnings("ignore:.*runs uncompiled")
@pytest.mark.parametrize("key", [0.5, ("a", "b"), None])
def test_results_that_no_tree_holds(key):
    compiled = diptych.aot_function(lambda x: {key: x * 2}, eager_fallback=True)
    for i in range(3):
        assert compiled(torch.full((2,), float(i)))[key].tolist() == [i * 2, i * 2]
    with pytest.raises(diptych.UserError, match="tree"):
        diptych.aot_function(lambda x: {key: x * 2})(torch.ones(2))
