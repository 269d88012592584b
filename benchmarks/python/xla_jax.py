"""The XLA suite in JAX: a step under jax.jit, trace and lowering, and XLA's compilation of what was lowered.

Values come from models_torch.py, and so does the check: loss and gradients must be those of torch's eager mode.
"""

import jax
import jax.numpy as jnp
import models_jax
import models_torch
import protocol
import rnn
import rnn_jax
import torch

RNN_LENGTH = 1024
#: ResNet-18 takes variances of eight numbers, which magnify rounding.
TOLERANCE = 1e-3
NAMES = ("mlp", "gpt", "gpt2", "resnet18", "rnn")


def loss_of(name):
    """Returns loss(params, buffers, data) -> (loss, new buffers)."""
    return (lambda p, b, d: (rnn_jax.loss(p), [])) if name == "rnn" else models_jax.MODELS[name]()[0]


def torch_model(name):
    torch.manual_seed(0)  # with some numbers a ReLU of ResNet-18 has an input near zero, on either side of it
    if name == "rnn":
        return models_torch.Model(lambda p, b, d: rnn.loss(p), rnn.params(RNN_LENGTH))
    return models_torch.MODELS[name](run=True)


def to_jax(tensor):
    return jnp.array(tensor.detach().to(torch.int32 if tensor.dtype == torch.int64 else tensor.dtype).numpy())


def arguments_of(model):
    return tuple([to_jax(tensor) for tensor in part] for part in (model.params, model.buffers, model.data))


def check(name, model, loss, gradients):
    """Compares with a tolerance relative to a tensor's largest number, as cpp/gradient_case.h does."""
    expected = model.loss(model.params, model.buffers, model.data)
    expected = [expected, *torch.autograd.grad(expected, model.params)]
    for i, (actual, eager) in enumerate(zip([loss, *gradients], expected, strict=True)):
        off = (torch.from_dlpack(actual) - eager).abs().max().item()
        if not off <= TOLERANCE * eager.abs().max().item() + 1e-6:
            raise RuntimeError(f"{name}: result {i} is not what eager gives")


def step_case(name):
    compiled = jax.jit(jax.value_and_grad(loss_of(name), has_aux=True))
    arguments = None

    def run(repeat):
        nonlocal arguments
        if arguments is None:
            model = torch_model(name)
            arguments = arguments_of(model)
            (loss, _), gradients = compiled(*arguments)
            check(name, model, loss, gradients)
        return protocol.timed(repeat, lambda: jax.block_until_ready(compiled(*arguments))), {}

    return run


def adamw(params, gradients, moments, count):
    """torch.optim.AdamW with its defaults and a rate of 1e-4; `moments` are those of each parameter."""
    rate, beta1, beta2, eps, decay = 1e-4, 0.9, 0.999, 1e-8, 0.01
    new_params, new_moments = [], []
    for p, g, (m, v) in zip(params, gradients, moments, strict=True):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        scale = jnp.sqrt(v) / jnp.sqrt(1 - beta2**count) + eps
        new_params.append(p * (1 - rate * decay) - rate / (1 - beta1**count) * m / scale)
        new_moments.append((m, v))
    return new_params, new_moments


def train_case(name):
    """A step whose parameters, buffers and moments are donated, up to its loss."""
    value_and_grad = jax.value_and_grad(loss_of(name), has_aux=True)

    def step(params, moments, buffers, count, data):
        (loss, buffers), gradients = value_and_grad(params, buffers, data)
        params, moments = adamw(params, gradients, moments, count)
        return loss, (params, moments, buffers, count + 1)

    compiled = jax.jit(step, donate_argnums=(0, 1, 2))
    state = data = None

    def once():
        nonlocal state
        loss, state = compiled(*state, data)
        return loss.item()

    def run(repeat):
        nonlocal state, data
        if state is None:
            model = torch_model(name)
            buffers = [buffer.clone() for buffer in model.buffers]
            expected = model.loss(model.params, buffers, model.data).item()
            params, arrays, data = arguments_of(model)
            state = params, [(jnp.zeros_like(p), jnp.zeros_like(p)) for p in params], arrays, jnp.float32(1)
            if not abs(once() - expected) <= TOLERANCE * abs(expected):
                raise RuntimeError(f"{name}: the loss of a step is not what eager gives")
        return protocol.timed(repeat, once), {}

    return run


def lowered(name, shapes):
    """Lowers a function object of its own, so that nothing is found in JAX's cache of traces of the model."""
    loss = loss_of(name)
    return jax.jit(jax.value_and_grad(lambda p, b, d: loss(p, b, d), has_aux=True)).lower(*shapes)


def shapes_of(name):
    if name == "rnn":
        hidden, batch = rnn.HIDDEN, rnn.BATCH
        sizes = [(hidden, hidden), (hidden, hidden), (hidden,), (batch, hidden), (RNN_LENGTH, batch, hidden)]
        return [models_jax.spec(*size) for size in sizes], [], []
    return models_jax.MODELS[name]()[1:]


def lower_case(name):
    def run(repeat):
        shapes = shapes_of(name)
        return protocol.timed(repeat, lambda: lowered(name, shapes)), {}

    return run


def compile_case(name):
    def run(repeat):
        module = lowered(name, shapes_of(name))
        return protocol.timed(repeat, module.compile), {}

    return run


def cases():
    made = {"step": step_case, "lower": lower_case, "compile": compile_case}
    trained = {f"xla/train/{name}": train_case(name) for name in NAMES if name != "rnn"}
    return {f"xla/{kind}/{name}": make(name) for kind, make in made.items() for name in NAMES} | trained
