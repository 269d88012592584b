"""Functions that call backward() themselves: what arrives at leaves from outside is accumulated by each call."""
import gc

import diptych
import pytest
import torch
from torch import nn


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))


X = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))


def step(module, x):
    loss = module(x).square().sum()
    loss.backward()
    return loss.detach()


def metrics(module, x):
    y = module(x)
    loss = y.square().mean()
    loss.backward()
    return {"loss": loss.detach(), "norm": y.detach().norm()}


def nothing(module, x):
    module(x).sum().backward()


def twice(module, x):
    first = module(x).square().sum()
    first.backward(retain_graph=True)
    (first * 2).backward()
    module(x + 1).sum().backward()
    return first.detach()


def weighted(module, x):
    y = module(x)
    y.backward(torch.ones_like(y) * 0.5, inputs=[module[0].weight, module[3].bias])
    return y.detach()


def by_the_function(module, x):
    y = module(x)
    torch.autograd.backward([y.sum(), y.square().sum()])
    return y.detach()


def goes_on(module, x):
    module(x).sum().backward()
    return module(x).detach() + 1


STEPS = [step, metrics, nothing, twice, weighted, by_the_function, goes_on]


def observed(module, call, zero=None):
    found = []
    for i in range(4):
        if zero is not None:
            module.zero_grad(set_to_none=zero)
        before = [parameter.grad for parameter in module.parameters()]
        found.append(call(module, X * (i + 1)))
        after = [parameter.grad for parameter in module.parameters()]
        found.append([a is b for a, b in zip(before, after)])
        found.append([None if one is None else (one.clone(), str(one.stride()), one.requires_grad) for one in after])
    return _plain(found), module.state_dict()


@pytest.mark.parametrize("function", STEPS)
@pytest.mark.parametrize("zero", [None, True, False])
def test_as_eager(function, zero):
    compiled = diptych.aot_function(function)
    expected, found = observed(model(), function, zero), observed(model(), compiled, zero)
    same(found, expected)
    stats = compiled.stats()
    assert stats.originals == 0, stats.last_original
    assert stats.hits == 3


def _plain(tree):
    """With texts in place of what is no tensor."""
    if isinstance(tree, torch.Tensor):
        return tree
    if isinstance(tree, dict):
        return {name: _plain(part) for name, part in tree.items()}
    return [_plain(part) for part in tree] if isinstance(tree, (list, tuple)) else str(tree)


def same(found, expected):
    ours, eager = (torch.utils._pytree.tree_flatten(tree) for tree in (found, expected))
    assert ours[1] == eager[1]
    for one, other in zip(ours[0], eager[0]):
        assert type(one) is type(other) and (torch.allclose(one, other, 1e-4, 1e-5) if isinstance(one, torch.Tensor) else one == other)


def test_parameters_of_a_closure_and_an_optimizer():
    found = []
    for compile_ in (lambda function: function, diptych.aot_function):
        module = model()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        call = compile_(lambda x: step(module, x))
        for _ in range(4):
            optimizer.zero_grad()
            loss = call(X)
            optimizer.step()
        found.append((loss, module.state_dict()))
    torch.testing.assert_close(found[1], found[0])
    assert (call.stats().misses, call.stats().hits, call.stats().originals) == (1, 3, 0)


def test_arguments_that_are_leaves():
    found = []
    for call in (lambda a, b: ((a * b).sum().backward(), (a + b).detach())[1], diptych.aot_function(lambda a, b: ((a * b).sum().backward(), (a + b).detach())[1])):
        a, b, c = (torch.full((2,), n, requires_grad=n < 4) for n in (2.0, 3.0, 4.0))
        results = [call(a, b), call(a, c), call(a, a), call(b, a)]
        found.append((results, a.grad, b.grad, c.grad))
    torch.testing.assert_close(found[1][:3], found[0][:3])
    assert found[1][3] is None


def test_gradients_are_the_leafs_own():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    call = diptych.aot_function(lambda a, b, x: ((a * x + b * x).sum().backward(), x * 2)[1])
    x = torch.full((2,), 3.0)
    call(a, b, x)
    a.grad.zero_()
    x.zero_()
    assert b.grad.tolist() == [3, 3] and a.grad.tolist() == [0, 0]


