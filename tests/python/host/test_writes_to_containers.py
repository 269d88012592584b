"""Containers, arrays and iterators that a function changes: a compiled function does it at each call, as eager does."""
import array
import collections
import itertools
import queue
import types
import weakref

import diptych
import numpy
import pytest
import torch
from host_cases import agrees_with_eager

from beside_eager import Cases

# make() gives a function of a tensor, and what else to look at after each call.
case = Cases()


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


@pytest.mark.parametrize("name", case)
def test_it_is_as_in_eager(name):
    stats = agrees_with_eager(case[name])
    assert stats.originals > 0 and stats.last_original


def test_a_table_that_makes_what_it_gives_is_left_as_it_is():
    class Makes(collections.OrderedDict):
        def __getitem__(self, key):
            return super().__getitem__(key)()

    table, calls = Makes(a=list, b=list), []

    def f(x):
        calls.append(table["a"])
        return x * 2

    diptych.aot_function(f)(torch.ones(3))
    assert list(dict.items(table)) == [("a", list), ("b", list)] and len(calls) == 1
