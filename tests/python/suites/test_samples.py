"""Samples of operators: made once, whoever asks, and as the database would make them."""
import types

import judge
import pytest
import torch
from samples import eager_once, samples, wrong_samples
from torch.testing._internal.custom_op_db import custom_op_db
from torch.testing._internal.opinfo.core import ErrorInput, SampleInput


def operator(made, error_inputs=None):
    """An operator with four samples, whose numbers `made` keeps."""

    def sample_inputs(op, device, dtype, requires_grad):
        for _ in range(4):
            made.append(torch.randn(2, dtype=dtype))
            yield SampleInput(made[-1].clone().requires_grad_(requires_grad), args=(2,), kwargs={"out": made[-1].clone()})

    return types.SimpleNamespace(sample_inputs_func=sample_inputs, error_inputs_func=error_inputs)


def test_samples_are_made_once_and_nobody_meets_what_another_wrote():
    made = []
    op = operator(made)
    for limit, most in ((1, 1), (3, 3), (None, 4), (2, 4)):
        for place, sample in enumerate(samples(op, torch.float64, True, limit)):
            numbers = made[place]
            assert torch.equal(sample.arguments[0], numbers) and torch.equal(sample.keywords["out"], numbers) and sample.arguments[0].requires_grad
            sample.arguments[0].detach().zero_(), sample.keywords["out"].zero_()
        assert len(made) == most
    assert len(list(samples(op, torch.float64, False))) == 4 and len(made) == 8  # of another kind


def test_samples_are_those_of_the_database():
    for op in custom_op_db:
        judge.seed(5)
        theirs = [(sample.input, *sample.args) for sample in op.sample_inputs("cpu", torch.float32, requires_grad=False)]
        ours = [sample.arguments for sample in samples(op, torch.float32, False)]
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    found = wrong_samples(operator([], lambda op, device: iter([ErrorInput(SampleInput(torch.zeros(3), args=(7,)), error_regex="")])))
    assert [sample.arguments[1:] for sample in found] == [(7,)] and list(wrong_samples(operator([]))) == []


def test_eager_is_asked_once_but_for_other_numbers():
    first, second, asked = operator([]), operator([]), []

    def look():
        asked.append(judge.settings.wide)
        if len(asked) == 1:
            raise ValueError("no")
        return len(asked)

    with pytest.raises(ValueError, match="no"):
        eager_once(first, (1,), look)()
    with pytest.raises(ValueError, match="no"):
        eager_once(first, (1,), look)()
    assert [eager_once(first, (2,), look)() for _ in range(3)] == [2, 2, 2]
    assert len(judge.observe_neighbours(eager_once(first, (2,), lambda: [look()]))) == 4 and judge.observe_truth(eager_once(first, (2,), look)) == 7
    assert eager_once(first, (2,), look)() == 2 and eager_once(second, (2,), look)() == 8 and asked == [False] * 6 + [True, False]