def test_a_second_backward_is_eagers():
    def function(w, x):
        y = (w * x).tanh()
        loss = y.sum()
        loss.backward()
        return loss, (w * 2).sin()

    for call in (function, diptych.aot_function(function)):
        w = torch.ones(2, requires_grad=True)
        for _ in range(2):
            loss, other = call(w, torch.ones(2))
            assert loss.requires_grad
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                loss.backward()
            other.sum().backward()


def hooked_tensor(w):
    w.register_hook(lambda gradient: gradient * 2)


def hooked_after(w):
    w.register_post_accumulate_grad_hook(lambda w: setattr(w, "data", w.data - w.grad))


@pytest.mark.parametrize("hook", [hooked_tensor, hooked_after])
@pytest.mark.parametrize("when", [0, 2])
def test_leaves_with_hooks_run_the_function(hook, when):
    def function(w, x):
        (w * x).sum().backward()
        return (w * x).detach()

    found = []
    for call in (function, diptych.aot_function(function)):
        w = torch.ones(2, requires_grad=True)
        results = []
        for i in range(4):
            if i == when:
                hook(w)
            results.append((call(w, torch.full((2,), float(i + 1))), w.grad.clone()))
        found.append((results, w.detach()))
    torch.testing.assert_close(found[1], found[0])
    assert call.stats().originals == 4 - when


SELF_RUN = {
    "a gradient with a history": lambda w, x: ((w * w * x).sum().backward(create_graph=True), (w * 2).detach())[1],
    "reads .grad": lambda w, x: ((w * x).sum().backward(), w.grad * 2)[1],
    "clears .grad": lambda w, x: (setattr(w, "grad", None), (w * x).sum().backward(), x * 2)[2],
}


@pytest.mark.parametrize("name", SELF_RUN)
@pytest.mark.filterwarnings("ignore:Using backward")
def test_what_only_eager_gives_runs_the_function(name):
    found = []
    for call in (SELF_RUN[name], diptych.aot_function(SELF_RUN[name])):
        w = torch.ones(2, requires_grad=True)
        results = [call(w, torch.full((2,), float(i))) for i in range(3)]
        found.append((results, w.grad.detach().clone(), w.grad.requires_grad))
        w.grad = None
    torch.testing.assert_close(found[1][:2], found[0][:2])
    assert found[1][2] == found[0][2] and call.stats().originals == 3


def own_leaf(x, prepare=lambda w: None, finish=lambda w: None):
    w = x.detach().clone().requires_grad_()
    prepare(w)
    (x * w - 1).pow(2).sum().backward()
    finish(w)
    return w


def steps(w):
    torch.optim.SGD([w], lr=0.1).step()


def hooked_and_not_used(x):
    w = torch.ones(2, requires_grad=True)
    w.register_hook(lambda gradient: gradient * 5)
    return w, w * x


def with_a_gradient_that_is_set(x):
    w, v = torch.ones(2, requires_grad=True), torch.zeros(2)
    w.grad, v.grad = x * 3, x * 4
    return w, v


OWN_LEAVES = {
    "gradient": own_leaf, "hook": lambda x: own_leaf(x, hooked_tensor), "hook after": lambda x: own_leaf(x, hooked_after),
    "step": lambda x: own_leaf(x, finish=steps), "hook alone": hooked_and_not_used, "set": with_a_gradient_that_is_set,
    "in a list": lambda x: {"made": [own_leaf(x), own_leaf(x * 2)]}, "parameter": lambda x: nn.Parameter(own_leaf(x)),
    "cleared": lambda x: own_leaf(x, finish=lambda w: setattr(w, "grad", None)), "detached": lambda x: own_leaf(x).detach(),
    "view": lambda x: own_leaf(x)[:1],
}


@pytest.mark.parametrize("name", OWN_LEAVES)
def test_leaves_that_the_function_makes_and_returns(name):
    found = []
    for call in (OWN_LEAVES[name], diptych.aot_function(OWN_LEAVES[name])):
        results = []
        for i in range(3):
            made = torch.utils._pytree.tree_leaves(call(torch.full((2,), float(i))))
            gradients = [one.grad if one.is_leaf else None for one in made]
            if any(one.requires_grad for one in made):
                sum(one.sum() for one in made).backward()
            results.append((made, gradients, [one.grad if one.is_leaf else None for one in made], [one.is_leaf for one in made]))
        found.append(results)
    torch.testing.assert_close(found[1], found[0])


