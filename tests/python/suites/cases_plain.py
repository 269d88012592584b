"""Functions that change nothing: structures, dtypes, what needs no gradient, grad modes, random numbers, gradients inside."""
import torch
from cases import case, computed, constant, leaf
from torch.nn import functional as F


@case(lambda n: (leaf(n, 4), leaf(4)), pure=True)
def plain_two_inputs(x, y):
    return (x * y).sin().sum(1)


@case(lambda n: (leaf(n, 4), leaf(n, 4)))
def plain_results_in_a_tree(x, y):
    return {"sum": x + y, "list": [x.exp(), (y.cos(), None, 3, "text")]}


@case(lambda n: (leaf(n), leaf(n)), pure=True)
def plain_unused_input(x, y):
    return x.sin()


@case(lambda n: (leaf(n), leaf(n), leaf(n)), pure=True, then=lambda result, *_: result[1])
def plain_unused_results(x, y, z):
    return x.sin(), y.sin(), z.sin()


@case(lambda n: (), pure=True)
def plain_without_inputs():
    return torch.ones(3) * 2


@case(lambda n: (leaf(n),), pure=True)
def plain_constant_result(x):
    return x * 2, torch.arange(3.0), 7


@case(lambda n: (leaf(n), 2.5, "text", [leaf(n), 3]), pure=True)
def plain_arguments_that_are_no_tensors(x, scale, text, rest):
    return x * scale + rest[0] * rest[1] + len(text)


@case(lambda n: ({"b": leaf(n), "a": leaf(n)},), pure=True)
def plain_dict(d):
    return d["a"] - d["b"]


@case(lambda n: (leaf(n), torch.arange(n), torch.ones(n, dtype=torch.bool)), pure=True)
def plain_integers_and_bools(x, i, b):
    return x * i + b, i + 1, ~b, x > 0


@case(lambda n: (torch.randn(n, 2, dtype=torch.complex128).requires_grad_(),), pure=True, order=1, skip=("inference", "constant"))
def plain_complex(x):
    return x * x.conj() + 1j * x, x.real.sin(), x.abs()


@case(lambda n: (leaf(n, 0), leaf(0)), pure=True)
def plain_empty(x, y):
    return x.sum(1) + y.sum(), torch.cat([x, x], 1)


@case(lambda n: (leaf(), leaf()), pure=True)
def plain_scalars(x, y):
    return x * y, x.exp().expand(3)


@case(lambda n: (leaf(n, 4).to(memory_format=torch.contiguous_format).t(),), pure=True)
def plain_input_of_odd_strides(x):
    return x * 2, x.contiguous().sin(), x.reshape(-1)


@case(lambda n: (leaf(2, 3, n, 4).to(memory_format=torch.channels_last), leaf(5, 3, 1, 1)), pure=True)
def plain_channels_last(x, w):
    return F.conv2d(x, w).relu()


@case(lambda n: (leaf(4).expand(n, 4),), pure=True)
def plain_expanded_input(x):
    return x.cumsum(0)


@case(lambda n: (leaf(n, 4),), pure=True)
def plain_indices_as_results(x):
    values, indices = x.max(1)
    return values, indices, x.argmax(), x.sort(0), x.topk(2, 1)


@case(lambda n: (leaf(7, 4), torch.tensor([0, 2, 2])), pure=True)
def plain_embedding(w, i):
    return F.embedding(i, w), w[i], w.index_select(0, i)


@case(lambda n: (leaf(n, 4), leaf(4, 4), leaf(4)), pure=True)
def plain_layers(x, w, b):
    return F.gelu(F.layer_norm(F.linear(x, w, b), (4,))).log_softmax(1)


@case(lambda n: (leaf(2, n, 4), leaf(2, n, 4), leaf(2, n, 4)), pure=True, order=1)
def plain_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@case(lambda n: (leaf(n, 4),), pure=True)
def plain_detach(x):
    return x.sin().detach() * x, x.cos().detach()


@case(lambda n: (leaf(n), leaf(n)), pure=True)
def grad_mode_region_without(x, y):
    with torch.no_grad():
        z = x * y
    return z * x, z


@case(lambda n: (leaf(n),), pure=True)
def grad_mode_equal_work_inside_and_outside(x):
    with torch.no_grad():
        a = x + 1
    return a, x + 1


