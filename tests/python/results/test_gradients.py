"""How the results of a compiled function stand in autograd's graph: gradients with respect to them, to any order, beside eager."""
import diptych
import pytest
import torch
from torch import nn
from torch.autograd import grad

from looks import leaf, twice


# Gradients with respect to results.
def chain(x):
    a = x * 2
    b = a.sin()
    c = b * x
    return a, b, c


def cell(x):
    h = x
    states = []
    for _ in range(3):
        h = torch.tanh(h * x + 1)
        states.append(h)
    return torch.stack(states), h


def around(x):
    a = x.exp()
    hidden = a * x.cos()
    return a, (hidden * a).sum(), hidden.sum() * 2


def of_views(x):
    a = x * 2
    v = a[1:]
    return v, v.sin() * a[:2], a


def of_argument_views(x):
    v = x[1:]
    return v, v.sin() + x[:2]


def parts(x):
    a, b = (x * x).split(2)
    return a, a.sin() + b[:1], b


def through_mutation(x):
    y = x * 2
    y.mul_(x)
    z = y.sin()
    return y, z


@pytest.mark.parametrize("function", [chain, cell, around, of_views, of_argument_views, through_mutation])
@pytest.mark.parametrize("partition", ["default", "min_cut"])
def test_gradients_with_respect_to_each_result(function, partition):
    def look(f):
        x = leaf(3)
        results = f(x)
        seen = []
        for result in results:
            for wanted in (*results, x):
                found = grad(result.sum(), [wanted], retain_graph=True, allow_unused=True)[0]
                seen.append(torch.zeros(0) if found is None else found)
        sum(result.sum() for result in results).backward()
        return [*seen, x.grad]

    seen = twice(look, function, partition=partition)
    assert any(tensor.numel() for tensor in seen[:-1])


@pytest.mark.parametrize("function", [chain, cell, around, of_views, of_argument_views, parts])
def test_second_order_with_respect_to_each_result(function):
    def look(f):
        x = leaf(3)
        results = f(x)
        seen = []
        for result in results:
            for wanted in (*results, x):
                first = grad(result.sum(), [wanted], create_graph=True, allow_unused=True)[0]
                if first is None or not first.requires_grad:
                    continue
                for again in (wanted, x):
                    second = grad(first.sum(), [again], retain_graph=True, allow_unused=True)[0]
                    seen.append(torch.zeros(0) if second is None else second)
        return seen

    if function is parts:
        return twice(look, function)
    assert any(tensor.numel() for tensor in twice(look, function))


@pytest.mark.parametrize("size", [4, 6, 9])
def test_gradients_with_respect_to_results_at_other_sizes(size):
    compiled = [diptych.aot_function(function, dynamic=True) for function in (chain, cell, around)]
    for function, ours in zip((chain, cell, around), compiled, strict=True):
        for n in (3, 5, size):
            seen = []
            for f in (function, ours):
                x = leaf(n)
                results = f(x)
                first = grad(results[1].sum(), [results[0], x], retain_graph=True, allow_unused=True)
                second = grad(grad(results[1].sum(), x, create_graph=True)[0].sum(), [x, results[0]], allow_unused=True)
                seen.append([torch.zeros(0) if found is None else found for found in (*first, *second)])
            torch.testing.assert_close(seen[1], seen[0])


def test_what_is_kept_or_hooked_at_a_result_is_all_of_its_gradient():
    def look(f):
        x = leaf()
        a, b, c = f(x)
        a.retain_grad()
        b.register_hook(lambda g: g * 3)
        (b.sum() + (c * c).sum() + a.sum()).backward()
        return [a.grad, x.grad]

    twice(look, chain)


def test_a_result_that_retains_its_gradient_inside():
    def f(x):
        a = x.exp()
        a.retain_grad()
        return a, a.sin().sum()

    def look(f):
        x = leaf()
        a, loss = f(x)
        loss.backward()
        return [a.grad, x.grad]

    twice(look, f)


