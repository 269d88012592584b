"""What programs of others do that a graph can't hold: each is refused in words of ours that say what to write instead."""
import copy
import pickle
import sys

import diptych
import pytest
import torch
from torch import library, nn
from torch.nn import functional


@library.custom_op("diptych_refusals::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * 2)


def normal(x):  # validate_args is the default, which torch.compile() changes
    return torch.distributions.Normal(x, torch.ones(3), validate_args=True).log_prob(x)


def packed(x, lengths):
    return nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True).data


WEIGHT, OTHER = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
CASES = {
    "mask": (lambda x: x[x > 0], "aten::index.Tensor in scope 'test_refusals.py", "where() or masked_fill()"),
    "nonzero": (lambda x: torch.where(x > 0), "aten::nonzero_numpy in scope", "keep the shape"),
    "unique": (torch.unique, "aten::_unique2", "pass its result"),
    "one_hot": (lambda x: functional.one_hot(x.long(), 5), "aten::one_hot", "indices.unsqueeze(-1) == arange"),
    "ctc": (lambda x: functional.ctc_loss(x[:, None], x[0].long(), (4,), (2,)), "aten::_ctc_loss", "return the log-probabilities"),
    "repeats": (lambda x: x.repeat_interleave(torch.tensor([1, 2, 0, 1]), 0), "aten::repeat_interleave.Tensor", "by a number"),
    "distribution": (normal, "needs the values", "pass validate_args=False"),
    "average": (nn.BatchNorm1d(3, momentum=None), "needs the values", "pass a momentum"),
    "text": (lambda x: (f"{x}", x)[1], "needs the values", "print it outside"),
    "packing": (lambda x: packed(x[None], [4]), "aten::_pack_padded_sequence in scope 'test_refusals.py", "needs the values", "a mask instead of a packed sequence"),
    "operator": (doubled, "[trace] diptych_refusals::doubled", "has no fake kernel", "register_fake()"),
    "gradient": (lambda x: torch.autograd.grad((x * OTHER).sum(), WEIGHT)[0], "[capture] test_refusals.py", "pass the tensor as an argument"),
}


@pytest.mark.parametrize("name", CASES)
def test_says_what_to_write_instead(name):
    function, *words = CASES[name]
    compiled = diptych.aot_function(function, path_limit=0, eager_fallback=False)
    for _ in range(2):  # a refusal leaves nothing behind
        with pytest.raises(diptych.UserError) as caught:
            compiled(torch.randn(4, 3))
        assert [word for word in words if word not in str(caught.value)] == []


def test_a_mask_of_a_transformer():
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, dropout=0.0), 1)
    x, mask = torch.randn(5, 2, 8), nn.Transformer.generate_square_subsequent_mask(5)
    with pytest.raises(diptych.UserError, match="pass is_causal=True or False"):
        diptych.aot_module(layer, path_limit=0, eager_fallback=False)(x, mask)
    torch.testing.assert_close(diptych.aot_module(layer)(x, mask, is_causal=True), layer(x, mask))


def test_what_the_remedies_say_is_right():
    x, indices = torch.randn(4, 3), torch.tensor([2, 0, 1, 2])
    for function in (
        lambda x: torch.distributions.Normal(x, torch.ones(3), validate_args=False).log_prob(x),
        lambda x: torch.distributions.Categorical(logits=x, validate_args=False).log_prob(indices),
        lambda x: (indices.unsqueeze(-1) == torch.arange(5)).long() + x.sum().long(),
        lambda x: torch.where(x > 0, x, 0.0).sum() + x.masked_fill(x > 0, 0.0),
        lambda x: x.repeat_interleave(2, 0),
    ):
        torch.testing.assert_close(diptych.aot_function(function)(x), function(x))


@diptych.aot_function(partition="min_cut")
def by_name(x):
    return x.sin() * 2


def not_replaced(x):
    return x.cos() * 2