@case(lambda n: (leaf(n),), pure=True)
def grad_mode_region_with(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
        c = b * 2
    return a, b, c, a.requires_grad, b.requires_grad


@case(lambda n: (leaf(n),), pure=True)
def grad_mode_that_is_read(x):
    return x * (2 if torch.is_grad_enabled() else 3)


@case(lambda n: (leaf(n),))
def grad_mode_left_changed(x):
    try:
        torch.set_grad_enabled(False)
        return x * 2
    finally:
        torch.set_grad_enabled(True)


@case(lambda n: (leaf(n),), skip=("inference",))
def grad_mode_inference_region(x):
    with torch.inference_mode():
        y = x.sin()
    return x * 2, y.clone()


@case(lambda n: (leaf(n, 4),), pure=True)
def random_dropout(x):
    return F.dropout(x, 0.5) * F.dropout(x.sin(), 0.3)


@case(lambda n: (leaf(n, 4),), pure=True)
def random_numbers(x):
    noise = torch.randn_like(x) + torch.rand(x.shape, dtype=x.dtype)
    return x * noise, torch.bernoulli(torch.full_like(x, 0.5).detach()), torch.randperm(5)


@case(lambda n: (leaf(n, 4),), order=1)
def random_numbers_of_a_generator(x):
    return x * torch.rand(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(4))


@case(lambda n: (leaf(n), leaf(n)), pure=True, skip=("constant", "no_grad", "inference"))
def gradient_inside(x, y):
    (g,) = torch.autograd.grad((x.sin() * y).sum(), x, create_graph=True)
    return g * y


@case(lambda n: (leaf(n),), pure=True, skip=("constant", "no_grad", "inference"))
def gradient_of_a_gradient_inside(x):
    (g,) = torch.autograd.grad(x.pow(4).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    return h, g.detach()


@case(lambda n: (leaf(n),), pure=True, skip=("constant", "no_grad", "inference"))
def gradient_inside_of_a_fresh_leaf(x):
    y = x.detach().requires_grad_()
    (g,) = torch.autograd.grad((y * y * x.detach()).sum(), y)
    return x * g


@case(lambda n: (leaf(n),), skip=("constant", "no_grad", "inference"))
def gradient_result_is_a_fresh_leaf(x):
    return x * 2, x.detach().clone().requires_grad_()


@case(lambda n: (leaf(n, 4), leaf(4, 4)), pure=True, order=1, skip=("decomposed",), narrow=True)
def autocast_inside(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x.float() @ w.float()
        with torch.autocast("cpu", enabled=False):
            z = x.float() @ w.float()
    return y, z


@case(lambda n: (leaf(n, 4), leaf(n, 4)), pure=True)
def foreach_operators(x, y):
    return torch._foreach_mul([x, y], 2), torch._foreach_add([x, y], [y, x])


@case(lambda n: (leaf(n, 4),))
def values_item(x):
    return x * x.sum().item()


@case(lambda n: (leaf(n, 4),))
def values_that_choose(x):
    return x * 2 if x.sum() > 0 else x * 3


@case(lambda n: (leaf(n, 4),))
def values_nonzero(x):
    return x[x > 0], x.nonzero()


@case(lambda n: (leaf(n, 4),))
def values_tolist(x):
    return x * len([value for value in x.flatten().tolist() if value > 0])


@case(lambda n: (leaf(n, 4),), order=1)
def transforms_vmap(x):
    return torch.vmap(lambda row: row.sin() * row.sum())(x)


@case(lambda n: (leaf(n),), order=1)
def transforms_grad(x):
    return torch.func.grad(lambda x: x.sin().sum())(x)


@case(lambda n: (leaf(n),), order=1, skip=("inference",))
def transforms_jvp(x):
    return torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))


@case(lambda n: (computed(n, 4), constant(n)), pure=True)
def plain_inputs_that_are_no_leaves(x, y):
    return x.t() @ y


@case(lambda n: (leaf(n, 4),))
def sparse_inside(x):
    return torch.eye(3, dtype=x.dtype).to_sparse() @ x[:3]


@case(lambda n: (leaf(n),), pure=True)
def plain_same_result_twice(x):
    y = x.sin()
    return y, y, [y]


@case(lambda n: (leaf(n, 4),))
def checkpoint_of_torch(x):
    return torch.utils.checkpoint.checkpoint(lambda x: F.dropout(x.sin(), 0.5).cos(), x, use_reentrant=False)
