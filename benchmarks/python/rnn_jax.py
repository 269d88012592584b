"""The scan suite in JAX: rnn.py's network by jax.lax.scan, its time under jit, trace and compile time, and residuals."""

import time

import jax
import jax.numpy as jnp
import numpy
import protocol
from rnn import BATCH, HIDDEN, LENGTHS, state_bytes


def make_params(length):
    random = numpy.random.default_rng(0)
    weight = lambda: random.standard_normal((HIDDEN, HIDDEN)) * (0.8 / HIDDEN**0.5)  # noqa: E731
    values = [weight(), weight(), numpy.zeros(HIDDEN), random.standard_normal((BATCH, HIDDEN))]
    values.append(random.standard_normal((length, BATCH, HIDDEN)) * 0.5)
    return [jnp.asarray(value, jnp.float32) for value in values]


def loss(params):
    w, u, b, h, xs = params

    def step(h, x):
        h = jnp.tanh(x @ w + h @ u + b)
        return h, h

    return jax.lax.scan(step, h, xs)[1].sum()


def time_case(length):
    params = None
    compiled = jax.jit(jax.value_and_grad(loss))

    def run(repeat):
        nonlocal params
        if params is None:
            params = make_params(length)
            jax.block_until_ready(compiled(params))
        return protocol.timed(repeat, lambda: jax.block_until_ready(compiled(params))), {}

    return run


def capture_case(length):
    """Times trace, lowering and XLA's compilation, each time of a function object of its own."""

    def run(repeat):
        sizes = [(HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN,), (BATCH, HIDDEN), (length, BATCH, HIDDEN)]
        shapes = [jax.ShapeDtypeStruct(size, jnp.float32) for size in sizes]
        trace_ns = []

        def once():
            start = time.perf_counter_ns()
            lowered = jax.jit(lambda params: jax.value_and_grad(loss)(params)).lower(shapes)
            trace_ns.append(time.perf_counter_ns() - start)
            lowered.compile()

        times = protocol.timed(repeat, once)
        return times, {"trace_ns": sorted(trace_ns)[len(trace_ns) // 2]}

    return run


def memory_case(length):
    """Counts what the backward of jax.vjp holds besides the parameters."""

    def run(repeat):
        params = make_params(length)
        known = {value.unsafe_buffer_pointer() for value in params}
        _, backward = jax.vjp(loss, params)
        kept = {leaf.unsafe_buffer_pointer(): leaf.nbytes for leaf in jax.tree_util.tree_leaves(backward)}
        new_bytes = sum(size for pointer, size in kept.items() if pointer not in known)
        return [], {"new_bytes": new_bytes, "predicted_bytes": state_bytes(length)}

    return run


def cases():
    found = {}
    for length in LENGTHS:
        found[f"scan/time/{length}"] = time_case(length)
        found[f"scan/capture/{length}"] = capture_case(length)
        found[f"scan/memory/{length}"] = memory_case(length)
    return found
