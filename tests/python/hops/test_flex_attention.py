"""torch's flex_attention inside captured functions, where it is written out: values, gradients of what scores are made with, and what
guards see of masks."""
from functools import partial

import diptych
import pytest
import torch
from as_near import assert_as_true, shaken, to_wide
from beside_eager import Cases
from diptych._dynamo import backend
from torch import nn
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

pytestmark = [pytest.mark.filterwarnings(f"ignore:{words}") for words in ("flex_attention called without", "return_lse is deprecated")]

LENGTH = 8
SLOPES = torch.tensor([0.5, -1.0, 2.0, 0.25], requires_grad=True)
TABLE = torch.linspace(-1, 1, 4 * 16).sin().reshape(4, 16).requires_grad_()
DOCUMENTS = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2])
CASES = Cases()  # functions of a query, a key and a value [2, 4, 8, 16]


def block_mask(mask_mod):
    return create_block_mask(mask_mod, None, None, LENGTH, LENGTH, device="cpu")


def causal(b, h, q, k):
    return q >= k


def same_document(b, h, q, k):
    return DOCUMENTS[q] == DOCUMENTS[k]


def of_table(score, b, h, q, k):
    return score * SLOPES[h] + TABLE[h, q - k + LENGTH]


CAUSAL = block_mask(causal)


@CASES
def plain(q, k, v):
    return flex_attention(q, k, v)


@CASES
def with_a_scale(q, k, v):
    return flex_attention(q, k, v, scale=0.3)


@CASES
def score_of_places(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda score, b, h, q, k: score + (q - k) * (h + 1) / (b + 1))


@CASES
def score_of_captured_tensors(q, k, v):
    return flex_attention(q, k, v, score_mod=of_table)


@CASES
def masked(q, k, v):
    return flex_attention(q, k, v, block_mask=CAUSAL)


@CASES
def score_and_mask(q, k, v):
    return flex_attention(q, k, v, score_mod=of_table, block_mask=CAUSAL)


@CASES
def mask_made_inside(q, k, v):
    return flex_attention(q, k, v, block_mask=block_mask(flex.and_masks(causal, same_document)))


@CASES
def rows_without_keys(q, k, v):
    return flex_attention(q, k, v, score_mod=of_table, block_mask=block_mask(lambda b, h, q, k: q < k))


@CASES
def grouped_heads(q, k, v):
    return flex_attention(q, k[:, :2], v[:, :2], score_mod=of_table, enable_gqa=True)


@CASES
def with_log_of_sums(q, k, v):
    return flex_attention(q, k, v, score_mod=of_table, return_lse=True)


@CASES
def with_auxiliary_results(q, k, v):
    return flex_attention(q, k, v, score_mod=of_table, return_aux=flex.AuxRequest(lse=True))


@CASES
def strides_of_the_query(q, k, v):
    return flex_attention(q.transpose(1, 2).contiguous().transpose(1, 2), k, v)


@CASES
def in_doubles(q, k, v):
    return flex_attention(q.double(), k.double(), v.double(), score_mod=of_table)


@CASES
def dense_mask(q, k, v):
    return flex.create_mask(causal, 2, 4, LENGTH, LENGTH, device="cpu") * (q * k).sum()


@CASES
def in_a_score(q, k, v):
    return flex.create_mask(lambda score, b, h, q, k: torch.where(q >= k, score, -float("inf")), 2, 4, LENGTH, LENGTH, device="cpu") * v.sum()


def inputs():
    torch.manual_seed(0)
    return [torch.randn(2, 4, LENGTH, 16) for _ in range(3)]


def seen(function):
    """Results, what they look like, and gradients of what the scores are made with, of a call."""
    results = [leaf for leaf in torch.utils._pytree.tree_leaves(function(*inputs())) if isinstance(leaf, torch.Tensor)]
    floating = [result for result in results if result.requires_grad]
    gradients = torch.autograd.grad([one.square().sum() for one in floating], (SLOPES, TABLE)) if floating else ()
    return [*results, *gradients], [(one.requires_grad, one.stride(), one.dtype) for one in results]


def agrees_with_eager(name, compiled):
    values, looks = seen(CASES[name])
    for _ in range(2):
        found, found_looks = seen(compiled)
        torch.testing.assert_close(found, values, rtol=1e-4, atol=1e-5)
        assert found_looks == looks


@pytest.mark.parametrize("name", CASES)
def test_beside_eager(name):
    compiled = diptych.aot_function(CASES[name])
    agrees_with_eager(name, compiled)
    assert (compiled.stats().misses, compiled.stats().originals) == (1, 0)


