"""An operator beside what it stands for: results and gradients."""
import diptych
import torch


def check(function, expected_function, *inputs):
    """Values, first and second gradients, in eager and inside a compiled function."""
    for ours in (function, diptych.aot_function(function)):
        a = [x.detach().clone().requires_grad_() for x in inputs]
        b = [x.detach().clone().requires_grad_() for x in inputs]
        got, expected = ours(*a), expected_function(*b)
        torch.testing.assert_close(got, expected)
        first_a = torch.autograd.grad(got.square().sum(), a, create_graph=True)
        first_b = torch.autograd.grad(expected.square().sum(), b, create_graph=True)
        torch.testing.assert_close(first_a, first_b)
        second_a = torch.autograd.grad(sum(g.square().sum() for g in first_a), a)
        second_b = torch.autograd.grad(sum(g.square().sum() for g in first_b), b)
        torch.testing.assert_close(second_a, second_b)


def randn(*sizes):
    return torch.randn(*sizes, dtype=torch.float64)
