"""What a function writes on the host while it runs: a compiled function does it at each call, as eager does, or refuses by name."""
import collections
import types

import diptych
import pytest
import torch
from host_cases import agrees_with_eager, made

from beside_eager import Cases

# make() gives a function of a tensor, and what else to look at after each call.
case = Cases()


@case
def a_counter_in_a_closure():
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x * calls

    return f


@case
def a_counter_that_nothing_reads():
    calls = [0]

    def f(x):
        calls[0] += 1
        return x * 2

    return f, lambda: list(calls)


@case
def a_counter_that_the_caller_resets():
    state = types.SimpleNamespace(done=False, seen=[])

    def f(x):
        state.done = True
        return x * 2

    def look():
        was, state.done = state.done, False
        return was

    return f, look


COUNT = 0


@case
def a_global_counter():
    def f(x):
        global COUNT
        COUNT += 1
        return x * COUNT

    def look():
        return COUNT

    globals()["COUNT"] = 0
    return f, look


@case
def a_dict_that_counts():
    counts = collections.Counter()

    def f(x):
        counts[x.shape[0]] += 1
        return x * counts[x.shape[0]]

    return f, lambda: dict(counts)


@case
def a_list_of_results():
    results = []

    def f(x):
        results.append(x * 2)
        return x * len(results)

    return f, lambda: [result.sum().item() for result in results]


@case
def a_result_as_an_attribute():
    held = types.SimpleNamespace()

    def f(x):
        held.last = x.sin()
        return held.last * 2

    return f, lambda: held.last.sum().item()


@case
def a_list_that_is_an_argument():
    log = []

    def f(x, log=log):
        log.append(len(log))
        return x * len(log)

    return lambda x: f(x, log), lambda: list(log)


@case
def an_attribute_of_a_class():
    class Counter:
        total = 0

        def __call__(self, x):
            type(self).total += 1
            return x * self.total

    return Counter(), lambda: Counter.total


@case
def a_slot():
    class Slotted:
        __slots__ = ("total",)

    held = Slotted()
    held.total = 0

    def f(x):
        held.total += 1
        return x * held.total

    return f, lambda: held.total


@case
def a_variable_of_a_module():
    settings = types.ModuleType("settings")
    settings.calls = 0

    def f(x):
        settings.calls += 1
        return x * settings.calls

    return f, lambda: settings.calls


@case
def a_function_that_remembers():
    def f(x):
        f.calls += 1
        return x * f.calls

    f.calls = 0
    return f, lambda: f.calls


@case
def a_memo_of_the_first_call():
    memo = {}

    def f(x):
        if "scale" not in memo:
            memo["scale"] = float(x.shape[0])
        return x * memo["scale"]

    return f, lambda: dict(memo)


@case
def what_a_hook_writes():
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(lambda gradient: seen.append(len(seen)) or gradient * len(seen))
        return y.sin()

    return f, lambda: list(seen)


@case
def a_buffer_that_is_bound_anew():
    module = Counting()
    return module, lambda: (module.total.item(), module.seen[0].item(), [state[0].item() for state in module.states])


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(()))
        self.states = []

    def forward(self, x):
        with torch.no_grad():
            self.total = self.total + x.sum()
            self.seen = x * 2
        self.states = [*self.states, x.detach() * len(self.states)]
        return x * self.total


@pytest.mark.parametrize("name", case)
def test_it_is_as_in_eager(name):
    stats = agrees_with_eager(case[name])
    assert stats.originals > 0 and stats.last_original


def test_what_writes_back_what_was_there_is_no_change():
    state = types.SimpleNamespace(training=False)

    def f(x):
        state.training, before = True, state.training
        try:
            return x * 2
        finally:
            state.training = before

    compiled = diptych.aot_function(f)
    for _ in range(3):
        compiled(torch.ones(2))
    assert compiled.stats().originals == 0 and compiled.stats().hits == 2


def test_a_write_at_the_first_call_alone_is_compiled_after_it():
    function, look = made(case["a_memo_of_the_first_call"])
    compiled = diptych.aot_function(function)
    for _ in range(4):
        torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 3.0))
    assert compiled.stats().originals == 1 and compiled.stats().hits == 2


def test_a_counter_is_not_captured_for_ever():
    function, look = made(case["a_counter_in_a_closure"])
    compiled, x = diptych.aot_function(function), torch.ones(2)
    for call in range(1, 41):
        torch.testing.assert_close(compiled(x), x * call)
    assert compiled.stats().misses < 20 and compiled.stats().originals == 40
