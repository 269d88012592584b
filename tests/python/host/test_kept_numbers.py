"""Numbers that a function keeps from one call to the next: they go through the graph, and are numbers on the host."""
import copy

import diptych
import pytest
import torch
from torch import nn
from torch.utils import _pytree

CALLS = 8


class Keeps(nn.Module):
    """A module that keeps what `update(module, x)` makes of it."""

    def __init__(self, update, **held):
        super().__init__()
        vars(self).update(held)
        self.register_buffer("mean", torch.zeros(3))
        self.update = update

    def forward(self, x):
        return self.update(self, x)


def kept(module):
    return {name: value for name, value in vars(module).items() if isinstance(value, (int, float, str)) and not name.startswith("_")}


def counted(self, x):
    self.n += 1
    return x * 2


def averaged(self, x):
    self.n += 1
    decay = min(0.9, (1 + self.n) / (10 + self.n))
    self.mean = self.mean * decay + x.detach().mean(0) * (1 - decay)
    return x - self.mean


def totalled(self, x):
    loss = (x * x).mean()
    self.total += loss.item()
    self.n += len(x)
    return loss * (self.total / self.n)


def cooled(self, x):
    self.t *= 0.9
    return (x / self.t).softmax(-1)


def every_third(self, x):
    self.n += 1
    return x.sin() if self.n % 3 == 0 else x.cos()


def warmed_up(self, x):
    self.n += 1
    return x * min(1.0, self.n / 4)


def started_again(self, x):
    self.n = 0 if self.n >= 3 else self.n + 1
    return x + self.n


def becomes_a_float(self, x):
    self.n = self.n / 2
    return x * self.n


def becomes_large(self, x):
    self.n *= 100_003
    return x * 2


def becomes_a_text(self, x):
    self.n = self.n + 1 if isinstance(self.n, int) and self.n < 3 else "many"
    return x * 2


def by_its_value(self, x):
    self.n += 1
    for _ in range(self.n):
        x = x.sin()
    return x


def returned(self, x):
    self.n += 2
    return x, self.n, f"{self.n}"


def raises(self, x):
    self.n += 1
    if self.n == 5:
        raise ValueError(f"call {self.n}")
    return x * self.n


def left(self, x):
    self.n += 1
    if x.sum() > 0:
        self.total -= 1.5
    return x * self.n + self.total


UPDATES = {update.__name__: update for update in (counted, averaged, totalled, cooled, every_third, warmed_up, started_again, becomes_a_float)}
BY_VALUE = {update.__name__: update for update in (becomes_large, becomes_a_text, by_its_value, returned, raises, left)}


def assert_same(got, expected):
    got, expected = _pytree.tree_leaves(got), _pytree.tree_leaves(expected)
    for a, b in zip(got, expected, strict=True):
        assert type(a) is type(b)
        if isinstance(a, (torch.Tensor, float)):
            torch.testing.assert_close(a, b)
        else:
            assert a == b


def run(call, module):
    seen = []
    torch.manual_seed(5)
    for _ in range(CALLS):
        x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
        try:
            result = call(x)
        except ValueError as error:
            seen.append((str(error), kept(module)))
            continue
        first = result[0] if isinstance(result, tuple) else result
        seen.append((result, torch.autograd.grad(first.sum(), x), kept(module), module.mean.clone()))
    return seen


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"backend": "native"}], ids=str)
@pytest.mark.parametrize("name", [*UPDATES, *BY_VALUE])
def test_beside_eager(name, options):
    module = Keeps({**UPDATES, **BY_VALUE}[name], n=1, total=0.5, t=1.0).double()
    eager = copy.deepcopy(module)
    compiled = diptych.aot_module(module, **options)
    assert_same(run(compiled, module), run(eager, eager))
    if name in UPDATES:
        assert compiled.stats().originals == 2


def test_places_of_closures_lists_and_dicts():
    n, counts, rates = 0, [0, 7], {"lr": 1.0}

    def f(x):
        nonlocal n
        n += 1
        counts[1] += n
        rates["lr"] *= 0.5
        return x * counts[1] * rates["lr"]

    compiled, x = diptych.aot_function(f), torch.ones(2)
    count, rate = 7, 1.0
    for call in range(1, 7):
        count, rate = count + call, rate * 0.5
        torch.testing.assert_close(compiled(x), x * count * rate)
        assert (n, counts, rates) == (call, [0, count], {"lr": rate})
    assert compiled.stats().originals == 2 and compiled.stats().entries == 1


def test_a_number_that_the_caller_sets_between_calls():
    module = Keeps(every_third, n=0)
    compiled, x = diptych.aot_module(module), torch.ones(2)
    for number in (0, 1, 2, 3, 2, 2, 50, 2, -1):
        module.n = number
        torch.testing.assert_close(compiled(x), x.sin() if (number + 1) % 3 == 0 else x.cos())
        assert module.n == number + 1 and type(module.n) is int
    for number in (True, 2.0, None):
        module.n = number
        outcomes = []
        for call in (compiled, lambda x: every_third(module, x)):
            module.n = number
            try:
                outcomes.append((call(x), module.n))
            except TypeError as error:
                outcomes.append(str(error))
        assert_same(*outcomes)


def test_a_number_that_the_first_call_sets_is_guarded_and_not_kept():
    def longest(self, x):
        if len(x) > self.n:
            self.n = len(x)
        return x * self.n

    compiled, x = diptych.aot_module(Keeps(longest, n=0)), torch.ones(4)
    for _ in range(4):
        torch.testing.assert_close(compiled(x), x * 4)
    assert compiled.stats().originals == 1
    assert "state.n" not in str(compiled.forward_graphs()[0])


def test_checked_calls():
    def correct(self, x):
        self.n += (x > 0).sum().item()
        self.total += x.sum().item()
        return x * self.n

    module, eager = Keeps(correct, n=0, total=0.0), Keeps(correct, n=0, total=0.0)
    compiled = diptych.aot_module(module, check=1)
    for sign in (1, -1, 1, 1, -1, -1, 1):
        x = torch.full((2,), 0.5 * sign)
        torch.testing.assert_close(compiled(x), eager(x))
        assert (module.n, module.total) == (eager.n, eager.total)
    assert compiled.stats().checks > 2


def test_submodules_that_are_called_several_times():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = Keeps(warmed_up, n=0), Keeps(counted, n=10)

        def forward(self, x):
            return self.a(self.b(self.a(x)))

    module, eager = Both(), Both()
    compiled, x = diptych.aot_module(module), torch.ones(2)
    for _ in range(5):
        torch.testing.assert_close(compiled(x), eager(x))
        assert (module.a.n, module.b.n) == (eager.a.n, eager.b.n)
    assert compiled.stats().originals == 2