def test_compiled_functions_are_copied_and_pickled():
    assert copy.deepcopy(by_name) is by_name and pickle.loads(pickle.dumps(by_name)) is by_name
    original, x = diptych.aot_function(not_replaced, partition="min_cut", cache_limit=3), torch.ones(2)
    original(x)
    for other in (copy.copy(original), copy.deepcopy(original), pickle.loads(pickle.dumps(original))):
        torch.testing.assert_close(other(x), not_replaced(x))
        assert other is not original and other.stats().misses == 1 and other.options == {"partition": "min_cut", "cache_limit": 3}
    scale = 3.0
    local = diptych.aot_function(lambda x: x * scale)
    torch.testing.assert_close(copy.deepcopy({"f": local})["f"](x), x * 3)


@pytest.mark.parametrize("change", ["fill_(2.0)", "zero_()"])
def test_a_fill_of_an_expanded_view_that_requires_grad(change):
    def f(x):
        base = x[0] * 1
        exec(f"base.expand(2, 3).{change}")
        return base + 1

    with pytest.raises(RuntimeError, match="single memory location"):  # eager runs the forward, and no backward
        f(torch.ones(2, 3, requires_grad=True)).sum().backward()
    with pytest.raises(diptych.UserError, match="a view whose elements overlap"):
        diptych.aot_function(f)(torch.ones(2, 3, requires_grad=True))
    torch.testing.assert_close(diptych.aot_function(f)(torch.ones(2, 3)), f(torch.ones(2, 3)))


SCALE = 2.0


class ReadsItsScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * SCALE


def test_what_a_backward_reads_changes_before_it_runs(monkeypatch):
    compiled = diptych.aot_function(lambda x: ReadsItsScale.apply(x).sin())

    def gradient(function):
        x = torch.ones(3, requires_grad=True)
        result = function(x)
        yield
        yield torch.autograd.grad(result.sum(), x)[0]

    for scale in (2.0, 3.0, 2.0):  # before the call
        monkeypatch.setattr(sys.modules[__name__], "SCALE", scale)
        ours, theirs = gradient(compiled), gradient(lambda x: ReadsItsScale.apply(x).sin())
        next(ours), next(theirs)
        torch.testing.assert_close(next(ours), next(theirs))
    for change in (lambda: monkeypatch.setattr(sys.modules[__name__], "SCALE", 5.0),
                   lambda: monkeypatch.setattr(ReadsItsScale, "backward", staticmethod(lambda ctx, gradient: gradient * 7))):
        late = gradient(compiled)
        next(late)
        change()
        with pytest.raises(diptych.UserError, match="the backward of 'ReadsItsScale'.* has changed since the call"):
            next(late)


def test_what_a_hook_reads_changes_before_it_runs(monkeypatch):
    scales = {"local": 2.0}
    shift = torch.ones(3)

    def scaled(x):
        y = x.sin()
        y.register_hook(lambda gradient: gradient * SCALE * scales["local"] + shift)
        y.register_hook(lambda gradient: gradient * y.detach())  # what the capture leaves in it is of the trace
        return y * 3

    def by_node(x):
        y = x.sin()
        y.grad_fn.register_prehook(lambda gradients: (gradients[0] * SCALE,))
        y.grad_fn.register_hook(lambda to, given: (to[0] * scales["local"],))
        return y * 3

    def by_module(register, hook):
        module = torch.nn.Tanh()
        getattr(module, register)(hook)
        return lambda x: module(x.sin()) * 3

    after = lambda module, to, given: (to[0] * SCALE * scales["local"],)  # noqa: E731
    before = lambda module, given: (given[0] * SCALE * scales["local"],)  # noqa: E731
    of_modules = [by_module("register_full_backward_hook", after), by_module("register_full_backward_pre_hook", before), by_module("register_backward_hook", after)]

    def started(function):
        x = torch.ones(3, requires_grad=True)
        result = function(x)
        return lambda: torch.autograd.grad(result.sum(), x)[0]

    for function in (scaled, by_node, *of_modules):
        compiled = diptych.aot_function(function)
        for scale in (2.0, 3.0, 2.0):  # before the call
            monkeypatch.setattr(sys.modules[__name__], "SCALE", scale)
            torch.testing.assert_close(started(compiled)(), started(function)())
        assert compiled.stats().originals == 0
        for change in (lambda: monkeypatch.setattr(sys.modules[__name__], "SCALE", 5.0), lambda: scales.update(local=scales["local"] + 1)):
            late = started(compiled)
            change()
            with pytest.raises(diptych.UserError, match="the backward of '.*lambda.* has changed since the call"):
                late()
