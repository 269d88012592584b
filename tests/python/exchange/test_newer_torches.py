"""What torch has from 2.14 on; older ones have nothing of it to test."""
import diptych
import pytest
import torch
from torch.utils.checkpoint import checkpoint

if not hasattr(torch.autograd.graph, "node_creation_hook"):
    pytest.skip("torch 2.14 has what is tested here", allow_module_level=True)


def train(function, x):
    x = x.clone().requires_grad_()
    y = function(x)
    y.sum().backward()
    return y.detach(), x.grad


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(0.5))

    @checkpoint(use_reentrant=False, preserve_rng_state=False)
    def forward(self, x):
        return (x * self.scale).sin().exp()


@checkpoint(use_reentrant=False)
def decorated(x):
    return x.sin().exp()


@pytest.mark.parametrize("function", [lambda x: decorated(x) * 2, Block()], ids=["of a function", "of a method"])
def test_checkpoint_as_a_decorator(function):
    x = torch.linspace(0, 1, 4)
    compiled = diptych.aot_function(function)
    for _ in range(2):
        torch.testing.assert_close(train(compiled, x), train(function, x))
    assert compiled.stats().originals == 0


def test_a_call_inside_of_hooks_on_the_creation_of_nodes():
    def function(x):
        return x.sin() * 2

    compiled, seen = diptych.aot_function(function), []
    x = torch.ones(2, requires_grad=True)
    compiled(x)
    for call in (function, compiled):
        names = []
        with torch.autograd.graph.node_creation_hook(lambda node, *rest, names=names: names.append(node.name())):
            call(x)
        seen.append(names)
    assert seen[0] == seen[1] != []
    assert compiled.stats().last_original.startswith("hooks on the creation of autograd's nodes")


@pytest.mark.filterwarnings("ignore:BComplex32 support is experimental")
def test_the_complex_dtype_of_bfloat16():
    def function(x):
        y = x.to(torch.bcomplex32)
        return y, torch.view_as_real(y) * 2, x == 1j

    x = torch.linspace(0, 1, 4, dtype=torch.bfloat16)
    compiled = diptych.aot_function(function)
    for one, other in zip(compiled(x), function(x)):
        assert one.dtype == other.dtype and one.tolist() == other.tolist()
    assert compiled.stats().originals == 0
    assert "bc32[4]" in str(diptych.capture(function, x).forward)


def test_an_operator_of_torchs_that_has_no_likeness_is_named():
    from torch._higher_order_ops import switch

    with pytest.raises(diptych.UserError, match="higher-order operator of torch; use diptych's operator of that meaning"):
        diptych.capture(lambda x: switch(torch.tensor(0), (torch.sin, torch.cos), (x,)), torch.ones(2))
