"""Functions that decide on the host by what a tensor holds."""
import random
import warnings

import diptych
import pytest
import torch
from torch import nn
from torch.nn import functional


def both(function, compiled, *arguments):
    """Calls both on copies from one seed; compares results, gradients, arguments afterwards, and the generator."""
    found = []
    for call in (function, compiled):
        torch.manual_seed(3)
        given = [one.detach().clone().requires_grad_(one.requires_grad) for one in arguments]
        result = call(*given)
        state = torch.get_rng_state()
        wanted = [one for one in given if one.requires_grad]
        gradients = torch.autograd.grad(result.square().sum(), wanted) if result.requires_grad else ()
        found.append((result, *gradients, *(one.detach() for one in given), state))
    torch.testing.assert_close(found[1], found[0], equal_nan=True)


def leaf(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(0), dtype=torch.double).requires_grad_()


X = leaf(4, 3)
FUNCTIONS = {
    "branch": lambda x: x * 2 if x.sum() > 0 else x.sin(),
    "int": lambda x: x.repeat(int(x.detach().abs().max().ceil()), 1),
    "while": lambda x: _halved(x),
    "mask": lambda x: x[x > 0] * 2,
    "mask of rows": lambda x: x[x.sum(1) > 0].exp(),
    "assigned by mask": lambda x: _assigned(x),
    "where": lambda x: x[torch.where(x > 0)].cos(),
    "masked_select": lambda x: x.masked_select(x < 0.5),
    "nonzero": lambda x: (x > 0).nonzero().double() * x.sum(),
    "unique": lambda x: x.detach().round().unique() * x.mean(),
    "repeats": lambda x: x.repeat_interleave((x.detach()[:, 0] > 0).long() + 1, 0),
    "one_hot": lambda x: functional.one_hot((x.detach()[:, 0] > 0).long(), 3) * x,
    "distribution": lambda x: torch.distributions.Normal(x, torch.ones(3, dtype=torch.double), validate_args=True).log_prob(x.detach()),
    "categorical": lambda x: torch.distributions.Categorical(logits=x).log_prob(torch.tensor([2, 0, 1, 2])),
    "bincount": lambda x: torch.bincount((x.detach()[:, 0] > 0).long()) * x.sum(),
    "equal": lambda x: x * 3 if torch.equal(x.detach().abs(), x.detach()) else x * 5,
    "text": lambda x: (f"{x.detach().sum():.2f}", x * 2)[1],
    "dropout before": lambda x: _dropped(x),
}


def _halved(x):
    while x.norm() > 1:
        x = x / 2
    return x


def _assigned(x):
    y = x * 1
    y[y > 0] = 0
    return y[y < -0.1]


def _dropped(x):
    y = functional.dropout(x, 0.5)
    return y * torch.rand_like(x) if y.sum() > 0 else y - torch.rand_like(x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name):
    compiled = diptych.aot_function(FUNCTIONS[name])
    for x in (X, X, X.abs(), X * 0.1, -X.abs(), X):
        both(FUNCTIONS[name], compiled, x.detach().requires_grad_())
    assert compiled.stats().hits >= 2 and compiled.stats().originals == 0


def test_a_miss_names_the_value():
    compiled = diptych.aot_function(lambda x, n: x / int(n))
    for value in (3, 4, 3):
        both(lambda x, n: x / int(n), compiled, X, torch.tensor(value))
    stats = compiled.stats()
    assert (stats.entries, stats.misses, stats.hits) == (2, 2, 1)
    assert "test_values_asked.py" in stats.last_miss and "asks for is 4, was 3" in stats.last_miss


