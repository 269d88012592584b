"""Random numbers of Python and numpy in a captured function: drawn anew in each call, in eager's order."""
import random
import threading
from random import random as random_itself
from unittest import mock

import diptych
import numpy
import pytest
import torch

X = torch.arange(4.0) + 1


def stochastic_depth(x):
    for scale in (2.0, 3.0):
        if random.random() < 0.5:
            x = x * scale
    return x


FUNCTIONS = {
    "scale": lambda x: x * random.random(),
    "uniform": lambda x: x + random.uniform(-1, 1) * random.uniform(1, b=2),
    "depth": stochastic_depth,
    "numpy": lambda x: x * numpy.random.rand() + numpy.random.random() - numpy.random.random_sample(),
    "uniform of numpy": lambda x: x * numpy.random.uniform(0.5, 2.0) + numpy.random.uniform(),
    "with torch": lambda x: torch.rand(4) * random.random() + torch.randn(4) * random.random(),
    "steers and scales": lambda x: x * 2 if (h := random.random()) < 0.3 else x * h,
    "choice by a number": lambda x: [x, x * 2, x * 3][int(random.random() * 3)],
    "of a size": lambda x: x * float(numpy.random.uniform(0.9, 1.1, (4,)).mean()),
    "gauss": lambda x: x * random.gauss(1.0, 2.0) + random.normalvariate(0, 1) + random.gauss(0.0, 1.0),
    "distributions": lambda x: x * random.betavariate(0.4, 0.4) + random.expovariate(2.0) + random.triangular(0, 1, 0.5) + random.lognormvariate(0, 1),
    "of numpy": lambda x: x * numpy.random.randn() + numpy.random.normal(1.0, 0.1) + numpy.random.beta(0.4, 0.4) + numpy.random.exponential(),
    "mixup": lambda x: (share := numpy.random.beta(0.4, 0.4)) * x + (1 - share) * x.flip(0),
    "integers": lambda x: x * random.randint(1, 6) + random.randrange(10) / 3 - numpy.random.randint(3) + numpy.random.poisson(3.0) * numpy.random.binomial(5, 0.5),
    "integers steer": lambda x: x * 2 if random.randint(1, 6) > 3 else x / random.randint(2, 4),
    "choice": lambda x: random.choice((torch.sin, torch.cos))(x) * random.random(),
    "choice of a number": lambda x: x * random.choice([0.5, 2.0, 3]),
    "crop": lambda x: x[random.randint(0, 1) :][:2] * random.uniform(1, 2),
    "two generators": lambda x: x * random.random() if numpy.random.rand() < 0.5 else x + random.random(),
}


def seed(number):
    random.seed(number)
    numpy.random.seed(number)
    torch.manual_seed(number)


def states():
    return random.getstate(), numpy.random.get_state()[1].tolist(), numpy.random.get_state()[2], torch.get_rng_state().tolist()


@pytest.mark.parametrize("backend", ["interpreter", "native"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name, backend):
    function = FUNCTIONS[name]
    compiled = diptych.aot_function(function, backend=backend)
    for number in range(12):
        seed(number)
        expected, after = [function(X) for _ in range(3)], states()
        seed(number)
        torch.testing.assert_close([compiled(X) for _ in range(3)], expected)
        assert states() == after
    assert (compiled.stats().originals == 0) == (name != "of a size"), compiled.stats().last_original
    assert compiled.stats().entries <= 8


@pytest.mark.parametrize("draw, error", [(lambda: random.randint(3, 1), ValueError), (lambda: random.gauss("a", 1), TypeError), (lambda: numpy.random.normal(0, -1), ValueError)])
def test_errors_are_the_hosts(draw, error):
    with pytest.raises(error):
        diptych.aot_function(lambda x: x * draw())(X)


def test_arguments_tell_draws_apart():
    compiled = diptych.aot_function(lambda x, low: x * random.randint(low, 9) + random.triangular(low, 9))
    for low in (1, 2, 1):
        seed(low)
        expected = X * random.randint(low, 9) + random.triangular(low, 9)
        seed(low)
        torch.testing.assert_close(compiled(X, low), expected)
    assert compiled.stats().entries == 2 and compiled.stats().originals == 0


def test_gradients_use_the_numbers_of_the_forward():
    def function(x):
        return (x * random.random()).tanh() * random.random()

    compiled = diptych.aot_function(function)
    for number in range(3):
        found = []
        for call in (function, compiled):
            seed(number)
            x = X.clone().requires_grad_()
            y = call(x)
            random.random()
            (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            found.append((y, gradient, torch.autograd.grad(gradient.square().sum(), x)))
        torch.testing.assert_close(*found)


def test_checkpoints_draw_once():
    def function(x):
        return diptych.checkpoint(lambda x: (x * random.random()).sin().exp())(x)

    compiled = diptych.aot_function(function)
    x = X.clone().requires_grad_()
    seed(1)
    y = compiled(x)
    (got,) = torch.autograd.grad(y.sum(), x)
    seed(1)
    h = random.random()
    torch.testing.assert_close(got, torch.autograd.grad((x * h).sin().exp().sum(), x)[0])


@pytest.mark.parametrize(
    "draw",
    [
        random_itself,
        lambda: float(numpy.random.randn(1)[0]),
        lambda: random.sample([1.0, 2.0], 1)[0],
        lambda: float(numpy.random.choice(5)),
        lambda: numpy.random.randint(5, dtype=numpy.int32),
        lambda: random.Random().random(),
    ],
)
def test_what_is_not_recorded_runs_the_function_itself(draw):
    compiled = diptych.aot_function(lambda x: x * draw())
    for number in range(3):
        seed(number)
        got = compiled(X)
        if draw.__name__ == "random" or "Random()" not in __import__("inspect").getsource(draw):
            seed(number)
            torch.testing.assert_close(got, X * draw())
    assert compiled.stats().originals == 3


def test_functions_that_a_program_has_replaced():
    diptych.aot_function(lambda x: x * 2)(X)
    with mock.patch("random.uniform", side_effect=lambda a, b: b) as replaced:
        compiled = diptych.aot_function(lambda x: x * random.uniform(0, 3))
        torch.testing.assert_close(compiled(X), X * 3)
        assert random.uniform(0, 3) == 3 and replaced.call_count == 2
    assert 0 <= random.uniform(0, 3) != 3 and random.random is not None and random.random() == pytest.approx(0.5, abs=0.5)


def test_bodies_refuse():
    with pytest.raises(diptych.UserError, match="draws random numbers"):
        diptych.map(lambda x: x * random.random(), X)


def test_an_exception_leaves_the_generator_as_eager_does():
    def function(x):
        if random.random() < 2:
            raise KeyError("no")
        return x

    seed(0)
    with pytest.raises(KeyError):
        function(X)
    after = states()
    seed(0)
    with pytest.raises(KeyError):
        diptych.aot_function(function)(X)
    assert states() == after


def test_threads():
    """Draws of several threads interleave, and none waits for another for ever."""
    compiled = diptych.aot_function(lambda x: x * random.random() if random.random() < 0.5 else x)
    errors = []

    def run():
        try:
            for _ in range(20):
                compiled(X)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(thread.is_alive() for thread in threads)


def test_outside_of_traces_nothing_changes():
    seed(3)
    a = random.random()
    seed(3)
    assert type(a) is float and a == random_itself()
    assert random.uniform.__name__ == "uniform" and numpy.random.rand(2).shape == (2,)
