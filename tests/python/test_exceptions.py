"""What a function has done when it raises an exception: as much as in eager, on tensors and on the host."""
import random

import diptych
import pytest
import torch


class Stop(Exception):
    pass


def outcome(call, *tensors):
    """The exception that a call raises, in words, and the tensors after it."""
    with pytest.raises(Exception) as caught:
        call(*tensors)
    return type(caught.value), caught.value.args, [tensor.tolist() for tensor in tensors]


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


@pytest.mark.parametrize("function", [raises_after_a_write, fails_after_a_write, fails_after_a_change_of_shape, raises_in_a_mode])
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


def test_what_can_not_be_taken_back_is_not_done_twice():
    numbers = iter(range(5))

    def f(x):
        raise Stop(next(numbers))

    with pytest.raises(Stop) as caught:
        diptych.aot_function(f)(torch.ones(2))
    assert caught.value.args == (0,) and next(numbers) == 1


def test_refusals_stay_what_they_are():
    compiled = diptych.aot_function(lambda x: x * float(x.sum()))
    with pytest.raises(diptych.UserError, match="needs the values of a tensor"):
        compiled(torch.ones(2))
    assert compiled.stats().originals == 0
