"""Captures of CUDA tensors beside eager, on a machine that has a GPU: `make test-gpu`. No name begins with test_, so that `make test` passes by."""
import copy

import pytest
import torch
import torch.nn.functional as F

import diptych

BACKENDS = ["interpreter", *(["xla"] if "xla" in diptych.backend_names() else [])]


class Block(torch.nn.Module):
    """Embedding, attention, normalization, dropout and a tied head."""

    def __init__(self, dropout):
        super().__init__()
        self.table = torch.nn.Embedding(50, 32)
        self.block = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=dropout, batch_first=True)

    def forward(self, tokens):
        logits = self.block(self.table(tokens)) @ self.table.weight.t()
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


class Convolutions(torch.nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(inplace=True), torch.nn.MaxPool2d(2), torch.nn.Dropout(dropout)
        )

    def forward(self, images):
        return self.layers(images).square().mean()


MODELS = {
    "block": (Block, lambda: torch.randint(50, (4, 16), device="cuda")),
    "convolutions": (Convolutions, lambda: torch.randn(4, 3, 8, 8, device="cuda")),
}


def losses(model, make_batch, steps=5):
    torch.manual_seed(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(make_batch())
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return torch.stack(found)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_training_does_as_eager(name, backend, dropout):
    if dropout and backend == "xla":
        pytest.skip("XLA draws numbers of its own")
    make, make_batch = MODELS[name]
    torch.manual_seed(1)
    model = make(dropout).cuda()
    compiled = diptych.aot_module(copy.deepcopy(model), backend=backend)
    expected, got = losses(model, make_batch), losses(compiled, make_batch)
    assert compiled.stats().misses == 1 and compiled.stats().originals == 0
    torch.testing.assert_close(got, expected, rtol=0 if backend == "interpreter" else 1e-4, atol=0 if backend == "interpreter" else 1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_a_capture_by_types_runs_on_tensors(name):
    make, make_batch = MODELS[name]
    model, batch = make(0.0).cuda(), make_batch()
    by_types = diptych.capture(model, diptych.spec(batch.shape, batch.dtype, "cuda"))
    assert by_types.code() == diptych.capture(model, batch).code()
    (loss, *_), _ = by_types.forward_call([batch])
    assert torch.equal(loss, model(batch))


def test_autocast_is_as_in_eager():
    x, w = torch.randn(8, 8, device="cuda"), torch.randn(8, 8, device="cuda", requires_grad=True)

    def f(x, w):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return (x @ w).tanh()

    got, expected = diptych.aot_function(f, backend="interpreter")(x, w), f(x, w)
    assert got.dtype == expected.dtype == torch.bfloat16 and torch.equal(got, expected)
    grads = [torch.autograd.grad(result.float().sum(), w)[0] for result in (got, expected)]
    assert torch.equal(*grads)


def test_two_devices_are_refused_as_in_eager():
    def f(x, y):
        return x + y

    arguments = torch.randn(3, device="cuda"), torch.randn(3)
    for run in (f, diptych.aot_function(f)):
        with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cpu!"):
            run(*arguments)
    assert torch.equal(diptych.aot_function(f)(arguments[0], torch.tensor(2.0)), arguments[0] + 2)
