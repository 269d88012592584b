"""The judge of the suites finds what is wrong: each test has a function in the place of a compiled one that differs from eager in one thing; and what the
suites share."""
import faulthandler
import os
import shlex
import time

import diptych
import pytest
import torch

import judge
import rotation
import suite


@pytest.fixture(autouse=True)
def all_groups(monkeypatch):
    """The entries of these tests are taken whole, whichever part of the samples the run takes."""
    monkeypatch.setenv(rotation.VARIABLE, "all")


def verdict(eager, ours, order=2, needs=True):
    def look(function):
        torch.manual_seed(0)
        x = torch.randn(3, 4, dtype=torch.float64, requires_grad=needs)
        argument = x * 1
        return judge.observe(function, [x], [argument], {}, order)

    return judge.judge(lambda: look(eager), lambda: look(ours))


class Detached(torch.autograd.Function):
    """sin, whose gradient does not depend on its argument in autograd's eyes."""

    @staticmethod
    def forward(ctx, x):
        ctx.cosine = x.detach().cos()
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.cosine


@pytest.mark.parametrize("words, eager, ours", [
    ("equal", lambda x: x.sin(), lambda x: x.sin() * (1 + 2**-52)),
    ("dtype", lambda x: x.sin(), lambda x: x.sin().float()),
    ("strides", lambda x: x.sin(), lambda x: x.sin().t().contiguous().t()),
    ("requires_grad", lambda x: x.sin(), lambda x: x.sin().detach()),
    ("structure", lambda x: (x.sin(), 1), lambda x: (x.sin(), 2)),
    ("structure", lambda x: (x.sin(),), lambda x: [x.sin()]),
    ("structure", lambda x: x.sort(0), lambda x: tuple(x.sort(0))),
    ("is the tensor", lambda x: x, lambda x: x.view_as(x)),
    ("shares the storage", lambda x: x.view(-1), lambda x: x.view(-1).clone()),
    ("shares the storage", lambda x: [x.sin()] * 2, lambda x: [x.sin(), x.sin()]),
    ("argument after the call", lambda x: x.mul_(2).sum(), lambda x: (x * 2).sum()),
    ("argument after the call", lambda x: x.t_().sum(), lambda x: x.sum()),
    ("gradient of order 1", lambda x: x.sin(), lambda x: x.sin() + (x - x.detach())),
    ("gradient of order 2", lambda x: x.sin(), Detached.apply),
    ("expected what eager raises", lambda x: x.view(5), lambda x: x.sin()),
])
def test_a_difference_is_found(words, eager, ours):
    assert verdict(eager, eager)[0] in ("passed", "eager refuses")
    outcome, said = verdict(eager, ours)
    assert outcome == "wrong" and words in said, (outcome, said)


def test_rounding_is_judged_by_what_eager_makes_of_it(monkeypatch):
    monkeypatch.setattr(judge.settings, "backend", "native")

    def rounded(ulps):
        """Digits cancel out; eager loses none of these numbers', by luck."""

        def near_one(x):
            return x * (1 + ulps * torch.finfo(torch.float32).eps) - (1 - 2**-10)

        return lambda: judge.observe(near_one, [], [judge.clone(torch.ones(8))], {}, 0)

    assert judge.judge(rounded(0), rounded(1)) == ("passed", "")
    outcome, said = judge.judge(rounded(0), rounded(4))
    assert outcome == "wrong" and "the error is" in said, (outcome, said)
    assert judge.settings.shaken == 0


def test_errors_and_refusals_are_told_apart():
    def raises(error):
        def f(x):
            raise error

        return f

    assert verdict(torch.sin, raises(ValueError("no")))[0] == "error"
    assert verdict(torch.sin, raises(diptych.UserError("[trace] no")))[0] == "refused"
    assert verdict(torch.sin, raises(diptych.UserError("[interpreter] node 0 of graph 'forward' failed")))[0] == "error"
    assert verdict(raises(ValueError("no")), raises(diptych.UserError("[trace] no")))[0] == "eager refuses"
    for eager in (torch.sin, raises(ValueError("no"))):
        outcome, said = verdict(eager, raises(diptych.InternalError("[verify] no")))
        assert outcome == "error" and "InternalError: [verify] no" in said