def test_too_many_paths_run_the_function_and_say_so_once():
    compiled = diptych.aot_function(lambda x, n: x * int(n), path_limit=4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for value in range(9):
            both(lambda x, n: x * int(n), compiled, X, torch.tensor(value))
    assert [("keep the decision in tensors" in str(one.message)) for one in caught].count(True) == 1
    assert compiled.stats().originals >= 4 and "more than 4 paths" in compiled.stats().last_original


def test_a_pair_and_a_body_have_nobody_to_ask():
    with pytest.raises(diptych.UserError, match="needs the values of a tensor"):
        diptych.capture(lambda x: x * x.sum().item(), X)
    with pytest.raises(diptych.UserError, match="needs the values of a tensor"):
        diptych.aot_function(lambda x: diptych.scan(lambda c, s: (c + s.sum().item(), s), x[0], x)[0])(X)


def test_modules_with_statistics_that_are_averaged():
    module = nn.BatchNorm1d(3, momentum=None)
    eager = nn.BatchNorm1d(3, momentum=None)
    compiled = diptych.aot_module(module)
    for _ in range(4):
        torch.testing.assert_close(compiled(X.float()), eager(X.float()))
    torch.testing.assert_close(dict(module.named_buffers()), dict(eager.named_buffers()))


def test_a_transformer_with_its_mask():
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, dropout=0.0, batch_first=True), 1)
    x, mask = torch.randn(2, 5, 8), nn.Transformer.generate_square_subsequent_mask(5)
    compiled = diptych.aot_module(layer)
    torch.testing.assert_close(compiled(x, mask), layer(x, mask))
    other = torch.zeros(5, 5)
    torch.testing.assert_close(compiled(x, other), layer(x, other))
    torch.testing.assert_close(compiled(x, mask), layer(x, mask))
    assert compiled.stats().entries == 2


