"""Backwards of compiled functions that are batched, as jacrev does it: of writes to parts, whose ends count from the back or lie beyond, of
attention, of traces and fills by index, and of Fourier transforms, which write to parts of complex tensors."""
import diptych
import pytest
import torch
from torch import nn
from torch.func import grad, hessian, jacfwd, jacrev, vjp, vmap
from torch.nn import functional as F

from loops import close

checkpoint, aot = diptych.checkpoint, diptych.aot_function
DOUBLE = torch.float64
x = torch.linspace(-1.2, 0.9, 4, dtype=DOUBLE)
w = torch.linspace(-1, 1, 16, dtype=DOUBLE).view(4, 4).sin() + torch.eye(4, dtype=DOUBLE)


def writes(change):
    def function(x):
        y = torch.outer(x, x.exp())
        change(y, x)
        return y

    return function


def fill_by_index_in_place(y, x):
    y.index_fill_(1, torch.tensor([3, 0, 3]), x[1] * 3)


WRITES = {
    "from": lambda y, x: y[1:].copy_(x[:-1, None]), "even": lambda y, x: y[::2].mul_(x), "odd": lambda y, x: y[:, 1::2].add_(x[:2]),
    "last": lambda y, x: y[-1].copy_(x), "last of the last dim": lambda y, x: y[..., -1].mul_(x), "but the last": lambda y, x: y[:-1].mul_(x),
    "beyond": lambda y, x: y[2:100].copy_(x), "from far before": lambda y, x: y[-100:2].copy_(x), "none": lambda y, x: y[3:1].copy_(x),
    "one from the back": lambda y, x: y[:, -2:-1].copy_(x[:, None]), "within": lambda y, x: y[1:3].copy_(x), "diagonal": lambda y, x: y.fill_diagonal_(0.),
    "by strides": lambda y, x: y.as_strided((4,), (5,)).mul_(x), "by strides from": lambda y, x: y.as_strided((3,), (5,), 1).mul_(x[1:]),
    "windows apart": lambda y, x: y.unfold(0, 2, 2).mul_(x[0]), "by index": fill_by_index_in_place,
}
FUNCTIONS = {name: writes(change) for name, change in WRITES.items()} | {
    "trace": lambda x: torch.outer(x, x.exp()).trace() * x,
    "fill": lambda x: torch.outer(x, x).index_fill(-2, torch.tensor([2, 0]), x[1].sin()),
    "fill of one": lambda x: x[0].index_fill(0, torch.tensor([0]), x[1]) * x,
    "select": lambda x: torch.select_scatter(torch.outer(x, x), x.sin(), -1, -2),
}
each_function = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
TRANSFORMS = {
    "jacrev": lambda f: jacrev(f)(x),
    "jacrev of jacrev": lambda f: jacrev(jacrev(f))(x),
    "hessian": lambda f: hessian(lambda x: f(x).sin().sum())(x),
    "grad of grad": lambda f: grad(lambda x: grad(lambda x: f(x).sin().sum())(x).sin().sum())(x),
    "vmap of grad": lambda f: vmap(grad(lambda x, s: (f(x) * s).sum()), (None, 0))(x, x),
    "vmap of vjp": lambda f: vmap(vjp(lambda x: f(x).sum() * x, x)[1])(torch.eye(4, dtype=DOUBLE)),
}


@each_function
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("way", [aot, checkpoint], ids=["compiled", "operator"])
def test_writes(function, transform, way):
    close(transform(way(function)), transform(function))


def attention(w, **options):
    heads = w.view(1, 4, 2, 2).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads * 2, heads.sin(), **options).transpose(1, 2).reshape(4, 4)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"attn_mask": torch.ones(4, 4, dtype=torch.bool).tril()}], ids=["plain", "causal", "mask"])
def test_attention(options):
    close(jacrev(aot(lambda w: attention(w, **options)))(w), jacrev(lambda w: attention(w, **options))(w))


def test_attention_of_a_module():
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True, dtype=DOUBLE).requires_grad_(False)
    given = w.expand(1, 4, 4).contiguous()
    close(jacrev(diptych.aot_module(layer))(given), jacrev(layer)(given))


def write_a_slice(x):
    z = torch.complex(x, x.exp())
    z[-3:-1] = torch.complex(x, x)[:2].sin()
    return z.abs()


def write_an_element(x):
    z = torch.complex(x, x.exp())
    z[-2] = torch.complex(x[0], x[1]).sin()
    return z.abs()


FOURIER = {
    "rfft": lambda x: torch.fft.rfft(x).abs(), "irfft": lambda x: torch.fft.irfft(torch.complex(x, x.sin())),
    "hfft": lambda x: torch.fft.hfft(torch.complex(x, x.sin())), "irfft2": lambda x: torch.fft.irfft2(torch.complex(x, x.sin()).view(2, 2)),
    "stft": lambda x: torch.stft(x.repeat(4), 8, window=torch.ones(8, dtype=DOUBLE), return_complex=True).abs(),
    "slice": write_a_slice, "element": write_an_element,
}


@pytest.mark.parametrize("function", FOURIER.values(), ids=FOURIER)
def test_second_derivatives_of_fourier_transforms(function):
    def second(f):
        return grad(lambda x: grad(lambda x: f(x).sin().sum())(x).sin().sum())(x)

    close(second(aot(function)), second(function))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [
    lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=0), n=x.shape[0], dim=0), lambda x: torch.fft.irfft(torch.fft.rfft(x), n=4),
    lambda x: torch.fft.hfft(torch.complex(x, x.sin()).t()), lambda x: torch.complex(x, x.sin()).index_fill(0, torch.tensor([1]), 2).abs(),
], ids=["along the first dim", "along the last", "of a transpose", "filled"])
def test_gradients_of_gradients_with_complex_parts(function, dynamic):
    def second(f, rows):
        x = torch.linspace(-1, 1, rows * 4, dtype=DOUBLE).view(rows, 4).requires_grad_()
        g, = torch.autograd.grad(f(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), x)

    compiled = aot(function, dynamic=dynamic)
    for rows in (4, 6, 7, 4):
        close(second(compiled, rows), second(function, rows))


def test_divergence_by_score_matching():
    parameters = {"a": w, "b": x}
    net = lambda p, x: torch.tanh(p["a"] @ x + p["b"])  # noqa: E731

    def loss(jacobian, score):
        return (torch.trace(jacobian) + 0.5 * (score * score).sum()) ** 2

    def per_sample(loss):
        return vmap(grad(lambda p, x: loss(jacfwd(lambda x: net(p, x))(x), net(p, x))), (None, 0))(parameters, w)

    close(per_sample(aot(loss)), per_sample(loss))


def test_trace_is_differentiated_again():
    def second(f):
        y = w.clone().requires_grad_()
        g, = torch.autograd.grad(f(y), y, create_graph=True)
        return torch.autograd.grad((g * y).sum(), y)

    close(second(aot(lambda w: w.trace() ** 2)), second(lambda w: w.trace() ** 2))


# cosine_similarity writes to a norm where autograd does not see it.
@pytest.mark.parametrize("transform", [lambda f: jacrev(f)(w), lambda f: jacrev(jacrev(f))(w), lambda f: jacfwd(f)(w)], ids=["jacrev", "jacrev of jacrev", "jacfwd"])
def test_a_write_that_autograd_does_not_see_runs_the_function_itself(transform):
    function = lambda w: F.cosine_similarity(w, w.t())  # noqa: E731
    compiled = aot(function)
    close(transform(compiled), transform(function))
    assert "does not see it" in compiled.stats().last_original