def test_the_highest_order_that_eager_has_is_judged():
    def eager(order):
        if order > 1:
            raise RuntimeError("no second order")
        return judge.Seen([("order", order)])

    assert judge.judge_to_order(eager, lambda order: judge.Seen([("order", order)]), 2) == ("passed", "")
    assert judge.judge_to_order(eager, lambda order: judge.Seen([("order", 7)]), 2)[0] == "wrong"


def test_a_crash_and_a_hang_are_rows():
    def crash():
        faulthandler.disable()  # its report is not ours
        os.abort()

    def entry():
        yield "first", lambda: ("passed", "")
        yield "second", crash
        yield "third", lambda: ("passed", "")

    def hangs():
        yield "first", lambda: ("passed", "")
        yield "second", lambda: time.sleep(60)

    def crashes_between():
        faulthandler.disable()
        os._exit(3)
        yield "first", crash

    def rows_of(name, **outcomes):
        return [(name, group, outcome) for group, outcome in outcomes.items()]

    entries = [("a", entry), ("b", hangs), ("c", crashes_between), ("d", entry)]
    expected = rows_of("a", first="passed", second="crashed", third="passed")
    expected += [*rows_of("b", first="passed", second="slow"), *rows_of("c", suite="crashed")]
    expected += rows_of("d", first="passed", second="crashed", third="passed")
    for batch in (1, 2, 10):
        rows = list(suite.run_entries(entries, 1, batch))
        assert [row[:3] for row in rows] == expected
        assert {row[3] for row in rows if row[2] == "crashed"} == {"SIGABRT", "exit 3"}


def test_suites_that_go_together_take_turns_and_say_how_to_repeat(capsys):
    def entries(options):
        return [(name, lambda: iter([("x", lambda: ("wrong", judge.settings.backend))])) for name in names]

    names, backends = ("a", "b c"), ("interpreter", "native")
    runs = [suite.Run(__file__, ["--backend", backend, "--only", "a,b"], "suite", "", entries) for backend in backends]
    suite.judge_together(runs)
    assert all([run.report() for run in runs])
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("wrong ")] == [f"wrong    suite by {backend}: {name} x: {backend}" for name in names for backend in backends]
    repeats = [shlex.split(line)[-7:] for line in said if line.startswith("repeat: ")]
    assert repeats == [["tests/python/suites/test_judge.py", "--backend", backend, "--only", "a,b", "--only", name] for backend in backends for name in names]


def test_refusals_may_not_come_or_go_unseen(tmp_path, monkeypatch):
    path = tmp_path / "expected.json"
    path.write_text('{"suite": {"passed": 2, "refused": {"a *": "item", "b float32": "sparse"}}}')
    monkeypatch.setattr(suite, "EXPECTED", path)
    rows = [("a", "x", "refused", "item"), ("b", "float32", "refused", "sparse"), ("c", "x", "passed", ""), ("d", "x", "passed", "")]
    assert suite.unexpected("suite", rows, complete=True) == []
    assert len(suite.unexpected("suite", [*rows, ("c", "y", "refused", "item")], complete=True)) == 1
    assert len(suite.unexpected("suite", [("a", "x", "refused", "other"), *rows[1:]], complete=False)) == 1
    assert len(suite.unexpected("suite", rows[1:], complete=True)) == 1
    assert len(suite.unexpected("suite", rows[:3], complete=True)) == 1
    assert suite.unexpected("suite", rows[2:], complete=True, every_sample=False) == []


def test_parts_of_a_suite_are_all_of_it(monkeypatch):
    def entry(count):
        for number in range(count):
            yield str(number), lambda: number  # what it gives changes with the loop's next turn

    for count in (1, 3, 10, 27):
        taken = []
        for part in range(10):
            monkeypatch.setenv(rotation.VARIABLE, f"{part}/10")
            groups = [(group, thunk()) for group, thunk in suite.groups_of(lambda: entry(count))]
            assert groups and all(group == str(given) for group, given in groups)
            assert len(groups) <= -(-count // 10)
            taken += [group for group, _ in groups]
        assert set(taken) == set(map(str, range(count)))


@pytest.mark.parametrize("text", ["3", "10/10", "-1/10", "a/b"])
def test_a_part_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv(rotation.VARIABLE, text)
    with pytest.raises(ValueError, match=rotation.VARIABLE):
        rotation.part()
