"""BatchNorm without a momentum, whose factor is 1 / the number of its calls: one capture for all counts."""
import copy

import diptych
import pytest
import torch
from torch import nn
from torch.nn import functional

MODULES = {
    "1d": (lambda: nn.BatchNorm1d(3, momentum=None), (5, 3)),
    "2d without parameters": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, momentum=None, affine=False)), (2, 3, 6, 6)),
    "3d": (lambda: nn.BatchNorm3d(3, momentum=None), (2, 3, 2, 2, 2)),
    "without statistics": (lambda: nn.BatchNorm1d(3, momentum=None, track_running_stats=False), (5, 3)),
    "in halves": (lambda: nn.BatchNorm1d(3, momentum=None).to(torch.bfloat16), (6, 3)),
}


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"backend": "native"}], ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_beside_eager(name, options):
    make, sizes = MODULES[name]
    torch.manual_seed(3)
    module = make()
    dtype, near = (torch.bfloat16, {"rtol": 0.02, "atol": 0.02}) if name == "in halves" else (torch.float64, {})
    module = module.to(dtype)
    eager = copy.deepcopy(module)
    compiled = diptych.aot_module(module, **options)
    for call in range(9):
        training = call != 6
        module.train(training), eager.train(training)
        x = torch.randn(sizes, dtype=dtype)
        a, b = (x.clone().requires_grad_() for _ in range(2))
        results = compiled(a), eager(b)
        gradients = [torch.autograd.grad(result.sin().sum(), [at, *of.parameters()]) for result, at, of in zip(results, (a, b), (module, eager))]
        torch.testing.assert_close((results[0], gradients[0]), (results[1], gradients[1]), **near)
        for key, held in eager.state_dict().items():
            torch.testing.assert_close(module.state_dict()[key], held, msg=key, **near)
    stats = compiled.stats()
    assert (stats.entries, stats.originals) == (2, 0), "one for each mode"


def test_an_empty_batch_changes_no_statistics():
    module = nn.BatchNorm1d(2, momentum=None)
    eager = copy.deepcopy(module)
    compiled = diptych.aot_module(module)
    for size in (3, 3, 0, 3):
        x = torch.randn(size, 2)
        torch.testing.assert_close(compiled(x), eager(x))
        torch.testing.assert_close(dict(module.named_buffers()), dict(eager.named_buffers()))


def test_a_momentum_that_is_asked_for():
    def f(x, mean, variance, momentum):
        return functional.batch_norm(x, mean, variance, training=True, momentum=momentum.item(), eps=0.1)

    compiled = diptych.aot_function(f)
    for momentum in (0.0, 0.1, 0.75, 1.0):
        x = torch.randn(4, 3, dtype=torch.float64)
        stated = [[torch.full((3,), value, dtype=torch.float64) for value in (2.0, 3.0)] for _ in range(2)]
        results = [call(x, *state, torch.tensor(momentum)) for call, state in zip((compiled, f), stated)]
        torch.testing.assert_close((results[0], stated[0]), (results[1], stated[1]))
    assert compiled.stats().entries == 1


def test_what_is_replaced_in_a_trace_is_torchs_again():
    theirs = functional.batch_norm
    module = nn.BatchNorm1d(2, momentum=None)
    diptych.aot_module(module)(torch.randn(3, 2))
    assert functional.batch_norm is theirs
    assert getattr(nn.modules.batchnorm, "float", float) is float


def test_second_derivatives():
    module = nn.BatchNorm1d(3, momentum=None).double()
    eager = copy.deepcopy(module)
    compiled = diptych.aot_module(module)
    for _ in range(3):
        x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
        found = []
        for call in (compiled, eager):
            (gradient,) = torch.autograd.grad(call(x).pow(3).sum(), x, create_graph=True)
            found.append(torch.autograd.grad(gradient.pow(2).sum(), x))
        torch.testing.assert_close(*found)
    torch.testing.assert_close(module.running_var, eager.running_var)
    assert compiled.stats().entries == 1
