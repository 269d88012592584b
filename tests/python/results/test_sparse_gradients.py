"""Sparse gradients of embeddings over compiled functions."""
import diptych
import pytest
import torch
from torch import nn
from torch.nn import functional

INDICES = torch.tensor([[1, 2, 2], [0, 5, 1]])


def weight():
    return torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()


def same_gradients(function, *others, backward=2):
    """Gradients of the weight and others are the same tensors: layout, indices in their order, and values."""
    compiled = diptych.aot_function(function)
    found = []
    for call in (function, compiled):
        w, *rest = weight(), *(one.detach().clone().requires_grad_() for one in others)
        for _ in range(backward):
            call(w, *rest).sum().backward()
        found.append([w.grad, *(one.grad for one in rest)])
    for ours, eager in zip(found[1], found[0], strict=True):
        same(ours, eager)
    assert compiled.stats().originals == 0 and compiled.stats().misses == 1
    return found[1]


def same(ours, eager):
    assert ours.layout == eager.layout
    if ours.is_sparse:
        assert ours.is_coalesced() == eager.is_coalesced()
        torch.testing.assert_close(ours._indices(), eager._indices())
        torch.testing.assert_close(ours._values(), eager._values())
    else:
        torch.testing.assert_close(ours, eager)


def embedded(w, **options):
    return functional.embedding(INDICES, w, sparse=True, **options)


OFFSETS = torch.tensor([0, 2])
FUNCTIONS = {
    "one": lambda w: embedded(w).sin(),
    "padding": lambda w: embedded(w, padding_idx=2).exp(),
    "two lookups": lambda w: embedded(w).sin() + embedded(w).flip(0) * 2,
    "three lookups": lambda w: embedded(w).sin() + embedded(w).flip(0) * 2 + functional.embedding(INDICES.t(), w, sparse=True).cos().mean(),
    "bag": lambda w: functional.embedding_bag(INDICES.view(-1), w, OFFSETS, mode="sum", sparse=True).sin(),
    "bag of means": lambda w: functional.embedding_bag(INDICES.view(-1), w, OFFSETS, mode="mean", sparse=True).exp(),
    "gather": lambda w: torch.gather(w, 1, torch.tensor([[0, 1], [2, 0]]), sparse_grad=True).exp(),
    "dense after": lambda w: embedded(w).sin().sum() + (w * w).sum(),
    "dense before": lambda w: (w * w).sum() + embedded(w).sin().sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name):
    (gradient,) = same_gradients(FUNCTIONS[name])
    assert gradient.is_sparse == ("dense" not in name)


def test_weights_of_a_bag():
    same_gradients(
        lambda w, p: functional.embedding_bag(INDICES.view(-1), w, OFFSETS, mode="sum", sparse=True, per_sample_weights=p), torch.rand(6)
    )


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(6, 3, sparse=True)
        self.bags = nn.EmbeddingBag(6, 3, sparse=True)
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(self.words(x).mean(1).tanh() + self.bags(x))


@pytest.mark.parametrize("backend", ["interpreter", "native"])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.SparseAdam])
def test_steps_of_optimizers(optimizer, backend):
    found = []
    for compiles in (False, True):
        model = Model()
        run = diptych.aot_module(model, backend=backend) if compiles else model
        sparse = optimizer([*model.words.parameters(), *model.bags.parameters()], lr=0.1)
        dense = torch.optim.SGD(model.head.parameters(), lr=0.1)
        for step in range(3):
            sparse.zero_grad()
            dense.zero_grad()
            run((INDICES + step) % 6).square().sum().backward()
            assert model.words.weight.grad.is_sparse
            sparse.step()
            dense.step()
        if compiles:
            assert run.stats().originals == 0
        found.append([p.detach() for p in model.parameters()])
    torch.testing.assert_close(found[1], found[0])


def test_as_a_result_of_the_function_it_is_refused():
    with pytest.raises(diptych.UserError, match="returns a sparse tensor, as the gradient of an embedding"):
        diptych.value_and_grad(lambda w: embedded(w).sin().sum())(weight().detach())


def test_into_a_tensor_that_is_no_leaf():
    compiled = diptych.aot_function(lambda w: embedded(w).sin())
    found = []
    for call in (lambda w: embedded(w).sin(), compiled):
        w = weight()
        call(w * 1.0).sum().backward()
        found.append(w.grad.to_dense())
    torch.testing.assert_close(found[1], found[0])


def test_what_computes_with_one_is_refused():
    with pytest.raises(diptych.UserError, match="reads a sparse gradient, as an embedding with sparse=True"):
        diptych.aot_function(lambda w: embedded(w * 2))(weight())

    def hooked(w):
        v = w.view(6, 3)
        v.register_hook(lambda g: g * 2)
        return embedded(v)

    with pytest.raises(diptych.UserError, match="reads a sparse gradient"):
        diptych.aot_function(hooked)(weight())


def test_the_second_order_is_refused():
    w = weight()
    y = diptych.aot_function(lambda w: embedded(w).sin())(w)
    with pytest.raises(diptych.UserError, match="sparse"):
        torch.autograd.grad(y.sum(), w, create_graph=True)
