"""Functions that do something on the host, beside eager from one state of all generators."""
import random

import diptych
import numpy
import torch


def made(make):
    """(function, look) of a case: look() gives what else to compare after each call."""
    result = make()
    return result if isinstance(result, tuple) else (result, lambda: None)


def results(call, look, x):
    """Four calls, their gradients, and what they leave behind, from one state of all generators."""
    random.seed(0), numpy.random.seed(0), torch.manual_seed(0)
    found = []
    for _ in range(4):
        leaf = x.clone().requires_grad_()
        y = call(leaf)
        (gradient,) = torch.autograd.grad(y.sum(), leaf, allow_unused=True)
        found.append((y.detach(), gradient, look()))
    found.append((random.random(), numpy.random.rand()))
    return found


def agrees_with_eager(make):
    """Compares two instances of a case, one of them compiled; returns its statistics."""
    x = torch.arange(8.0)
    function, look = made(make)
    expected = results(function, look, x)
    function, look = made(make)
    compiled = diptych.aot_function(function)
    found = results(compiled, look, x)
    torch.testing.assert_close([pair[:2] for pair in found], [pair[:2] for pair in expected], rtol=0, atol=0)
    assert [rest[2:] for rest in found] == [rest[2:] for rest in expected]
    return compiled.stats()
