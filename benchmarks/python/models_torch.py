"""The benchmark models in plain torch: functions over flat lists of tensors.

cpp/models.h and models_jax.py hold the same models with the same shapes and the same order of parameters. Parameters
are made with `torch.empty` unless they are to be run, so that a 124M model costs no memory until it is touched.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F


@dataclass
class Model:
    """A function and its arguments: `loss(params, buffers, data)`; gradients are wanted for `params`."""

    loss: object
    params: list
    buffers: list = field(default_factory=list)
    data: list = field(default_factory=list)


@dataclass(frozen=True)
class GptShape:
    layers: int
    width: int
    heads: int
    vocab: int
    block: int
    batch: int


GPT = GptShape(layers=6, width=384, heads=6, vocab=256, block=256, batch=8)
GPT2 = GptShape(layers=12, width=768, heads=12, vocab=50257, block=256, batch=4)
GPT2_POSITIONS = 1024  # GPT-2 has 1,024 positions, of which a block of 256 is used here


def parameter(*shape, run=False):
    if not run:
        return torch.empty(shape, requires_grad=True)
    value = torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * 0.02
    return value.requires_grad_()


def gpt(shape, run=False):
    """A nanoGPT-like decoder: pre-norm blocks, one fused qkv product, tanh-GELU, tied input and output embedding."""
    width = shape.width
    positions = GPT2_POSITIONS if shape is GPT2 else shape.block
    params = [parameter(shape.vocab, width, run=run), parameter(positions, width, run=run)]
    for _ in range(shape.layers):
        for size in (
            (width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,),
            (width,), (width,), (4 * width, width), (4 * width,), (width, 4 * width), (width,),
        ):  # fmt: skip
            params.append(parameter(*size, run=run))
    params += [parameter(width, run=run), parameter(width, run=run)]
    tokens = torch.randint(shape.vocab, (shape.batch, shape.block))
    targets = torch.randint(shape.vocab, (shape.batch, shape.block))
    return Model(lambda p, b, d: gpt_loss(shape, p, d), params, [], [tokens, targets])


def gpt_block(shape, x, p):
    batch, time, width = x.shape
    norm1_w, norm1_b, qkv_w, qkv_b, out_w, out_b, norm2_w, norm2_b, up_w, up_b, down_w, down_b = p
    h = F.layer_norm(x, (width,), norm1_w, norm1_b)
    q, k, v = (
        part.view(batch, time, shape.heads, width // shape.heads).transpose(1, 2)
        for part in F.linear(h, qkv_w, qkv_b).split(width, dim=2)
    )
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + F.linear(y.transpose(1, 2).contiguous().view(batch, time, width), out_w, out_b)
    h = F.layer_norm(x, (width,), norm2_w, norm2_b)
    return x + F.linear(F.gelu(F.linear(h, up_w, up_b), approximate="tanh"), down_w, down_b)


def gpt_loss(shape, params, data):
    tokens, targets = data
    token_table, position_table, *rest = params
    x = F.embedding(tokens, token_table) + F.embedding(torch.arange(tokens.size(1)), position_table)
    for layer in range(shape.layers):
        x = gpt_block(shape, x, rest[12 * layer : 12 * layer + 12])
    x = F.layer_norm(x, (shape.width,), rest[-2], rest[-1])
    logits = F.linear(x, token_table)
    return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


RESNET_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))


def resnet18(run=False):
    """The 18-layer residual network with its 7x7 stem, on 8 pictures of 3x32x32; BatchNorm in training mode."""
    params, buffers = [], []

    def conv_norm(inner, outer, kernel):
        params.extend([parameter(outer, inner, kernel, kernel, run=run), parameter(outer, run=run)])
        params.append(parameter(outer, run=run))
        buffers.extend([torch.zeros(outer), torch.ones(outer)])

    conv_norm(3, 64, 7)
    inner = 64
    for outer, stride in RESNET_STAGES:
        for step in (stride, 1):
            conv_norm(inner, outer, 3)
            conv_norm(outer, outer, 3)
            if step != 1 or inner != outer:
                conv_norm(inner, outer, 1)
            inner = outer
    params += [parameter(10, 512, run=run), parameter(10, run=run)]
    data = [torch.randn(8, 3, 32, 32), torch.randint(10, (8,))]
    return Model(lambda p, b, d: resnet18_loss(p, b, d), params, buffers, data)


def resnet18_loss(params, buffers, data):
    params, buffers = iter(params), iter(buffers)

    def conv_norm(x, stride, padding):
        x = F.conv2d(x, next(params), stride=stride, padding=padding)
        weight, bias, mean, var = next(params), next(params), next(buffers), next(buffers)
        return F.batch_norm(x, mean, var, weight, bias, training=True)

    x = F.max_pool2d(F.relu(conv_norm(data[0], 2, 3)), 3, stride=2, padding=1)
    inner = 64
    for outer, stride in RESNET_STAGES:
        for step in (stride, 1):
            y = conv_norm(F.relu(conv_norm(x, step, 1)), 1, 1)
            shortcut = conv_norm(x, step, 0) if step != 1 or inner != outer else x
            x = F.relu(y + shortcut)
            inner = outer
    x = F.adaptive_avg_pool2d(x, (1, 1)).flatten(1)
    return F.cross_entropy(F.linear(x, next(params), next(params)), data[1])


def mlp(run=False):
    """Two hidden layers of 512 with GELU on 128 rows of 64 features, 10 classes."""
    sizes = (64, 512, 512, 10)
    params = []
    for inner, outer in zip(sizes, sizes[1:]):
        params += [parameter(outer, inner, run=run), parameter(outer, run=run)]
    return Model(mlp_loss, params, [], [torch.randn(128, 64), torch.randint(10, (128,))])


def mlp_loss(params, buffers, data):
    x = data[0]
    for i in range(0, 4, 2):
        x = F.gelu(F.linear(x, params[i], params[i + 1]))
    return F.cross_entropy(F.linear(x, params[4], params[5]), data[1])


def lstm_cell(run=False):
    """One LSTM step written out, batch 32 and 256 wide; returns the new hidden and cell states."""
    params = [parameter(1024, 256, run=run), parameter(1024, 256, run=run), parameter(1024, run=run)]
    return Model(lstm_step, params, [], [torch.randn(32, 256) for _ in range(3)])


def lstm_step(params, buffers, data):
    x, hidden, cell = data
    gates = F.linear(x, params[0], params[2]) + F.linear(hidden, params[1])
    i, f, g, o = gates.chunk(4, dim=1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


MODELS = {
    "gpt": lambda run=False: gpt(GPT, run),
    "gpt2": lambda run=False: gpt(GPT2, run),
    "resnet18": resnet18,
    "mlp": mlp,
    "lstm_cell": lstm_cell,
}


def two_elements(x, y):
    """Five operators on two elements, so that only the cost of a call is left to measure."""
    return (torch.tanh(x * y + x) * y).sum()


def two_element_inputs():
    return [torch.tensor([0.5, -1.5], requires_grad=True), torch.tensor([1.25, 0.75], requires_grad=True)]