@pytest.mark.parametrize("name", ["plain", "score_and_mask", "grouped_heads", "with_log_of_sums"])
def test_in_a_graph_of_dynamo(name):
    torch.compiler.reset()
    agrees_with_eager(name, torch.compile(CASES[name], backend=backend, options={"eager_fallback": False}))


def second_derivatives(function, leaves, given):
    first = torch.autograd.grad(function(*given).square().sum(), leaves, create_graph=True)
    return [*first, *torch.autograd.grad(sum(one.square().sum() for one in first), leaves)]


def derivatives_of_attention(convert=lambda x: x):
    """By torch's own attention, of converted tensors."""
    slopes, table = leaves = [convert(leaf.detach()).clone().requires_grad_() for leaf in (SLOPES, TABLE)]

    def attention(q, k, v):
        bias = (q @ k.mT) * (slopes[:, None, None] - 1) / 4 + table[:, torch.arange(8)[:, None] - torch.arange(8) + LENGTH]
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)

    return second_derivatives(attention, leaves, map(convert, inputs()))


def test_second_derivatives_are_those_of_attention():
    """Where torch's own flex_attention has none."""
    found = second_derivatives(diptych.aot_function(score_of_captured_tensors), (SLOPES, TABLE), inputs())
    neighbours = [derivatives_of_attention(partial(shaken, seed=seed)) for seed in range(4)]
    assert_as_true(found, derivatives_of_attention(), derivatives_of_attention(to_wide), neighbours)


def test_autocast():
    def cast(q, k, v):
        with torch.autocast("cpu", torch.bfloat16):
            return flex_attention(q, k, v, score_mod=of_table)

    compiled = diptych.aot_function(cast)
    expected = cast(*inputs())
    found = compiled(*inputs())
    torch.testing.assert_close(found, expected)
    assert found.dtype is torch.bfloat16 and found.requires_grad


def test_sizes_stay_open():
    compiled = diptych.aot_function(score_of_places, dynamic=True)
    for length in (4, 8, 12, 13):
        q, k, v = (torch.randn(2, 4, length, 16) for _ in range(3))
        torch.testing.assert_close(compiled(q, k, v), score_of_places(q, k, v), rtol=1e-4, atol=1e-5)
    assert compiled.stats().misses <= 2


def test_masks_are_guarded():
    """A mask as an argument: what its mask_mod computes, and with what, is in the graph."""
    compiled = diptych.aot_function(lambda q, k, v, mask: flex_attention(q, k, v, block_mask=mask))
    of_others = torch.tensor([0, 0, 1, 1, 1, 1, 1, 1])
    masks = [CAUSAL, block_mask(same_document), block_mask(lambda b, h, q, k: of_others[q] == of_others[k]), block_mask(flex.or_masks(causal, same_document)), CAUSAL]
    for mask in masks:
        torch.testing.assert_close(compiled(*inputs(), mask), flex_attention(*inputs(), block_mask=mask), rtol=1e-4, atol=1e-5)
    assert (compiled.stats().misses, compiled.stats().hits) == (4, 1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.slopes = nn.Parameter(torch.randn(4))
        self.mask, self.window = block_mask(causal), 3

    def score(self, score, b, h, q, k):
        return torch.where(q - k < self.window, score * self.slopes[h], -float("inf"))

    def forward(self, q, k, v):
        return flex_attention(q, k, v, score_mod=self.score, block_mask=self.mask)


def test_a_module_whose_mask_and_scores_change():
    module = Attention()
    compiled = diptych.aot_module(module, eager_fallback=False)

    def agrees():
        expected, found = module(*inputs()), compiled(*inputs())
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        gradients = [torch.autograd.grad(one.square().sum(), module.slopes)[0] for one in (expected, found)]
        torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)

    agrees()
    module.window = 5
    agrees()
    module.mask = block_mask(same_document)
    agrees()
    module.mask.mask_mod = causal
    agrees()
    assert compiled.stats().misses == 4


def test_what_torch_refuses_is_torchs_error():
    q, k, v = inputs()
    for arguments in ((q.requires_grad_(), k, v), (q.detach(), k[:, :2], v[:, :2])):
        with pytest.raises((NotImplementedError, ValueError)) as eager:
            flex_attention(*arguments)
        with pytest.raises(eager.type) as compiled:
            diptych.aot_function(plain)(*arguments)
        assert str(compiled.value) == str(eager.value)
