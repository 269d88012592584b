"""What a function has done when it raises an exception: as much as in eager, on tensors and on the host."""
import contextvars
import os
import random
import threading

import diptych
import pytest
import torch


class Stop(Exception):
    pass


class Leave(BaseException):
    pass


def outcome(call, *tensors):
    """The exception that a call raises, in words, and the tensors after it."""
    try:
        call(*tensors)
    except BaseException as error:  # noqa: BLE001  # whatever it is; and its frames go at once
        return type(error), error.args, [tensor.tolist() for tensor in tensors]
    raise AssertionError("nothing was raised")


def raises_after_a_write(x):
    x.add_(1)
    raise Stop("after a write", 3)


def fails_after_a_write(x):
    x.mul_(2)
    return x @ torch.ones(7)


def fails_after_a_change_of_shape(x):
    x.unsqueeze_(0)
    return {}["no such key"]


def raises_in_a_mode(x):
    with torch.no_grad():
        x.sub_(1)
        if x.dim() != 5:
            raise AssertionError("of another shape")
    return x


def leaves_after_a_write(x):
    x.add_(1)
    raise Leave("the program", 3)


@pytest.mark.parametrize(
    "function", [raises_after_a_write, fails_after_a_write, fails_after_a_change_of_shape, raises_in_a_mode, leaves_after_a_write])
@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"partition": "min_cut"}])
def test_writes_before_an_exception_are_done(function, options):
    compiled = diptych.aot_function(function, **options)
    x, y = torch.arange(3.0), torch.arange(3.0)
    for _ in range(3):
        assert outcome(compiled, x) == outcome(function, y)
    assert compiled.stats().originals == 3 and torch.is_grad_enabled()


def test_the_host_is_changed_once():
    seen = []

    def f(x):
        seen.append(random.random())
        x.mul_(seen[-1])
        raise Stop

    found = []
    for call in (f, diptych.aot_function(f)):
        random.seed(3)
        seen.clear()
        x = torch.ones(2)
        found.append([outcome(call, x) for _ in range(2)] + [list(seen), random.random()])
    assert found[0] == found[1]


def test_an_exception_that_carries_a_result():
    def f(x):
        raise Stop(x * 2)

    with pytest.raises(Stop) as caught:
        diptych.aot_function(f)(torch.ones(2))
    torch.testing.assert_close(caught.value.args[0] + 1, torch.full((2,), 3.0))


def test_one_that_is_caught_inside_is_captured():
    def f(x):
        try:
            x.add_(1)
            raise Stop
        except Stop:
            return x * 2

    compiled, x = diptych.aot_function(f), torch.ones(2)
    assert [compiled(x).tolist() for _ in range(2)] == [[4.0, 4.0], [6.0, 6.0]] and compiled.stats().originals == 0


LASTING = {
    "an iterator": lambda held: next(held["iterator"]),
    "a file": lambda held: open(held["file"], "a").close(),
    "the environment": lambda held: os.environ.update(DIPTYCH_TEST_COUNT=str(int(os.environ.get("DIPTYCH_TEST_COUNT", "0")) + 1)),
    "a context": lambda held: held["context"].set(held["context"].get(0) + 1),
    "a lock": lambda held: held["lock"].acquire(blocking=False),
}


@pytest.mark.parametrize("name", LASTING)
@pytest.mark.parametrize("writes", [False, True])
def test_what_can_not_be_taken_back_is_not_done_twice(name, writes, tmp_path, monkeypatch):
    """Raised as it is where no tensor was written to, and else refused by name."""
    monkeypatch.setenv("DIPTYCH_TEST_COUNT", "0")
    held = {"iterator": iter(range(5)), "file": str(tmp_path / "file"), "context": contextvars.ContextVar("count"), "lock": threading.Lock()}

    def f(x):
        seen = LASTING[name](held)
        if writes:
            x.add_(1)
        raise Stop(seen if name == "an iterator" else 0)

    x = torch.ones(2)
    with pytest.raises(diptych.UserError if writes else Stop, match="the function raises .*Stop.*can't be undone" if writes else None):
        diptych.aot_function(f)(x)
    assert x.tolist() == [1, 1] and next(held["iterator"]) == (name == "an iterator")
    assert os.environ.get("DIPTYCH_TEST_COUNT", "0") == str(int(name == "the environment"))
    assert held["context"].get(0) == (name == "a context") and held["lock"].locked() == (name == "a lock")


TAKEN_BACK = {
    "a semaphore": lambda held, x: held["semaphore"].acquire(),
    "a variable of a thread": lambda held, x: setattr(held["local"], "n", held["local"].n + 1),
    "requires_grad": lambda held, x: held["layer"].requires_grad_(not held["layer"].weight.requires_grad),
    "a generator that ends with its frame": lambda held, x: held["keep"](counted(held, x)),
    "a mode that is left open": lambda held, x: held["keep"](in_inference_mode(x)),
}


def counted(held, x):
    held["depth"] += 1
    try:
        yield x
    finally:
        held["depth"] -= 1


def in_inference_mode(x):
    with torch.inference_mode():
        yield x + 1
        yield x + 2


@pytest.mark.parametrize("name", TAKEN_BACK)
def test_the_host_and_the_thread_are_as_after_eager(name):
    def outcomes(call_of):
        held = {"semaphore": threading.Semaphore(9), "local": threading.local(), "layer": torch.nn.Linear(2, 2), "depth": 0}
        held["local"].n = 0

        def f(x):
            kept = []
            held["keep"] = lambda made: (kept.append(made), next(made))
            TAKEN_BACK[name](held, x)
            del held["keep"]
            x.mul_(2)
            raise Stop(held["depth"], held["layer"].weight.requires_grad)

        call, x, found = call_of(f), torch.ones(2), []
        for _ in range(3):
            found.append(outcome(call, x))
            found.append((held["semaphore"]._value, held["local"].n, held["layer"].weight.requires_grad, held["depth"], torch.is_inference_mode_enabled()))
        return found, (torch.ones(1) + 1).tolist()

    assert outcomes(diptych.aot_function) == outcomes(lambda f: f)


def test_requires_grad_of_a_captured_layer_is_changed_by_the_function():
    def outcomes(call_of):
        layer = torch.nn.Linear(2, 2, bias=False)
        torch.nn.init.ones_(layer.weight)

        def f(x):
            first = layer.weight.requires_grad
            layer.requires_grad_(False)
            return layer(x) * (2 if first else 3)

        call = call_of(f)
        return [(y.tolist(), y.requires_grad) for y in (call(torch.ones(2)) for _ in range(3))]

    assert outcomes(diptych.aot_function) == outcomes(lambda f: f)


def test_refusals_stay_what_they_are():
    compiled = diptych.aot_function(lambda x: x * float(x.sum()), path_limit=0)
    with pytest.raises(diptych.UserError, match="needs the values of a tensor"):
        compiled(torch.ones(2))
    assert compiled.stats().originals == 0


def test_what_a_function_is_called_does_not_count():
    """Only functions of the host's by these names change what can't be taken back."""

    def reset(x):
        x.mul_(random.random())
        raise Stop

    found = []
    for call in (reset, diptych.aot_function(reset)):
        random.seed(5)
        x = torch.ones(2)
        found.append([outcome(call, x) for _ in range(2)])
    assert found[0] == found[1]
