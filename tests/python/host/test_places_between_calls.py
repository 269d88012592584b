"""What happens between calls of functions that keep tensors, and what becomes of these in other uses."""
import collections
import copy
import gc
import pickle
import threading
import weakref

import diptych
import pytest
import torch
from test_places import Averaging, Recurrent, Remembering
from torch import nn


def test_another_value_in_between():
    module = Recurrent(True)
    other = copy.deepcopy(module)
    compiled = diptych.aot_module(other, eager_fallback=False)
    for call in range(8):
        x = torch.randn(4, 3)
        for one in (module, other) if call == 3 else ():
            del one.state, one.pair
        for one in (module, other) if call == 5 else ():
            one.state = torch.full((4, 3), 0.5)
        for one in (module, other) if call == 6 else ():
            one.state.mul_(2)
        torch.testing.assert_close(compiled(x), module(x))
        torch.testing.assert_close(other.state, module.state)
    assert compiled.stats().originals == 1, compiled.stats()


def test_transforms_and_modes_in_between():
    functions = [Averaging(), Averaging()]
    compiled = diptych.aot_module(functions[1])
    for call in range(6):
        x = torch.randn(4, 3)
        for function, module in zip((functions[0], compiled), functions):
            if call == 4:
                torch.func.jvp(function, (x,), (x,))
                module.mean = module.mean.detach()
            elif call % 2:
                with torch.no_grad():
                    function(x)
            else:
                function(x)
        torch.testing.assert_close(functions[1].mean, functions[0].mean)
        assert type(functions[1].mean) is torch.Tensor


@pytest.mark.parametrize("learns_first", (True, False))
def test_inside_another_compiled_function(learns_first):
    modules = [Averaging(), Averaging()]
    inner = diptych.aot_module(modules[1])
    if learns_first:
        for _ in range(2):
            inner(torch.ones(4, 3))
            modules[0](torch.ones(4, 3))
    outer = diptych.aot_function(lambda x: inner(x.sin()) * 2)
    for _ in range(5):
        x = torch.randn(4, 3)
        torch.testing.assert_close(outer(x), modules[0](x.sin()) * 2)
        torch.testing.assert_close(modules[1].mean, modules[0].mean)


def test_an_exception_after_something_was_kept():
    def made():
        held = {"y": torch.zeros(3)}

        def f(x, fails):
            held["y"] = held["y"] + x
            if fails:
                raise KeyError("mine")
            return held["y"] * 2

        return f, held

    (function, expected), (other, held) = made(), made()
    compiled = diptych.aot_function(other)
    for fails in (False, False, True, False, True, False):
        for call in (function, compiled):
            try:
                call(torch.ones(3), fails)
            except KeyError:
                assert fails
        torch.testing.assert_close(held, expected)


def test_what_no_graph_makes_is_left_to_the_function():
    """A counter, a list that grows, a list that is kept and returned: the function itself, and what it keeps is right."""

    def counter(held, x):
        held["n"] = held.get("n", 0) + 1
        held["y"] = x * held["n"]
        return held["y"]

    def grows(held, x):
        held.setdefault("all", []).append(x * 2)
        return sum(held["all"])

    def returned(held, x):
        held["both"] = [x * 2, x * 3]
        return held["both"]

    def of_other_kind(held, x):
        held["y"] = nn.Parameter(x.detach())
        held["set"] = {1, 2}
        return x * 2

    for function in (counter, grows, returned, of_other_kind):
        held, expected = {}, {}
        compiled = diptych.aot_function(lambda x: function(held, x))
        for call in range(5):
            x = torch.full((3,), float(call))
            got = compiled(x)
            torch.testing.assert_close(got, function(expected, x))
            assert [type(one) for one in held.values()] == [type(one) for one in expected.values()]
            torch.testing.assert_close({key: held[key] for key in held if key != "set"}, {key: expected[key] for key in held if key != "set"})
        if function is returned:
            assert held["both"] is got


