"""What a function draws and reads on the host while it runs: a compiled function does it at each call, as eager does, or refuses by name."""
import contextvars
import dataclasses
import datetime
import os
import random
import secrets
import subprocess
import sys
import time
import types
import uuid

import diptych
import numpy
import pytest
import torch
from host_cases import agrees_with_eager

from beside_eager import Cases
# make() gives a function of a tensor, and what else to look at after each call.
case = Cases()


@case
def a_number_of_random():
    return lambda x: x * random.random()


@case
def a_choice_of_random():
    return lambda x: x * random.choice([1.0, 2.0, 3.0, 4.0]) + random.randint(0, 100)


@case
def a_shuffle():
    def f(x):
        order = list(range(8))
        random.shuffle(order)
        return x[order]

    return f


@case
def a_layer_that_is_dropped():
    def f(x):
        for scale in range(8):
            if random.random() < 0.5:
                continue
            x = x * scale
        return x

    return f


@case
def a_generator_of_ones_own():
    generator = random.Random(3)
    return lambda x: x + generator.gauss(0, 1)


@case
def a_generator_inside_an_object():
    held = types.SimpleNamespace(inner=types.SimpleNamespace(generator=random.Random(3)))
    return lambda x: x + held.inner.generator.uniform(0, 1)


@case
def a_number_of_numpy():
    return lambda x: x * float(numpy.random.rand())


@case
def a_choice_of_numpy():
    return lambda x: x[numpy.random.permutation(8).tolist()]


@case
def a_generator_of_numpy():
    generator = numpy.random.default_rng(3)
    return lambda x: x * float(generator.normal())


@case
def an_old_generator_of_numpy():
    generator = numpy.random.RandomState(3)
    return lambda x: x * float(generator.randn())


@case
def a_generator_of_numpy_in_an_object():
    held = types.SimpleNamespace(generators=[numpy.random.default_rng(3)])
    return lambda x: x * float(held.generators[0].random())


@case
def a_draw_in_a_backward():
    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * random.random()

    return Noisy.apply


DRAWN_BY_THE_GRAPH = ("a_number_of_random", "a_choice_of_random", "a_layer_that_is_dropped", "a_number_of_numpy")


@pytest.mark.parametrize("name", case)
def test_it_is_as_in_eager(name):
    stats = agrees_with_eager(case[name])
    if name in DRAWN_BY_THE_GRAPH:
        assert stats.originals == 0
    else:
        assert stats.originals > 0 and stats.last_original


READS = {
    "time": lambda x: x * (time.time() > CLOCK[0]),
    "perf_counter": lambda x: x * (time.perf_counter() > CLOCK[0]),
    "datetime.now": lambda x: x * (datetime.datetime.now().timestamp() > CLOCK[0]),
    "date.today": lambda x: x * datetime.date.today().day,
    "urandom": lambda x: x * len(os.urandom(2)),
    "uuid4": lambda x: x * len(str(uuid.uuid4())),
    "secrets": lambda x: x * len(secrets.token_hex(2)),
    "os.environ": lambda x: x * float(dict(os.environ)["DIPTYCH_TEST_SCALE"]),
    "open": lambda x: x * float(open(PATH[0]).read()),
    "stat": lambda x: x * (2 if os.path.exists(PATH[0]) else 3),
    "globals": lambda x: x * globals()["SCALE_BY_NAME"],
    "context": lambda x: x * CONTEXT.get(),
}
CLOCK, PATH, SCALE_BY_NAME = [0.0], [""], 2.0
CONTEXT = contextvars.ContextVar("scale", default=2.0)


@pytest.mark.parametrize("name", READS)
def test_what_it_reads_is_read_again(name, tmp_path, monkeypatch):
    PATH[0] = str(tmp_path / "scale")
    function, x = READS[name], torch.arange(1.0, 4.0)
    compiled = diptych.aot_function(function)
    for scale in ("2", "3", "5"):
        monkeypatch.setenv("DIPTYCH_TEST_SCALE", scale)
        monkeypatch.setitem(globals(), "SCALE_BY_NAME", float(scale))
        (tmp_path / "scale").write_text(scale)
        CONTEXT.set(float(scale))
        torch.testing.assert_close(compiled(x), function(x))
    os.remove(PATH[0])
    if name == "stat":
        torch.testing.assert_close(compiled(x), function(x))
    stats = compiled.stats()
    assert stats.originals >= 3 and "test_host_state.py" in stats.last_original, stats.last_original


def test_what_an_import_draws_is_not_the_functions(tmp_path, monkeypatch):
    (tmp_path / "imported_by_a_trace.py").write_text("import os, random, time\nrandom.Random(), time.time(), os.environ.get('A')\nSCALE = 2\n")
    monkeypatch.syspath_prepend(tmp_path)

    def f(x):
        import imported_by_a_trace

        return x * imported_by_a_trace.SCALE

    compiled, x = diptych.aot_function(f), torch.ones(3)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), x * 2)
    assert compiled.stats().last_original == ""


