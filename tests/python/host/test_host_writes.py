"""What a function writes on the host while it runs: a compiled function does it at each call, as eager does, or refuses by name."""
import array
import collections
import dataclasses
import functools
import itertools
import queue
import types
import weakref

import diptych
import numpy
import pytest
import torch
from host_cases import agrees_with_eager, made

CASES = {}


def case(make):
    """make() gives a function of a tensor, and what else to look at after each call."""
    CASES[make.__name__] = make
    return make


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
def a_set_and_a_deque():
    seen, last = set(), collections.deque(maxlen=2)

    def f(x):
        seen.add(len(seen))
        last.append(len(seen))
        return x * len(seen) + sum(last)

    return f, lambda: (sorted(seen), list(last))


@case
def the_order_of_a_dict():
    order = collections.OrderedDict(a=1.0, b=2.0, c=3.0)

    def f(x):
        order.move_to_end(next(iter(order)))
        return x * next(iter(order.values()))

    return f, lambda: list(order)


@case
def a_queue():
    waiting = queue.Queue()
    for scale in range(9):
        waiting.put(scale)
    return lambda x: x * waiting.get_nowait(), waiting.qsize


@case
def a_simple_queue():
    waiting = queue.SimpleQueue()
    for scale in range(9):
        waiting.put(scale)
    return lambda x: x * waiting.get(), waiting.qsize


@case
def a_mutable_default():
    def f(x, seen={}):  # noqa: B006
        seen["calls"] = seen.get("calls", 0) + 1
        return x * seen["calls"]

    f.__defaults__[0].clear()
    return f


@case
def an_array_and_bytes():
    numbers, text = array.array("d", [0.0]), bytearray(b"a")

    def f(x):
        numbers[0] += 1
        numbers.append(2.0)
        text.append(98)
        return x * numbers[0] + len(text) + len(numbers)

    return f, lambda: (numbers.tolist(), bytes(text))


@case
def an_iterator_with_a_state_of_its_own():
    class Counting:
        now = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.now += 1
            return self.now

    values = Counting()
    return lambda x: x * next(values)


@case
def a_value_of_each_object():
    values = weakref.WeakKeyDictionary()
    held = torch.nn.Module()
    values[held] = 0

    def f(x):
        values[held] += 1
        return x * values[held]

    return f, lambda: values[held]


@case
def an_array_of_numpy():
    counts = numpy.zeros(3)

    def f(x):
        counts[1] += 1
        return x * float(counts[1])

    return f, lambda: counts.tolist()


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
def an_iterator():
    values = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    return lambda x: x * next(values)


@case
def an_iterator_that_counts():
    count = itertools.count(1)
    return lambda x: x * next(count)


@case
def a_cycle():
    scales = itertools.cycle([1.0, 2.0, 3.0])
    return lambda x: x * next(scales)


@case
def a_generator_function():
    def scales():
        scale = 1.0
        while True:
            yield scale
            scale *= 2

    values = scales()
    next(values)
    return lambda x: x * next(values)


@case
def an_iterator_inside_an_object():
    held = types.SimpleNamespace(pairs=zip(range(9), range(9)))
    return lambda x: x * next(held.pairs)[1]


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


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_in_eager(name):
    stats = agrees_with_eager(CASES[name])
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
    function, look = made(CASES["a_memo_of_the_first_call"])
    compiled = diptych.aot_function(function)
    for _ in range(4):
        torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 3.0))
    assert compiled.stats().originals == 1 and compiled.stats().hits == 2


def test_a_counter_is_not_captured_for_ever():
    function, look = made(CASES["a_counter_in_a_closure"])
    compiled, x = diptych.aot_function(function), torch.ones(2)
    for call in range(1, 41):
        torch.testing.assert_close(compiled(x), x * call)
    assert compiled.stats().misses < 20 and compiled.stats().originals == 40


def test_a_list_argument_is_added_to():
    def f(x, log):
        log.append(x.shape[0])
        return x * len(log)

    compiled, x = diptych.aot_function(f), torch.ones(3)
    log, expected = [], []
    for _ in range(3):
        torch.testing.assert_close(compiled(x, log), f(x, expected))
        assert log == expected


def test_a_generator_as_an_argument():
    def scales():
        yield from (1.0, 2.0, 3.0)

    compiled, given = diptych.aot_function(lambda x, scales: x * next(scales)), scales()
    for scale in (1.0, 2.0, 3.0):
        torch.testing.assert_close(compiled(torch.ones(2), given), torch.full((2,), scale))


def test_dict_and_dataclass_arguments_are_changed():
    @dataclasses.dataclass
    class Batch:
        x: torch.Tensor
        calls: int = 0

    def f(batch, d):
        batch.calls += 1
        d["y"] = batch.x * 2
        return d["y"] * batch.calls

    compiled, batch, d = diptych.aot_function(f), Batch(torch.ones(3)), {}
    for call in range(1, 4):
        torch.testing.assert_close(compiled(batch, d), torch.full((3,), 2.0 * call))
        assert batch.calls == call
        torch.testing.assert_close(d["y"], torch.full((3,), 2.0))


