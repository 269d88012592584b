"""Worker: JAX; capture by make_jaxpr(value_and_grad(f)), the overhead of a call through jax.jit, jax.lax.scan,
and the XLA suite.

Each capture traces a new function object, so the model is traced again. JAX also caches traces of the jitted helpers
inside jax.numpy; they stay warm, as in a user's session, unless --cold clears them before each capture.
"""

import sys

import jax
import jax.numpy as jnp
import protocol
import rnn_jax
import xla_jax
from jax.extend.core import jaxprs_in_params
from models_jax import MODELS


def capture_case(name, cold):
    def run(repeat):
        loss, params, buffers, data = MODELS[name]()
        times, equations = [], 0
        for _ in range(repeat):
            if cold:
                jax.clear_caches()
            jaxpr = []

            def once():
                function = jax.value_and_grad(lambda p, b, d: loss(p, b, d), has_aux=True)
                jaxpr.append(jax.make_jaxpr(function)(params, buffers, data))

            times += protocol.timed(1, once)
            equations = count_equations(jaxpr[-1].jaxpr)
        return times, {"joint_nodes": equations}

    return run


def count_equations(jaxpr):
    """Counts equations; those of an inner jaxpr replace the call that holds it."""
    total = 0
    for equation in jaxpr.eqns:
        inner = list(jaxprs_in_params(equation.params))
        total += sum(count_equations(body) for body in inner) if inner else 1
    return total


def two_elements(x, y):
    return jnp.sum(jnp.tanh(x * y + x) * y)


def call_case(function):
    compiled = jax.jit(function)
    inputs = [jnp.array([0.5, -1.5]), jnp.array([1.25, 0.75])]

    def run(repeat):
        jax.block_until_ready(compiled(*inputs))
        return protocol.timed_in_batches(repeat, lambda: jax.block_until_ready(compiled(*inputs))), {}

    return run


def main():
    cold = "--cold" in sys.argv
    cases = {f"capture/{name}": capture_case(name, cold) for name in ("gpt", "gpt2", "resnet18")}
    if not cold:
        cases["call/forward"] = call_case(two_elements)
        cases["call/forward_backward"] = call_case(jax.value_and_grad(two_elements, argnums=(0, 1)))
        cases.update(rnn_jax.cases())
        cases.update(xla_jax.cases())
    protocol.serve(cases)


if __name__ == "__main__":
    main()