def test_what_is_made_from_a_seed_inside_is_no_draw():
    def f(x):
        order = list(range(8))
        random.Random(3).shuffle(order)
        return x[order] * float(numpy.random.default_rng(3).normal())

    compiled, x = diptych.aot_function(f), torch.arange(8.0)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), f(x))
    assert compiled.stats().originals == 0 and compiled.stats().hits == 2


def test_a_branch_that_draws_leaves_the_other_compiled():
    class Dropping(torch.nn.Module):
        def forward(self, x):
            return x * random.sample([1.0, 2.0], 1)[0] if self.training else x * 2

    compiled, x = diptych.aot_module(Dropping()), torch.ones(3)
    for _ in range(2):
        compiled.train()(x), compiled.eval()(x)
    assert compiled.stats().originals == 2 and compiled.stats().entries == 2


def test_gradients_of_what_draws():
    def loss(w, x):
        return (w * x).sum() * random.random()

    compiled, w, x = diptych.value_and_grad(loss), torch.ones(3), torch.arange(3.0)
    for _ in range(3):
        random.seed(1)
        value, gradient = compiled(w, x)
        random.seed(1)
        scale = random.random()
        torch.testing.assert_close(value, (w * x).sum() * scale)
        torch.testing.assert_close(gradient, x * scale)


def test_a_checkpoint_that_draws():
    x = torch.ones(3, requires_grad=True)
    checkpointed = diptych.checkpoint(lambda x: (x * random.random()).sin())
    random.seed(0)
    found = [(y, *torch.autograd.grad(y.sum(), x)) for y in (checkpointed(x) for _ in range(3))]
    random.seed(0)
    for y, gradient in found:
        scale = random.random()
        torch.testing.assert_close((y, gradient), ((x * scale).sin(), (x * scale).cos() * scale))


def test_a_pair_does_not_hold_a_draw():
    with pytest.raises(diptych.UserError, match=r"\[capture\] the function draws random numbers \(Random.random\) at test_host_state.py"):
        diptych.capture(lambda x: x * random.random(), torch.ones(3))
    calls = []
    diptych.capture(lambda x: (calls.append(1), x * 2)[1], torch.ones(3))
    assert calls == []  # nothing is run


BODIES = {
    "scan": lambda x: diptych.scan(lambda c, s: (c * random.random() + s, c), x[0], x),
    "map": lambda x: diptych.map(lambda s: s * numpy.random.rand(), x),
    "while_loop": lambda x: diptych.while_loop(lambda c: c.sum() < 9, lambda c: c + 1 + random.random(), x),
    "associative_scan": lambda x: diptych.associative_scan(lambda a, b: a + b * random.random(), x),
    "cond": lambda x: diptych.cond(x.sum() > 0, lambda x: x * random.random(), lambda x: x, x),
    "scan_layers": lambda x: diptych.scan_layers([Drawing()], x),
}


class Drawing(torch.nn.Module):
    def forward(self, x):
        return x * random.random()


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_draws_is_refused(name):
    with pytest.raises(diptych.UserError, match=rf"\[{name}\] the function draws random numbers"):
        BODIES[name](torch.ones(3, 2))


def test_a_profiler_goes_on():
    seen = []

    def profile(frame, event, argument):
        seen.append(frame.f_code.co_name)

    def f(x):
        return x * random.random()

    sys.setprofile(profile)
    try:
        diptych.aot_function(f)(torch.ones(2))
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert "f" in seen


def test_a_hook_that_reads_a_value_is_refused_by_name():
    seen = []

    def f(x):
        x.register_hook(lambda gradient: seen.append(float(gradient.sum())))
        return x * 2

    for _ in range(3):
        with pytest.raises(diptych.UserError, match="needs the values"):
            diptych.aot_function(f)(torch.ones(3, requires_grad=True))


def test_the_first_draw_of_a_process_from_numpy_is_seen():
    """numpy loads numpy.random when it is asked for it first, here by the function that is captured."""
    code = (
        "import torch, diptych, numpy as np\n"
        "f = diptych.aot_function(lambda x: x * np.random.rand())\n"
        "x = torch.ones(3)\n"
        "print(len({f(x)[0].item() for _ in range(3)}))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "3\n"


def test_a_dataclass_that_is_returned():
    """Copying one has Python write to its class."""

    @dataclasses.dataclass
    class Output:
        value: torch.Tensor
        hidden: list

    compiled = diptych.aot_function(lambda x: Output(x.sin(), [x.cos(), None]))
    for _ in range(2):
        result = compiled(torch.ones(3))
        assert type(result) is Output and result.hidden[1] is None
        torch.testing.assert_close(result.value, torch.ones(3).sin())
    assert compiled.stats().originals == 0 and compiled.stats().hits == 1
