"""Variables of the environment that a captured function reads: guarded by value, wherever they are read."""
import os
import types

import diptych
import pytest
import torch

X = torch.arange(3.0)
NAME = "DIPTYCH_TEST_OF_ENVIRONMENT"
READS = {
    "get": lambda: os.environ.get(NAME, "0"),
    "getenv": lambda: os.getenv(NAME, "0"),
    "item": lambda: os.environ[NAME] if NAME in os.environ else "0",
    "bytes": lambda: os.environb.get(NAME.encode(), b"0").decode(),
    "from a call": lambda: read(),
    "as a switch": lambda: "1" if os.environ.get(NAME, "").upper() in ("1", "YES") else "0",
}


def read():
    return os.environ.get(NAME, "0")


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    monkeypatch.setenv(NAME, "")  # so that it is gone after the test, whatever that does to it
    monkeypatch.delenv(NAME)


@pytest.mark.parametrize("name", READS)
def test_guarded_by_value(name, monkeypatch):
    reads = READS[name]
    compiled = diptych.aot_function(lambda x: x.sin() if reads() == "1" else x.cos())
    for value in (None, "1", "0", None, "1", "0"):
        if value is None:
            monkeypatch.delenv(NAME, raising=False)
        else:
            monkeypatch.setenv(NAME, value)
        torch.testing.assert_close(compiled(X), X.sin() if value == "1" else X.cos())
    stats = compiled.stats()
    assert stats.originals == 0 and stats.entries == 3 and stats.hits == 3


def test_the_first_call_is_captured():
    compiled = diptych.aot_function(lambda x: x * len(os.environ.get(NAME, "abc")))
    for _ in range(3):
        torch.testing.assert_close(compiled(X), X * 3)
    assert compiled.stats().entries == 1 and compiled.stats().hits == 2


def test_a_miss_names_the_variable(monkeypatch):
    compiled = diptych.aot_function(lambda x: x * len(os.environ.get(NAME, "abc")))
    compiled(X)
    monkeypatch.setenv(NAME, "four")
    torch.testing.assert_close(compiled(X), X * 4)
    assert f"os.environ.{NAME}" in compiled.stats().last_miss


def test_read_on_one_branch(monkeypatch):
    """What is read in one kind of call is compared in all from then on."""
    compiled = diptych.aot_function(lambda x, reads: x * len(read()) if reads else x.sin())
    for reads in (False, True, False, True, False):
        torch.testing.assert_close(compiled(X, reads), X * 1 if reads else X.sin())
    monkeypatch.setenv(NAME, "22")
    for reads in (False, True):
        torch.testing.assert_close(compiled(X, reads), X * 2 if reads else X.sin())
    assert compiled.stats().originals == 0


def test_with_an_effect_on_the_host(monkeypatch):
    """Whether the function itself runs depends on the variable, too."""
    box = types.SimpleNamespace(calls=0)

    def counts(x):
        if read() == "1":
            box.calls += 1
        return x.sin()

    compiled = diptych.aot_function(counts)
    for value in ("0", "1", "1", "0", "1"):
        monkeypatch.setenv(NAME, value)
        compiled(X)
    assert box.calls == 3 and compiled.stats().originals == 3


def test_gradients_and_modules(monkeypatch):
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)

        def forward(self, x):
            return self.linear(x) * float(os.environ.get(NAME, "1"))

    module = Scaled()
    compiled = diptych.aot_module(module, eager_fallback=False)
    for value in ("1", "2", "1"):
        monkeypatch.setenv(NAME, value)
        (expected,) = torch.autograd.grad(module(X).sum(), module.linear.weight)
        (got,) = torch.autograd.grad(compiled(X).sum(), module.linear.weight)
        torch.testing.assert_close(got, expected)
    assert compiled.stats().entries == 2 and compiled.stats().originals == 0


def test_value_and_grad(monkeypatch):
    compiled = diptych.value_and_grad(lambda x: (x * len(read())).sum())
    for value in ("1", "22", "1"):
        monkeypatch.setenv(NAME, value)
        _, gradient = compiled(X)
        torch.testing.assert_close(gradient, torch.full((3,), float(len(value))))


def test_all_of_the_environment_runs_the_function_itself():
    compiled = diptych.aot_function(lambda x: x * len([name for name in os.environ if name == NAME]))
    for _ in range(2):
        torch.testing.assert_close(compiled(X), X * 0)
    assert compiled.stats().originals == 2 and "reads the environment (os.environ)" in compiled.stats().last_original


def test_a_function_that_sets_it_runs_itself():
    def sets(x):
        os.environ[NAME] = "set"
        return x * len(os.environ[NAME])

    compiled = diptych.aot_function(sets)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), X * 3)
        del os.environ[NAME]
    assert compiled.stats().originals == 2
