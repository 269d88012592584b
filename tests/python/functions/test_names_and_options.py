"""How captured tensors are named, how options are given, and what statistics print."""
import re

import diptych
import pytest
import torch


class TestOptionsOfCapture:
    """capture() takes options by keyword, as aot_function() does."""

    def test_an_option_is_taken_by_its_name(self):
        x, w = torch.randn(4, 3), torch.randn(3, 3, requires_grad=True)
        f = lambda x, w: (x @ w).tanh().exp().sum()
        plain, cut = diptych.capture(f, x, w), diptych.capture(f, x, w, partition="min_cut", name="mine")
        assert len(cut.signature.residuals) < len(plain.signature.residuals)
        assert cut.code() == diptych.capture_with(diptych.Options(partition="min_cut", name="mine"), f, x, w).code()

    def test_a_keyword_of_the_function_is_the_functions(self):
        def f(x, *, partition):
            return x * partition

        pair = diptych.capture(f, torch.ones(2), partition=3.0)
        torch.testing.assert_close(pair.forward_call([torch.ones(2)])[0][0], torch.full((2,), 3.0))
        pair = diptych.capture(lambda x, **kwargs: x * kwargs["name"], torch.ones(2), name=2.0)
        torch.testing.assert_close(pair.forward_call([torch.ones(2)])[0][0], torch.full((2,), 2.0))

    def test_an_option_of_calls_is_refused_by_name(self):
        with pytest.raises(diptych.UserError, match=r"\[capture\] dynamic is an option of compiled functions"):
            diptych.capture(torch.sin, torch.ones(2), dynamic=True)

    def test_every_option_is_known(self):
        from diptych import _functions

        signature = diptych.Options.__init__.__doc__
        names = set(re.findall(r"(\w+): ", signature[: signature.index(") -> None")])) - {"self"}
        assert names == _functions._CAPTURE_OPTIONS | _functions._CALL_OPTIONS


def test_statistics_print_what_they_hold():
    f = diptych.aot_function(lambda x: x * 2)
    assert repr(f.stats()) == "CacheStats: nothing has happened yet"
    f(torch.ones(2)), f(torch.ones(2)), f(torch.ones(3))
    assert repr(f.stats()).splitlines()[:3] == ["CacheStats:", "  entries: 2", "  hits: 1"]
    assert "  misses: 2" in repr(f.stats()) and "  last_miss: " in repr(f.stats())
    assert repr(diptych.backward_capture.statistics()).startswith("BackwardStatistics:")


class TestNamesOfFreeVariables:
    """A captured tensor has the name by which the function reaches it."""

    def names(self, f, *args):
        return list(diptych.capture(f, *args).signature.free_variables)

    def test_closures_globals_modules_containers_and_objects(self):
        net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
        weights, table = [torch.ones(3), torch.ones(3)], {"scale": torch.ones(3)}

        class Model:
            def __init__(self):
                self.shift = torch.ones(3)

            def __call__(self, x):
                return x + self.shift

        model = Model()
        assert self.names(lambda x: net[0](x) * weights[1] * table["scale"] + A_GLOBAL, torch.ones(2, 3)) == [
            "net.0.weight", "net.0.bias", "weights.1", "table.scale", "A_GLOBAL"]
        assert self.names(model, torch.ones(3)) == ["shift"]
        assert self.names(model.__call__, torch.ones(3)) == ["self.shift"]

    def test_functions_that_are_called_and_bodies_of_loops(self):
        w = torch.randn(3, requires_grad=True)
        inner = lambda c, x: (c * w + x, c)
        f = lambda xs: diptych.scan(inner, torch.zeros(3), xs)
        pair = diptych.capture(f, torch.ones(4, 3))
        assert "inner.w" in pair.signature.free_variables
        assert "w : f32[3] grad free_variable" in pair.forward.code()  # in the body, whose function reaches it as w

    def test_a_name_that_an_argument_has_is_not_given_twice(self):
        x = torch.ones(3)
        f = lambda y: y * x
        g = lambda x: f(x)
        assert len(set(self.names(g, torch.ones(3)) + ["x"])) == 2

    def test_what_is_not_found_keeps_its_number(self):
        hidden = iter([torch.ones(3)])
        held = [next(hidden)]
        def f(x):
            return x * (lambda: _HIDDEN[0]())()
        _HIDDEN[0] = lambda held=held: held[0]
        assert self.names(f, torch.ones(3)) == ["free.0"]

    def test_misses_and_backwards_use_the_names(self):
        net = torch.nn.Linear(3, 3)
        f = diptych.aot_function(lambda x: net(x).sum())
        f(torch.ones(2, 3)).backward()
        assert "net.weight : f32[3,3] grad free_variable" in f.forward_graphs()[0].code()
        net.weight.requires_grad_(False)
        f(torch.ones(2, 3))
        assert "net.weight" in f.stats().last_miss


A_GLOBAL = torch.ones(3)
_HIDDEN = [None]