def test_threads():
    held = {"total": torch.zeros(())}

    def f(x):
        held["total"] = held["total"] + x.sum()
        return x * 2

    compiled = diptych.aot_function(f)
    compiled(torch.ones(2))
    compiled(torch.ones(2))
    threads = [threading.Thread(target=lambda: [compiled(torch.ones(2)) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held["total"] == 2 * 82


def test_checked_calls():
    module = Averaging()
    other = copy.deepcopy(module)
    compiled = diptych.aot_module(other, check=1)
    for _ in range(4):
        x = torch.randn(4, 3, requires_grad=True)
        torch.testing.assert_close(compiled(x), module(x))
        torch.testing.assert_close(other.mean, module.mean)
    assert compiled.stats().checks >= 2


def test_copies_have_places_of_their_own():
    compiled = diptych.aot_module(Averaging())
    for _ in range(3):
        compiled(torch.ones(4, 3))
    other = copy.deepcopy(compiled)
    before = compiled.mean.clone()
    for _ in range(3):
        other(torch.ones(4, 3))
    torch.testing.assert_close(compiled.mean, before)
    assert other.mean is not compiled.mean and not torch.equal(other.mean, before)
    expected = copy.deepcopy(compiled.module)
    torch.testing.assert_close(compiled(torch.ones(4, 3)), expected(torch.ones(4, 3)))
    torch.testing.assert_close(compiled.state_dict(), expected.state_dict())


def test_a_compiled_function_and_its_places_go():
    module = Remembering()
    compiled = diptych.aot_module(module)
    for _ in range(3):
        compiled(torch.ones(4, 3))
    kept = weakref.ref(module)
    del module, compiled
    gc.collect()
    assert kept() is None


def test_the_order_of_what_a_module_holds_stays():
    module = Recurrent(True)
    module(torch.ones(4, 3))
    before = list(vars(module)), list(module._buffers)
    compiled = diptych.aot_module(module)
    for _ in range(3):
        compiled(torch.ones(4, 3))
    assert (list(vars(module)), list(module._buffers)) == before


def test_ordered_dicts_and_names_that_are_alike():
    first, second = collections.OrderedDict(y=torch.zeros(3)), {"y": torch.zeros(3)}

    def f(x):
        first["y"], second["y"] = second["y"] + x, first["y"] - x
        return first["y"] * second["y"]

    compiled, expected = diptych.aot_function(f), [torch.zeros(3), torch.zeros(3)]
    for _ in range(4):
        compiled(torch.ones(3))
        expected = [expected[1] + 1, expected[0] - 1]
        torch.testing.assert_close([first["y"], second["y"]], expected)
    assert compiled.stats().originals == 1


def test_effects_of_a_compiled_function_inside_another_one():
    calls, held = [], {}

    def counts(x):
        calls.append(1)
        return x * 2

    def keeps(x):
        held["y"] = x * 3
        return x * 2

    for inner, originals in ((counts, 4), (keeps, 1)):
        compiled = diptych.aot_function(inner)
        outer = diptych.aot_function(lambda x: compiled(x) + 1)
        for call in range(1, 5):
            torch.testing.assert_close(outer(torch.full((2,), float(call))), torch.full((2,), call * 2.0 + 1))
        assert outer.stats().originals == originals
    assert len(calls) == 4
    torch.testing.assert_close(held["y"], torch.full((2,), 12.0))


def test_what_is_kept_is_among_inputs_and_outputs():
    compiled = diptych.aot_module(Averaging())
    for _ in range(2):
        compiled(torch.ones(4, 3))
    text = str(compiled.forward_graphs()[0])
    assert "%0 state.mean" in text and "return (%8 out, %6 state.mean" in text, text
    stats = compiled.stats()
    assert (stats.misses, stats.hits, stats.originals, stats.entries) == (2, 0, 1, 1) and "mean" in stats.last_original
    assert "2 captures" not in repr(compiled)
