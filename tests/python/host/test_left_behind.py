"""What a function leaves set in torch, what it asks of its random numbers, and objects that it makes and returns."""
import threading

import diptych
import numpy
import pytest
import torch


@pytest.fixture(autouse=True)
def as_before():
    """The switches of torch, whatever a test leaves."""
    threads = torch.get_num_threads()
    yield
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    torch.set_default_device(None)
    torch.set_num_threads(threads)


SWITCHES = {
    "grad mode": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled, lambda: torch.set_grad_enabled(True)),
    "the default dtype": (lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype, lambda: torch.set_default_dtype(torch.float32)),
    "deterministic algorithms": (lambda: torch.use_deterministic_algorithms(True), torch.are_deterministic_algorithms_enabled,
                                 lambda: torch.use_deterministic_algorithms(False)),
    "the precision of matrix products": (lambda: torch.set_float32_matmul_precision("medium"), torch.get_float32_matmul_precision,
                                         lambda: torch.set_float32_matmul_precision("highest")),
    "the number of threads": (lambda: torch.set_num_threads(2), torch.get_num_threads, lambda: torch.set_num_threads(1)),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_that_the_function_leaves_set(name):
    write, read, reset = SWITCHES[name]

    def f(x):
        y = x * 2
        write()
        return y * torch.ones(2)

    reset()
    compiled, x, seen = diptych.aot_function(f), torch.ones(2, requires_grad=True), []
    for call in (f, compiled, compiled, compiled):
        reset()
        y = call(x)
        seen.append((read(), y.dtype, y.requires_grad))
    assert seen == seen[:1] * 4
    assert compiled.stats().originals == 3 and compiled.stats().last_original == f"sets {name}"


def test_a_switch_that_is_set_back():
    def f(x):
        with torch.no_grad():
            y = x * 2
        return y + x

    compiled = diptych.aot_function(f)
    for _ in range(3):
        torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 3.0))
    assert compiled.stats().originals == 0


def test_the_state_of_random_numbers():
    def state(x):
        return x * torch.get_rng_state().sum()

    def seed(x):
        return x * (torch.initial_seed() % 1000)

    for f in (state, seed, lambda x: x * torch.default_generator.initial_seed()):
        compiled = diptych.aot_function(f)
        for number in (1, 2, 2, 3):
            torch.manual_seed(number)
            torch.testing.assert_close(compiled(torch.ones(2)), f(torch.ones(2)))
        assert "reads the state of torch's random numbers" in compiled.stats().last_original


class Log:
    def __init__(self):
        self.lines = []


KEPT = Log()
MADE = {
    "array": lambda x: (x * 2, numpy.ones(2)),
    "object": lambda x: (x * 2, {"log": Log()}),
    "set": lambda x: (x * 2, {1, 2}),
    "generator": lambda x: (x * 2, (i for i in range(3))),
    "function": lambda x: (x * 2, lambda: 1),
}


@pytest.mark.parametrize("name", MADE)
def test_an_object_that_the_function_makes(name):
    compiled = diptych.aot_function(MADE[name])
    first, second = (compiled(torch.ones(2))[1] for _ in range(2))
    first, second = (found["log"] if name == "object" else found for found in (first, second))
    assert first is not second and type(first) is type(second)
    assert "that it makes" in compiled.stats().last_original and compiled.stats().originals == 2


def test_an_object_that_was_there():
    seen = {1, 2}
    compiled = diptych.aot_function(lambda x, own: (x * 2, KEPT, [seen, own], torch.float32, Log, numpy.float32(1), len))
    own = Log()
    for _ in range(3):
        _, kept, (same, mine), *rest = compiled(torch.ones(2), own)
        assert kept is KEPT and same is seen and mine is own and rest[1] is Log
    assert compiled.stats().originals == 0


HOOKS = {
    "of a captured leaf": lambda w, x: (w.register_hook(lambda g: g * 2), x * w)[1],
    "of an argument": lambda w, x: (x.register_hook(lambda g: g * 2), x * w)[1],
    "after accumulation": lambda w, x: (w.register_post_accumulate_grad_hook(lambda p: [p.grad.mul_(3)].clear()), x * w)[1],
    "that is removed": lambda w, x: ((handle := w.register_hook(lambda g: g * 2)), x * w, handle.remove())[1],
    "retain_grad": lambda w, x: ((y := x * 1).retain_grad(), x.retain_grad(), y * w)[2],
    "of a result of the function's": lambda w, x: ((y := x * w), y.register_hook(lambda g: g * 2))[0],
}


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_that_stay_are_registered_by_each_call(name):
    def seen_by(call_of):
        w, x, found = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True), []
        w.register_hook(lambda g: g + 1)
        call = call_of(lambda x: HOOKS[name](w, x))
        for _ in range(3):
            call(x * 1 if name == "retain_grad" else x).sum().backward()
            found.append([w.grad.tolist(), x.grad.tolist(), len(w._backward_hooks or ()), len(x._backward_hooks or ())])
            w.grad = x.grad = None
        return found, call

    found, compiled = seen_by(diptych.aot_function)
    assert found == seen_by(lambda f: f)[0]
    is_of_result = name == "of a result of the function's"
    why = "the function registers a hook on output" if is_of_result else "sets what a backward does to a tensor that it is given or captures"
    assert compiled.stats().originals == 3 and compiled.stats().last_original.startswith(why)


@pytest.mark.parametrize("read", [torch.get_num_threads, torch.get_float32_matmul_precision, threading.current_thread])
def test_settings_that_the_function_reads(read):
    compiled, x = diptych.aot_function(lambda x: x * len(str(read()))), torch.ones(2)
    torch.testing.assert_close(compiled(x), x * len(str(read())))
    assert "reads " in compiled.stats().last_original


def test_a_parameter_that_the_function_makes_is_one():
    compiled, x = diptych.aot_function(lambda x: (torch.nn.Parameter(x * 2), x * 3)), torch.ones(2)
    for _ in range(2):
        made, plain = compiled(x)
        assert type(made) is torch.nn.Parameter and made.requires_grad and type(plain) is torch.Tensor
        torch.testing.assert_close(made.detach(), x * 2)
    w = torch.nn.Parameter(x)
    assert diptych.aot_function(lambda x: (w, x * 2))(x)[0] is w
    assert diptych.aot_function(lambda x: (x, x * 2))(w)[0] is w


def test_first_calls_of_threads_that_count():
    """A trace puts back what it has changed, and must not hide from another thread's that its function changes the same."""

    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0

        def forward(self, x):
            self.n += 1
            return x @ x

    x = torch.ones(300, 300)
    for _ in range(6):
        module = Counts()
        compiled = diptych.aot_module(module)
        threads = [threading.Thread(target=lambda: [compiled(x) for _ in range(60)]) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert compiled.stats().hits == 0
        before = module.n
        compiled(x)
        assert module.n == before + 1
