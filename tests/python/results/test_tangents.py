"""Tangents that lie in memory in another way than the one that a backward was traced with: autograd's formulas, and Functions, lay a gradient out for a kernel
that trusts its strides, and leave no trace of that where it lay so already."""
import diptych
import pytest
import torch
from torch import library
from torch.nn import functional as F


@library.custom_op("diptych_tangents::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    assert x.is_contiguous(), x.stride()
    return x * 2


@double.register_fake
def _(x):
    return torch.empty_like(x)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return double(gradient.contiguous())


def checkpointed(x):
    return torch.utils.checkpoint.checkpoint(lambda x: F.group_norm(x, 3), x, use_reentrant=False)


def embedding_bag(x):
    return F.embedding_bag(torch.tensor([[0, 1, 1], [2, 0, 1]]), x.flatten(1), mode="sum")


FUNCTIONS = {
    "group_norm": lambda x: F.group_norm(x, 3),
    "checkpointed": checkpointed,
    "weight_norm": lambda x: torch._weight_norm(x, torch.ones(3, 1, 1, 1, dtype=x.dtype), 0),
    "function": Doubled.apply,
    "cdist": lambda x: torch.cdist(x.flatten(2), x.flatten(2) + 1),
    "embedding_bag": embedding_bag,
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "max_pool": lambda x: F.max_pool2d(x, 2),
    "conv": lambda x: F.conv2d(x, torch.ones(4, 9, 2, 2, dtype=x.dtype)),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
}
TANGENTS = {
    "expanded": lambda y: torch.ones((), dtype=y.dtype).expand(y.shape),
    "reversed dims": lambda y: torch.randn(y.shape[::-1], dtype=y.dtype).permute(*reversed(range(y.dim()))),
    "with gaps": lambda y: torch.randn(*y.shape[:-1], 2 * y.shape[-1], dtype=y.dtype)[..., ::2],
    "contiguous": lambda y: torch.randn(y.shape, dtype=y.dtype),
}


@pytest.mark.parametrize("backend", ("native", "interpreter"))
@pytest.mark.parametrize("layout", (torch.contiguous_format, torch.channels_last))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_do_not_depend_on_how_a_tangent_lies(name, layout, backend):
    torch.manual_seed(0)
    function = FUNCTIONS[name]
    compiled = diptych.aot_function(function, backend=backend)
    x = torch.randn(3, 9, 4, 6, dtype=torch.float64).to(memory_format=layout).requires_grad_()
    for make in TANGENTS.values():
        expected, got = function(x), compiled(x)
        tangent = make(expected.detach())
        torch.testing.assert_close(torch.autograd.grad(got, x, tangent)[0], torch.autograd.grad(expected, x, tangent)[0])


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
@pytest.mark.parametrize("parameters", (None, "half", torch.float32))
def test_layer_norms_of_halves(dtype, parameters):
    torch.manual_seed(0)
    arguments = [torch.randn(6, 9, dtype=dtype, requires_grad=True)]
    if parameters is not None:
        arguments += [torch.randn(9, dtype=dtype if parameters == "half" else parameters, requires_grad=True) for _ in range(2)]

    def function(x, *rest):
        return F.layer_norm(x, (9,), *rest)

    compiled = diptych.aot_function(function, backend="native")
    expected, got = function(*arguments), compiled(*arguments)
    tangent = torch.randn_like(expected)
    torch.testing.assert_close(got, expected)
    for one, other in zip(torch.autograd.grad(got, arguments, tangent), torch.autograd.grad(expected, arguments, tangent)):
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.05)