class Table(nn.Module):
    """Makes a tensor that no graph holds, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 2, sparse=True)
        self.calls = []

    def forward(self, indices):
        self.calls.append(len(self.calls))
        return self.table(indices).to_sparse().to_dense() * 2


def test_a_module_that_cannot_be_captured_runs_itself_and_says_so_once():
    eager, indices = Table(), torch.tensor([1, 3])
    module = Table()
    module.load_state_dict(eager.state_dict())
    compiled = diptych.aot_module(module)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            for call in (eager, compiled):
                call(indices).sum().backward()
    assert len([one for one in caught if "runs uncompiled" in str(one.message)]) == 1
    assert module.calls == eager.calls == [0, 1, 2]
    torch.testing.assert_close(module.table.weight.grad.to_dense(), eager.table.weight.grad.to_dense())
    assert compiled.stats().originals == 3


def test_what_is_refused_is_named_in_the_warning():
    def resized(x):
        return (x * 1).resize_(2) * 2

    compiled = diptych.aot_function(resized, eager_fallback=True)
    with pytest.warns(UserWarning, match=r"runs uncompiled.*aten::resize_.*test_values_asked.py"):
        torch.testing.assert_close(compiled(X.detach()), X.detach().flatten()[:2] * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(compiled(X.detach()), X.detach().flatten()[:2] * 2)
    assert (compiled.stats().refusals, compiled.stats().originals) == (1, 2)
    with pytest.raises(diptych.UserError, match="aten::resize_"):
        diptych.aot_function(resized)(X.detach())


def test_an_error_of_the_function_stays_its_own():
    compiled = diptych.aot_function(lambda x: x @ torch.ones(7), eager_fallback=True)
    with pytest.raises(RuntimeError, match="size mismatch|inconsistent|shape"):
        compiled(X.float())


def test_random_programs_that_decide_by_values():
    for seed in range(30):
        function = _program(random.Random(seed))
        compiled = diptych.aot_function(function, path_limit=40)
        for x in (X, -X.detach().requires_grad_(), (X.detach() * 0.3).requires_grad_(), X):
            both(function, compiled, x)
        assert compiled.stats().hits >= 1, seed


def _program(draw):
    """A program of a few steps, of which some are chosen by what the tensors hold."""
    unary = [torch.sin, torch.tanh, lambda t: t * 1.5, lambda t: t - t.detach().mean(), lambda t: functional.dropout(t, 0.3)]
    tests = [lambda t: t.sum() > 0, lambda t: (t > 0).any(), lambda t: t.detach().norm().item() > 1, lambda t: len((t > 0.2).nonzero()) > 3]
    steps = []
    for _ in range(draw.randrange(2, 6)):
        test, first, second = draw.choice(tests), draw.choice(unary), draw.choice(unary)
        kind = draw.randrange(4)
        if kind == 0:
            steps.append(lambda t, a=first: a(t))
        elif kind == 1:
            steps.append(lambda t, c=test, a=first, b=second: a(t) if c(t) else b(t))
        elif kind == 2:
            steps.append(lambda t, a=first: torch.where(t > 0, a(t), t).index_put((t.detach() < -1,), torch.zeros((), dtype=torch.double)))
        else:
            steps.append(lambda t, a=first: t + a(t[t > 0]).sum())

    def program(x):
        for step in steps:
            x = step(x)
        return x

    return program


@pytest.mark.parametrize("mask", [torch.tensor([True, True, False]), torch.ones(7, dtype=torch.bool), torch.ones(2, 2, dtype=torch.bool)])
def test_a_mask_that_does_not_fit_is_eagers_error(mask):
    with pytest.raises(IndexError, match="The shape of the mask|too many indices"):
        diptych.aot_function(lambda x: x[mask] * 2)(torch.arange(5.0))


def test_masks_of_no_dimension_and_closeness():
    for function in (
        lambda x: x.masked_select(x > 0),
        lambda x: x * 2 if torch.allclose(x, x + 1e-12) else x * 3,
        lambda x: x if torch.equal(x, x.detach().float()) else x * 5,
        lambda x: x if torch.equal(x, x.detach().bool()) else x * 5,
        lambda x: x * x.detach().item(),
        lambda x: x * x.item(),
    ):
        compiled = diptych.aot_function(function)
        for _ in range(3):
            both(function, compiled, torch.tensor(3.0, dtype=torch.double).requires_grad_())
        assert compiled.stats().entries == 1


def test_values_of_tensors_that_share_memory():
    def function(x, b):
        whole = torch.zeros(4, 4, dtype=torch.double)
        b.add_(1)
        return x * 2 if b.sum() > 3 else x * whole.sum()

    memory = torch.zeros(4, 4, dtype=torch.double)
    compiled = diptych.aot_function(function)
    for _ in range(3):
        torch.testing.assert_close(compiled(memory[0], memory[:, 1:3]), memory[0] * 2 if memory[:, 1:3].sum() > 3 else memory[0] * 0)
    assert compiled.stats().originals == 0


def test_a_count_that_depends_on_rounding():
    x = torch.linspace(-1, 1, 4001)
    for limit in x.exp()[::97].tolist():
        compiled = diptych.aot_function(lambda x, limit=limit: x[x.exp() > limit] * 2)
        torch.testing.assert_close(compiled(x), x[x.exp() > limit] * 2)


def test_the_grad_mode_after_a_refusal():
    def function(x):
        y = x * 2
        torch.set_grad_enabled(False)
        (x * 3).data_ptr()
        torch.set_grad_enabled(True)
        return y

    compiled = diptych.aot_function(function, eager_fallback=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            assert compiled(torch.ones(2, requires_grad=True)).requires_grad and torch.is_grad_enabled()
    assert compiled.stats().refusals == 1


def test_a_capture_keeps_no_batch_alive():
    compiled = diptych.aot_function(lambda x: x[x > 0].sum() * x[0].item())
    x = torch.ones(100)
    others = x.untyped_storage()._cdata and torch._C._storage_Use_Count(x.untyped_storage()._cdata)
    compiled(x)
    assert torch._C._storage_Use_Count(x.untyped_storage()._cdata) == others


def test_answers_beyond_64_signed_bits():
    function = lambda x, n: (x * (2 if n.item() > 5 else 3), n.tolist())  # noqa: E731
    compiled = diptych.aot_function(function)
    for value in (3, 2**63, 2**64 - 1, 3):
        n = torch.tensor(value, dtype=torch.uint64)
        (got, number), (expected, _) = compiled(torch.ones(2), n), function(torch.ones(2), n)
        torch.testing.assert_close(got, expected)
        assert type(number) is int and number == value