def test_a_leaf_with_a_gradient_is_refused_in_pairs():
    with pytest.raises(diptych.UserError, match="returns a tensor that it makes, .* with a hook"):
        diptych.capture(hooked_and_not_used, torch.ones(2))


def test_a_tensor_that_is_no_leaf_runs_the_function():
    found = []
    for call in (lambda h: (h.square().sum().backward(), h.detach())[1], diptych.aot_function(lambda h: (h.square().sum().backward(), h.detach())[1])):
        w = torch.ones(2, requires_grad=True)
        found.append(([call(w * 2) for _ in range(2)], w.grad))
    torch.testing.assert_close(found[1], found[0])


def test_exceptions_accumulate_what_eager_does():
    def function(w, x):
        (w * x).sum().backward()
        raise ValueError("after it")

    for call in (function, diptych.aot_function(function)):
        w = torch.ones(2, requires_grad=True)
        for count in (1, 2):
            with pytest.raises(ValueError, match="after it"):
                call(w, torch.ones(2))
            assert w.grad.tolist() == [count, count]


def test_backward_of_what_needs_none_raises():
    compiled = diptych.aot_function(lambda x: (x.sum().backward(), x)[1])
    with pytest.raises(RuntimeError, match="does not require grad"):
        compiled(torch.ones(2))


def test_checks_and_other_options():
    for options in ({"check": 3}, {"backend": "interpreter"}, {"partition": "default"}, {"dynamic": True}):
        module, eager = model(), model()
        compiled = diptych.aot_function(step, **options)
        for size in (5, 4, 3, 5):
            torch.testing.assert_close(compiled(module, X[:size]), step(eager, X[:size]))
            torch.testing.assert_close([p.grad for p in module.parameters()], [p.grad for p in eager.parameters()])
        assert compiled.stats().originals == 0, compiled.stats().last_original


def test_nothing_is_kept_alive():
    compiled = diptych.aot_function(lambda w, x: ((w * x).sum().backward(), x * 2)[1])
    for _ in range(3):
        compiled(torch.ones(2, requires_grad=True), torch.ones(2))
    gc.collect()
    w = torch.ones(2, requires_grad=True)
    compiled(w, torch.ones(2))
    assert w.grad.tolist() == [1, 1]


def test_pairs_and_bodies_refuse():
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(diptych.UserError, match="calls backward"):
        diptych.capture(lambda w, x: ((w * x).sum().backward(), x * 2)[1], w, torch.ones(2))
    assert w.grad is None


def test_gradients_of_what_the_function_captures():
    w, v = torch.full((2,), 2.0, requires_grad=True), torch.ones(2, requires_grad=True)
    h = v * 3

    def function(x):
        return torch.autograd.grad((x * w * w * h).sum(), [w, h], create_graph=True)

    compiled = diptych.aot_function(function)
    for _ in range(2):
        x = torch.full((2,), 3.0, requires_grad=True)
        expected, found = function(x), compiled(x)
        torch.testing.assert_close(found, expected)
        ours, eager = (torch.autograd.grad(sum(one.sin().sum() for one in parts), [x, w, v], retain_graph=True) for parts in (found, expected))
        torch.testing.assert_close(ours, eager)
    assert (compiled.stats().hits, compiled.stats().originals) == (1, 0)


def test_inside_a_captured_backward():
    found = []
    for call in (step, diptych.aot_function(step)):
        module = model()
        with diptych.backward_capture.capture():
            for _ in range(3):
                loss = call(module, X)
                module(X).square().sum().backward()
        found.append((loss, [parameter.grad for parameter in module.parameters()]))
    torch.testing.assert_close(found[1], found[0], atol=1e-4, rtol=1e-4)


def test_a_module_whose_forward_goes_backward():
    class Trained(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model()

        def forward(self, x):
            return step(self.inner, x)

    for _ in range(2):
        module, eager = Trained(), Trained()
        compiled = diptych.aot_module(module, eager_fallback=False)
        for _ in range(3):
            torch.testing.assert_close(compiled(X), eager(X))
            torch.testing.assert_close([p.grad for p in module.parameters()], [p.grad for p in eager.parameters()], atol=1e-4, rtol=1e-4)
        assert (compiled.stats().misses, compiled.stats().hits, compiled.stats().originals) == (1, 2, 0)
