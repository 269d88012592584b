"""The models of models_torch.py in plain jax.numpy, as a JAX user would write them; layers are unrolled there, too.

Parameters and data are ShapeDtypeStructs, which can be traced; xla_jax.py takes the values from models_torch.py.
"""

import jax
import jax.numpy as jnp
from jax import lax
from models_torch import GPT, GPT2, GPT2_POSITIONS, RESNET_STAGES


def spec(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def layer_norm(x, weight, bias):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * weight + bias


def cross_entropy(logits, targets):
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.mean(jnp.take_along_axis(log_probs, targets[:, None], axis=-1))


def gpt(shape):
    """Returns (loss, params, buffers, data) with the same parameters in the same order as models_torch.gpt."""
    width = shape.width
    params = [spec(shape.vocab, width), spec(GPT2_POSITIONS if shape is GPT2 else shape.block, width)]
    for _ in range(shape.layers):
        for size in (
            (width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,),
            (width,), (width,), (4 * width, width), (4 * width,), (width, 4 * width), (width,),
        ):  # fmt: skip
            params.append(spec(*size))
    params += [spec(width), spec(width)]
    tokens = spec(shape.batch, shape.block, dtype=jnp.int32)
    return lambda p, b, d: gpt_loss(shape, p, d), params, [], [tokens, tokens]


def attention(q, k, v):
    """Causal attention on [batch, time, heads, depth], written out; jax.nn.dot_product_attention makes more equations."""
    time, depth = q.shape[1], q.shape[3]
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / depth**0.5
    scores = jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, -jnp.inf)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, axis=-1), v)


def gpt_block(shape, x, p):
    batch, time, width = x.shape
    norm1_w, norm1_b, qkv_w, qkv_b, out_w, out_b, norm2_w, norm2_b, up_w, up_b, down_w, down_b = p
    h = layer_norm(x, norm1_w, norm1_b)
    q, k, v = (
        part.reshape(batch, time, shape.heads, width // shape.heads)
        for part in jnp.split(h @ qkv_w.T + qkv_b, 3, axis=2)
    )
    x = x + attention(q, k, v).reshape(batch, time, width) @ out_w.T + out_b
    h = layer_norm(x, norm2_w, norm2_b)
    return x + jax.nn.gelu(h @ up_w.T + up_b, approximate=True) @ down_w.T + down_b


def gpt_loss(shape, params, data):
    tokens, targets = data
    token_table, position_table, *rest = params
    x = token_table[tokens] + position_table[: tokens.shape[1]]
    for layer in range(shape.layers):
        x = gpt_block(shape, x, rest[12 * layer : 12 * layer + 12])
    x = layer_norm(x, rest[-2], rest[-1])
    logits = x @ token_table.T
    return cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)), []


def resnet18():
    params, buffers = [], []

    def conv_norm(inner, outer, kernel):
        params.extend([spec(outer, inner, kernel, kernel), spec(outer), spec(outer)])
        buffers.extend([spec(outer), spec(outer)])

    conv_norm(3, 64, 7)
    inner = 64
    for outer, stride in RESNET_STAGES:
        for step in (stride, 1):
            conv_norm(inner, outer, 3)
            conv_norm(outer, outer, 3)
            if step != 1 or inner != outer:
                conv_norm(inner, outer, 1)
            inner = outer
    params += [spec(10, 512), spec(10)]
    return resnet18_loss, params, buffers, [spec(8, 3, 32, 32), spec(8, dtype=jnp.int32)]


def batch_norm(x, weight, bias, running_mean, running_var):
    """BatchNorm in training mode; returns the new running statistics, with torch's momentum and unbiased variance."""
    mean, variance = jnp.mean(x, axis=(0, 2, 3)), jnp.var(x, axis=(0, 2, 3))
    count = x.size // x.shape[1]
    new_mean = 0.9 * running_mean + 0.1 * lax.stop_gradient(mean)
    new_var = 0.9 * running_var + 0.1 * lax.stop_gradient(variance) * (count / (count - 1))
    mean, variance, weight, bias = (value[:, None, None] for value in (mean, variance, weight, bias))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * weight + bias, [new_mean, new_var]


def resnet18_loss(params, buffers, data):
    params, buffers, new_buffers = iter(params), iter(buffers), []

    def conv_norm(x, stride, padding):
        pads = [(padding, padding)] * 2
        x = lax.conv_general_dilated(x, next(params), (stride, stride), pads, dimension_numbers=("NCHW", "OIHW", "NCHW"))
        x, updated = batch_norm(x, next(params), next(params), next(buffers), next(buffers))
        new_buffers.extend(updated)
        return x

    x = jax.nn.relu(conv_norm(data[0], 2, 3))
    pads = ((0, 0), (0, 0), (1, 1), (1, 1))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), pads)
    inner = 64
    for outer, stride in RESNET_STAGES:
        for step in (stride, 1):
            y = conv_norm(jax.nn.relu(conv_norm(x, step, 1)), 1, 1)
            shortcut = conv_norm(x, step, 0) if step != 1 or inner != outer else x
            x = jax.nn.relu(y + shortcut)
            inner = outer
    x = jnp.mean(x, axis=(2, 3))
    return cross_entropy(x @ next(params).T + next(params), data[1]), new_buffers


def mlp():
    sizes = (64, 512, 512, 10)
    params = [spec(*size) for inner, outer in zip(sizes, sizes[1:]) for size in ((outer, inner), (outer,))]
    return mlp_loss, params, [], [spec(128, 64), spec(128, dtype=jnp.int32)]


def mlp_loss(params, buffers, data):
    x = data[0]
    for i in range(0, 4, 2):
        x = jax.nn.gelu(x @ params[i].T + params[i + 1], approximate=False)
    return cross_entropy(x @ params[4].T + params[5], data[1]), []


MODELS = {"gpt": lambda: gpt(GPT), "gpt2": lambda: gpt(GPT2), "resnet18": resnet18, "mlp": mlp}
