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


def test_what_was_replaced_is_let_go():
    module = Averaging()
    compiled = diptych.aot_module(module)
    held = []
    for _ in range(6):
        compiled(torch.ones(4, 3))
        held.append(weakref.ref(module.mean))
    gc.collect()
    assert [one() is not None for one in held] == [False] * 5 + [True]


def test_state_dicts_copies_and_other_dtypes_in_between():
    expected, compiled = Averaging(), diptych.aot_module(Averaging())
    before = copy.deepcopy(expected.state_dict())
    for call in range(12):
        if call == 5:
            expected.load_state_dict(before)
            compiled.load_state_dict(before)
        if call == 7:
            compiled = pickle.loads(pickle.dumps(copy.deepcopy(compiled)))
        if call in (8, 10):
            kind = torch.float64 if call == 8 else torch.float32
            expected.to(kind)
            compiled.to(kind)
        x = torch.randn(4, 3, dtype=compiled.mean.dtype)
        torch.testing.assert_close(compiled(x), expected(x))
        torch.testing.assert_close(compiled.state_dict(), expected.state_dict())


def test_derivatives_of_other_kinds_through_time():
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.h = torch.zeros(3)
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            self.h = torch.tanh(self.h * self.weight + x)
            return self.h * 2

    modules = [Cell(), Cell()]
    calls = [modules[0], diptych.aot_module(modules[1])]
    found = [[], []]
    for number in range(5):
        start = torch.randn(3)
        for call, into in zip(calls, found):
            x = start.clone().requires_grad_()
            y = call(x)
            (first,) = torch.autograd.grad(y.sum(), x, create_graph=True, retain_graph=True)
            into += [y.detach(), torch.autograd.grad(first.sum(), x, retain_graph=True)[0]]
            into += torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True, retain_graph=True)
            if number == 4:
                y.sum().backward()
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(modules[1].weight.grad, modules[0].weight.grad)
    assert calls[1].stats().hits >= 2


def test_history_that_is_only_replaced_or_used_now_and_then():
    class Sometimes(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.is_used = None, False
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            y = x * self.weight + (self.last if self.is_used else 0)
            self.last = y.sin()
            return y.exp()

    gradients = []
    for compiles in (False, True):
        torch.manual_seed(0)
        module = Sometimes()
        call = diptych.aot_module(module) if compiles else module
        total = 0
        for number in range(14):
            module.is_used = number in (3, 4, 5, 8, 9, 12)
            total = total + call(torch.randn(4, 3)).sum()
        total.backward()
        gradients.append(module.weight.grad)
    torch.testing.assert_close(*gradients)
    assert call.stats().hits >= 4, call.stats()


def test_a_backward_does_not_run_into_earlier_calls():
    """Nothing that is returned depends on what is kept, so eager frees nothing of it."""

    class Apart(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = torch.zeros(3)

        def forward(self, x):
            self.kept = self.kept * 0.9 + x.sin().sum(0)
            return x.exp()

    modules = [Apart(), Apart()]
    compiled = diptych.aot_module(modules[1])
    for _ in range(4):
        x = torch.randn(4, 3)
        for call in (modules[0], compiled):
            call((x.clone().requires_grad_() * 1).relu()).sum().backward()
        torch.testing.assert_close(modules[1].kept, modules[0].kept)


def test_what_grows_is_no_capture_each_time():
    class Box:
        pass

    held, box = Box(), Box()
    held.all, box.all = [], []

    def bound(x):
        held.all = [*held.all, x * 2]
        return sum(held.all)

    def given(x):
        box.all.append(x * 2)
        return sum(box.all)

    for compiled, call in ((diptych.aot_function(bound), lambda f, x: f(x)), (diptych.aot_function(lambda x, box: given(x)), lambda f, x: f(x, box))):
        for number in range(80):
            torch.testing.assert_close(call(compiled, torch.ones(3)), torch.full((3,), 2.0 * (number + 1)))
        assert compiled.stats().misses < 40, compiled.stats()


def test_backwards_that_store():
    held = {"g": torch.zeros(3)}

    class Stores(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            held["g"] = held["g"] + gradient
            return gradient * 2

    compiled = diptych.aot_function(lambda x: Stores.apply(x))
    for call in range(4):
        compiled(torch.ones(3, requires_grad=True)).sum().backward()
        torch.testing.assert_close(held["g"], torch.full((3,), call + 1.0))


def test_a_lock_of_the_function():
    held, lock = {"h": torch.zeros(())}, threading.Lock()

    def f(x):
        with lock:
            held["h"] = held["h"] + x.sum()
        return x * 2

    compiled = diptych.aot_function(f)
    for _ in range(3):
        compiled(torch.ones(2))
    threads = [threading.Thread(target=lambda: [compiled(torch.ones(2)) for _ in range(10)], daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert held["h"] == 2 * 43


def test_a_function_whose_parameter_is_called_state():
    held = {"h": torch.zeros(3)}

    def f(state, x):
        held["h"] = held["h"] + state["a"] * x
        return held["h"] * 2

    compiled = diptych.aot_function(f)
    for call in range(4):
        torch.testing.assert_close(compiled(x=torch.ones(3), state={"a": torch.ones(3)}), torch.full((3,), 2.0 * (call + 1)))
    assert compiled.stats().hits >= 2


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"dynamic": True, "check_sizes": False}], ids=str)
def test_a_memo_by_sizes_that_the_module_holds(options):
    """A trace at other sizes leaves another tensor in the module, which is an argument of the next trace."""

    class Memo(nn.Module):
        def __init__(self):
            super().__init__()
            self.memo = {}

        def forward(self, x):
            n = x.shape[0]
            if n not in self.memo:
                self.memo[n] = torch.arange(n).float()
            return x * self.memo[n][:, None]

    module, eager = Memo(), Memo()
    compiled = diptych.aot_module(module, **options)
    for n in (4, 5, 4, 5, 6, 7, 6, 4, 9):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), eager(x))
        assert module.memo.keys() == eager.memo.keys()
