"""Lazy modules, whose parameters get their sizes at the first call: that one runs the function itself."""
import diptych
import pytest
import torch
from torch import nn

MAKERS = {
    "linear": (lambda: nn.LazyLinear(4), (3, 5)),
    "sequence": (lambda: nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyBatchNorm1d(), nn.LazyLinear(2)), (3, 5)),
    "convolutions": (lambda: nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyInstanceNorm2d(affine=True), nn.LazyConvTranspose2d(2, 3)), (2, 3, 6, 6)),
    "partly lazy": (lambda: nn.Sequential(nn.Linear(5, 3), nn.LazyLinear(2)), (3, 5)),
}
WAYS = {
    "aot_module": lambda module: diptych.aot_module(module, eager_fallback=False),
    "argument": lambda module: _with_module(diptych.aot_function(lambda module, x: module(x)), module),
    "closure": lambda module: diptych.aot_function(lambda x: module(x)),
}


def _with_module(compiled, module):
    def call(x):
        return compiled(module, x)

    call.stats = compiled.stats
    return call


def made(make):
    torch.manual_seed(1)
    return make()


def trained(module, call, sizes):
    torch.manual_seed(0)
    found = []
    for _ in range(4):
        y = call(torch.randn(sizes))
        module.zero_grad()
        y.square().sum().backward()
        found.append((y, [parameter.grad.clone() for parameter in module.parameters()]))
        with torch.no_grad():
            for parameter in module.parameters():
                parameter -= 0.01 * parameter.grad
    return found, module.state_dict(), [type(child).__name__ for child in module.modules()].count("LazyLinear")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_the_first_call_initializes(name, way):
    make, sizes = MAKERS[name]
    module, other = made(make), made(make)
    compiled = WAYS[way](other)
    torch.testing.assert_close(trained(other, compiled, sizes), trained(module, module, sizes))
    stats = compiled.stats()
    assert (stats.originals, stats.misses, stats.hits) == (1, 1, 2) and stats.last_original == "initializes a lazy module"


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_where_there_is_no_function_to_run_it_is_refused():
    module = nn.LazyLinear(2)
    with pytest.raises(diptych.UserError, match="uninitialized tensor of a lazy module"):
        diptych.capture(lambda module, x: module(x), module, torch.ones(3, 4))
    assert module.has_uninitialized_params()


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_other_refusals_stay():
    compiled = diptych.aot_function(lambda x: x.numpy() * 2)
    with pytest.raises(diptych.UserError, match="reads the memory"):
        compiled(torch.ones(3))
    assert compiled.stats().originals == 0