def test_what_the_trace_wrote_is_taken_back():
    results = []

    def f(x):
        results.append(x * 2)
        return x.sum().item() * x  # which no trace can do

    compiled = diptych.aot_function(f)
    with pytest.raises(diptych.UserError):
        compiled(torch.ones(3))
    assert results == []


def test_an_iterator_that_cannot_be_put_back():
    values, kept = iter([1.0, 2.0]), []

    def f(x):
        kept.append(x * next(values))
        return kept[-1]

    with pytest.raises(diptych.UserError, match=r"\[capture\] the function .*takes from.*can't be taken back"):
        diptych.aot_function(f)(torch.ones(3))


def tables_of(cache):
    @cache
    def table(n):
        return torch.ones(n) * 2

    return table


@pytest.mark.parametrize("cache", [functools.cache, functools.lru_cache, functools.lru_cache(maxsize=2)], ids=["cache", "lru_cache", "limited"])
def test_a_cache_of_functools_keeps_no_tensor_of_a_trace(cache):
    table = tables_of(cache)
    compiled = diptych.aot_function(lambda x: x * table(x.shape[0]), dynamic=False)
    kept = table(7)
    for _ in range(3):
        for n in (2, 3, 4):
            torch.testing.assert_close(compiled(torch.ones(n)), torch.full((n,), 2.0))
            torch.testing.assert_close(table(n) + 1, torch.full((n,), 3.0))
    if table.cache_info().maxsize != 2:  # else eager, too, makes them again and again
        assert table(7) is kept
        table(4).add_(1)
        torch.testing.assert_close(compiled(torch.ones(4)), table(4))
        assert compiled.stats().originals == 3 and compiled.stats().hits >= 3


def test_a_cache_of_a_method_and_of_a_result_in_containers():
    class Rotary:
        @functools.lru_cache
        def tables(self, n):
            angles = torch.arange(float(n))
            return {"cos": angles.cos(), "sin": angles.sin()}

        def __call__(self, x):
            tables = self.tables(x.shape[0])
            return x * tables["cos"] + x.flip(0) * tables["sin"]

    rotary, x = Rotary(), torch.arange(4.0)
    compiled = diptych.aot_function(lambda x: rotary(x))
    expected = Rotary()(x)
    for _ in range(4):
        torch.testing.assert_close(compiled(x), expected)
        torch.testing.assert_close(rotary(x), expected)
    assert compiled.stats().originals == 1 and compiled.stats().hits == 2


def test_a_cache_of_numbers_costs_no_graph():
    @functools.cache
    def scale(n):
        return n * 2.0

    compiled = diptych.aot_function(lambda x: x * scale(x.shape[0]))
    for _ in range(3):
        torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 6.0))
    assert compiled.stats().originals == 0


def test_a_cache_after_a_trace_that_failed():
    table = tables_of(functools.cache)

    def f(x):
        return x * table(2) * x.sum().item()

    for _ in range(2):
        with pytest.raises(diptych.UserError):
            diptych.aot_function(f)(torch.ones(2))
        assert table.cache_info().currsize == 0
    torch.testing.assert_close(f(torch.ones(2)), torch.full((2,), 4.0))


def test_a_pair_leaves_no_tensor_in_a_cache():
    table = tables_of(functools.lru_cache)
    pair = diptych.capture(lambda x: x * table(2), torch.ones(2))
    assert len(pair.forward.inputs) == 1
    torch.testing.assert_close(table(2), torch.full((2,), 2.0))


class Link:
    def __init__(self, inside=None):
        self.inside, self.count = inside, 0


def in_the_middle_of_much():
    values = [0] * 50_000

    def f(x):
        values[20_000] += 1
        return x * 2

    return f, lambda: values[20_000]


def in_a_large_dict():
    counts = dict.fromkeys(range(50_000), 0)

    def f(x):
        counts[7] += 1
        return x * counts[7]

    return f, lambda: counts[7]


def counts_inside(links, result):
    innermost = link = Link()
    for _ in range(links):
        link = Link(link)

    def f(x):
        at = link
        while at.inside is not None:
            at = at.inside
        at.count += 1
        return result(x, at)

    return f, lambda: innermost.count


def far_inside():
    return counts_inside(12, lambda x, at: x * 2)


def further_than_is_looked_at():
    return counts_inside(60, lambda x, at: x * at.count)


@pytest.mark.parametrize("make", [in_the_middle_of_much, in_a_large_dict, far_inside])
def test_writes_to_large_and_deep_objects(make):
    assert agrees_with_eager(make).originals == 4


def test_what_is_too_deep_to_be_watched_runs_itself():
    function, look = further_than_is_looked_at()
    compiled = diptych.aot_function(function)
    compiled(torch.ones(2))
    before = look()
    for call in range(1, 4):
        torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), float(before + call)))
    assert look() == before + 3 and compiled.stats().originals == 4
    assert "leads to more than is looked at" in compiled.stats().last_original


def test_a_cache_that_is_filled_often_is_no_reason_to_give_up():
    table = tables_of(functools.cache)
    compiled = diptych.aot_function(lambda x: x * table(x.shape[0]), dynamic=False)
    for n in range(2, 22):
        for _ in range(3):
            torch.testing.assert_close(compiled(torch.ones(n)), torch.full((n,), 2.0))
    assert compiled.stats().originals == 20 and compiled.stats().hits == 20
