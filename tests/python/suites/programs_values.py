"""Programs whose host code asks for the values of tensors, or reckons with sizes."""
import math

import torch
import torch.nn.functional as F
from programs import add, add_functions, growing, integers, leaf, mask, positive, program, signed
from torch import distributions, nn

add_functions("values", {
    "item_scales": ((leaf(3),), lambda x: x / x.sum().item()),
    "count_divides": ((leaf(8), mask(8)), lambda x, mask: (x * mask).sum() / mask.sum().item()),
    "count_divides_as_integer": ((leaf(8), mask(8)), lambda x, mask: (x * mask).sum() / int(mask.sum()), 4),  # int() gives an int
    "count_in_arithmetic": ((leaf(8), mask(8)), lambda x, mask: x * (2 * mask.sum().item() + 1) / max(1, 3)),
    "count_clamped": ((leaf(8), mask(8)), lambda x, mask: (x * mask).sum() / max(mask.sum().item(), 1), 2),
    "number_of_tokens": ((leaf(8), integers(5, 8)), lambda x, y: x.sum() / (y != 0).sum().item()),
    "count_is_a_size": ((leaf(8), mask(8)), lambda x, mask: x[: mask.sum().item()] * 2, 4),
    "count_makes_a_tensor": ((leaf(8), mask(8)), lambda x, mask: x * torch.tensor(mask.sum().item()), 4),
    "bool_steers": ((signed(5),), lambda x: x.sin() if x.sum() > 0 else x.cos(), 2),
    "item_steers": ((signed(5),), lambda x: x * 2 if x.sum().item() > 0 else x * 3, 2),
    "float_steers": ((signed(5),), lambda x: x * 2 if float(x.sum()) > 0 else x * 3, 4),  # float() gives a float
    "int_of_float": ((positive(5),), lambda x: x * int(x.sum()), 4),
    "is_nan": ((leaf(5),), lambda x: x * 0 if math.isnan(x.sum().item()) else x.sin()),
    "any_is_nan": ((leaf(5),), lambda x: torch.nan_to_num(x) if torch.isnan(x).any() else x.sin()),
    "tolist": ((leaf(4), lambda step: torch.tensor([1, 2, 1])), lambda x, sizes: [part.sin() for part in x.split(sizes.tolist())]),
    "numpy": ((leaf(4), integers(2, 4)), lambda x, y: x * torch.from_numpy(y.numpy() * 2), 4),
    "nonzero": ((signed(6),), lambda x: x[x.nonzero().squeeze(1)].sin()),
    "mask_index": ((leaf(6), mask(6)), lambda x, mask: x[mask].sin().sum(), 4),
    "mask_write": ((leaf(6), mask(6)), lambda x, mask: x.sin().masked_fill(mask, 0).clone().index_put((mask,), torch.tensor(1.0)), 4),
    "mask_assign": ((leaf(6), mask(6)), lambda x, mask: assigned(x.sin(), mask)),
    "where_with_one_argument": ((leaf(6), mask(6)), lambda x, mask: x[torch.where(mask)[0]] * 2, 4),
    "equal": ((leaf(3),), lambda x: x * 2 if torch.equal(x, x.clone()) else x * 3),
    "allclose": ((leaf(3),), lambda x: x * 2 if torch.allclose(x, x + 1e-9) else x * 3),
    "one_hot": ((leaf(5, 3), lambda step: torch.tensor([0, 1, 2, 1, 0])), lambda x, y: (F.one_hot(y) * x).sum()),
    "unique": ((leaf(6), integers(3, 6)), lambda x, y: x[: len(torch.unique(y))].sin(), 4),
    "bincount": ((leaf(4), lambda step: torch.tensor([0, 1, 1, 3])), lambda x, y: x * torch.bincount(y)),
    "repeat_interleave": ((leaf(3), lambda step: torch.tensor([2, 1, 2])), lambda x, y: x.repeat_interleave(y).sin()),
    "argmax_indexes": ((leaf(4),), lambda x: x[x.argmax().item()].sin(), 4),
    "index_by_tensor": ((leaf(4),), lambda x: x[x.argmax()].sin(), 4),
    "topk_by_value": ((leaf(6), lambda step: torch.tensor(3)), lambda x, k: x.topk(int(k))[0].sin()),
    "while_a_norm_is_large": ((positive(4),), lambda x: halved_while_large(x), 4),
    "assertion": ((positive(4),), lambda x: checked(x)),
    "pad_by_maximum": ((leaf(2, 4), lambda step: torch.tensor([4, 3])), lambda x, lengths: x[:, : lengths.max()].sin()),
    "arange_by_lengths": ((leaf(2, 4), lambda step: torch.tensor([step % 3 + 1, 3])), lambda x, lengths: x * (torch.arange(x.shape[1]) < lengths[:, None])),
    "format": ((leaf(3),), lambda x: x * len(f"{x.shape} {x.dtype}")),
    "none_everywhere": ((leaf(3), lambda step: None, lambda step: {"a": None, "b": [None, 2]}), lambda x, y, d: {"x": x * d["b"][1], "y": y, "n": None}),
    "ctc": ((leaf(10, 2, 5), lambda step: torch.randint(1, 5, (2, 4))), lambda x, y: F.ctc_loss(x.log_softmax(-1), y, torch.tensor([10, 10]), torch.tensor([4, 3]))),
    "normal": ((leaf(3), positive(3)), lambda m, s: distributions.Normal(m, s).log_prob(torch.zeros(3)).sum()),
    "normal_rsample": ((leaf(3), positive(3)), lambda m, s: distributions.Normal(m, s).rsample().sin()),
    "kl": ((leaf(3), positive(3)), lambda m, s: distributions.kl_divergence(distributions.Normal(m, s), distributions.Normal(0.0, 1.0)).sum()),
    "categorical": ((leaf(4, 3),), lambda x: distributions.Categorical(logits=x).log_prob(torch.zeros(4, dtype=torch.long)).sum()),
    "categorical_sample": ((leaf(4, 3),), lambda x: sampled(distributions.Categorical(logits=x))),
    "multivariate": ((leaf(3),), lambda x: distributions.MultivariateNormal(x, torch.eye(3)).log_prob(torch.zeros(3))),
    "beta": ((positive(3), positive(3)), lambda a, b: distributions.Beta(a, b).entropy().sum()),
})  # fmt: skip