def test_gradients_with_respect_to_an_argument_that_is_changed():
    def f(x, w):
        x.mul_(w)
        return x.sin()

    def g(x, w):
        x[0].mul_(2)
        return (x * w).sum(), x[1:] * 3

    for function in (f, g):

        def look(f):
            w = leaf()
            x = leaf(start=0.5) * 1
            result = f(x, w)
            loss = sum(tensor.sum() for tensor in (result if isinstance(result, tuple) else (result,)))
            return list(grad(loss, [x, w]))

        twice(look, function)


def test_inputs_of_a_backward_may_be_results():
    def look(f):
        x = leaf()
        a, b, c = f(x)
        a.retain_grad()
        torch.autograd.backward(c.sum(), inputs=[a])
        return [a.grad, torch.tensor(x.grad is None)]

    twice(look, chain)


def test_a_result_may_be_changed_in_place_after_the_call():
    def f(x):
        a = x * 2
        return a, (a * x).sum()

    def look(f):
        x = leaf()
        a, loss = f(x)
        b = a * 1
        b.mul_(2)
        return list(grad(loss + b.sum(), [x, a]))

    twice(look, f)


def test_gradcheck_of_functions_whose_results_depend_on_each_other():
    for function in (chain, cell, around, of_views, parts):
        compiled = diptych.aot_function(function)
        assert torch.autograd.gradcheck(compiled, (leaf(),))
        assert torch.autograd.gradgradcheck(compiled, (leaf(),))


# Arguments that have no part in a result.
def test_the_history_of_an_argument_that_is_not_used_is_left_alone():
    def f(x, unused):
        unused = x.sin()
        return unused * 2

    def look(f):
        x, w = leaf(), leaf(start=0.4)
        u = w.exp()
        seen = []
        u.register_hook(lambda g: seen.append(g))
        f(x, u).sum().backward()
        assert not seen
        u.sum().backward()
        return [x.grad, w.grad]

    twice(look, f)


def test_the_older_weight_norm_trains():
    for wrap in (torch.nn.utils.weight_norm, torch.nn.utils.spectral_norm):
        losses = []
        for compiled in (False, True):
            torch.manual_seed(0)
            module = nn.Sequential(wrap(nn.Linear(3, 2)), nn.Tanh()).eval()
            run = diptych.aot_module(module) if compiled else module
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            seen = []
            for _ in range(3):
                optimizer.zero_grad()
                loss = run(torch.ones(4, 3)).square().sum()
                loss.backward()
                optimizer.step()
                seen.append(loss.detach())
            losses.append(torch.stack(seen))
        torch.testing.assert_close(losses[1], losses[0])


# A part of a loss depends on the eigenvectors' phases where the whole does not.
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("chosen", ["values", "vectors", "both"])
def test_eigenvectors_twice_differentiated(seed, symmetric, inside, chosen):
    def f(a):
        values, vectors = torch.linalg.eigh(a + a.mH) if symmetric else torch.linalg.eig(a)
        return values, vectors.abs() if inside else vectors

    def look(f):
        torch.manual_seed(seed)
        a = torch.randn(4, 4, dtype=torch.complex128 if symmetric else torch.float64).requires_grad_()
        values, vectors = f(a)
        outputs = [values] * (chosen != "vectors") + [vectors.abs()] * (chosen != "values")
        tangents = [torch.randn_like(output) for output in outputs]
        first = grad(outputs, a, tangents, create_graph=True)[0]
        return [first.detach(), grad(first, a, torch.randn_like(first))[0]]

    twice(look, f)


def test_second_gradients_have_no_history():
    def f(x, w):
        y = x * w
        return y, y.exp()

    def seconds(function):
        x, w = (torch.linspace(0.1, end, 6, requires_grad=True) for end in (1.0, 2.0))
        first = torch.autograd.grad(function(x, w)[1].sum(), [x, w], create_graph=True)
        return torch.autograd.grad(sum(gradient.sum() for gradient in first), [x, w])

    ours, theirs = seconds(diptych.aot_function(f)), seconds(f)
    torch.testing.assert_close(ours, theirs)
    assert [gradient.requires_grad for gradient in ours] == [False, False]