SIZES = {
    "divide": ((growing(3, 4),), lambda x: x.sum() / x.shape[0], 2),
    "root": ((lambda step: leaf(3, 2 + step)(step),), lambda x: x / math.sqrt(x.shape[-1]), 2),
    "arange": ((lambda step: leaf(3, 2 + step)(step),), lambda x: x + torch.arange(x.shape[1]), 2),
    "positions": ((lambda step: leaf(3, 2 + step)(step),), lambda x: x * torch.linspace(0, 1, x.shape[1]), 2),
    "halves": ((lambda step: leaf(3, 4 + 2 * step)(step),), lambda x: torch.cat([x[:, x.shape[1] // 2:], x[:, : x.shape[1] // 2]], 1).sin(), 2),
    "heads": ((lambda step: leaf(2, 3 + step, 4)(step),), lambda x: heads(x), 2),
    "causal": ((lambda step: leaf(2, 3 + step, 4)(step),), lambda x: F.softmax((x @ x.mT).masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -math.inf), -1), 2),
    "len": ((growing(3, 4),), lambda x: sum(row.sin() for row in x) / len(x), 5),
    "mean_by_numel": ((growing(3, 4),), lambda x: x.sin().sum() / x.numel(), 2),
    "branch": ((growing(3, 4),), lambda x: x.sin() if x.shape[0] > 4 else x.cos(), 3),
}
for _name, (_arguments, _function, _captures) in SIZES.items():
    add(f"sizes_{_name}", _arguments, lambda wrap, function=_function: wrap(function, dynamic=True), _captures, steps=5)


def assigned(y, mask):
    y[mask] = 1.0
    return y


def halved_while_large(x):
    while x.norm() > 1:
        x = x / 2
    return x


def checked(x):
    assert (x > 0).all(), "positive numbers are needed"
    return x.log()


def sampled(distribution):
    action = distribution.sample()
    return action, distribution.log_prob(action)


def heads(x):
    b, t, c = x.shape
    q = x.view(b, t, 2, c // 2).transpose(1, 2)
    scores = q @ q.transpose(-2, -1) * (1.0 / math.sqrt(q.size(-1)))
    return (F.softmax(scores, -1) @ q).transpose(1, 2).contiguous().view(b, t, c)


@program(leaf(6, 3), captures=4)
def values_batch_norm_without_momentum(wrap):
    return wrap(nn.BatchNorm1d(3, momentum=None))


@program(lambda step: torch.randn(5, 2, 8, requires_grad=True), steps=2)
def values_transformer_with_its_mask(wrap):
    model = wrap(nn.Transformer(8, 2, 1, 1, 16, dropout=0.0))
    return lambda x: model(x, x, tgt_mask=nn.Transformer.generate_square_subsequent_mask(5))


@program(leaf(2, 5, 8), captures=2, steps=2)
def values_encoder_with_padding(wrap):
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 1)
    model = wrap(layer)
    return lambda x: model(x, src_key_padding_mask=torch.arange(5).expand(2, 5) > 3)


@program(leaf(4, 3), lambda step: torch.tensor([4, 2, 1]), captures=1)
def values_packed_lstm(wrap):
    lstm = nn.LSTM(2, 3)
    f = wrap(lambda lstm, x, lengths: lstm(nn.utils.rnn.pack_padded_sequence(x[..., None].expand(4, 3, 2), lengths))[0].data)
    return lambda x, lengths: f(lstm, x, lengths)
