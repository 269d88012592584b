"""The judge of results that are not eager's finds what is wrong, and lets pass what eager has otherwise on another CPU; as tests/testing/as_near_test.cpp."""
import math

import pytest
import torch
from as_near import Judge, assert_as_true, is_as_true

INF, NAN = math.inf, math.nan


def is_right(function, x, got):
    return Judge(function, [x]).wrong(got, function(x)) is None


def nan_of_infinity(x):
    """As oneDNN's gelu is."""
    return x * 2 if x.dtype == torch.float64 else torch.where(x.isinf(), NAN, x * 2)


@pytest.mark.parametrize("got, right", [([2, NAN, NAN], True), ([2, INF, NAN], True), ([2, -INF, NAN], False), ([2, 3e38, NAN], False), ([NAN, NAN, NAN], False)])
def test_eagers_number_and_the_truth_are_right_at_special_values(got, right):
    x, got = torch.tensor([1.0, INF, -INF]), torch.tensor(got, dtype=torch.float32)
    assert is_right(nan_of_infinity, x, got) == right
    assert is_as_true(got, nan_of_infinity(x), nan_of_infinity(x.double()), 1.0) == right


def test_an_element_may_be_what_eager_makes_of_it_alone_or_in_a_vector():
    def ends(x):
        return torch.ops.aten.logit_backward(torch.ones_like(x), x)

    x = torch.tensor([0.0, -0.0, 1.0] + 61 * [0.5])
    for infinity in (INF, -INF):
        other = ends(x)
        other[1] = infinity
        assert is_right(ends, x, other)
        other[2] = -INF
        assert not is_right(ends, x, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_errors_are_judged_by_those_of_eager(dtype):
    x = torch.linspace(0.5, 1.5, 50, dtype=torch.float64).to(dtype)
    for units, right in ((0.25, True), (20, False)):
        assert is_right(torch.sin, x, (x.double().sin() * (1 + units * torch.finfo(dtype).eps)).to(dtype)) == right


def test_integers_are_computed_with_as_floats():
    x = torch.arange(-50, 50)
    assert is_right(torch.sin, x, x.double().sin().float())
    assert not is_right(torch.sin, x, x.double().sin().float() * (1 + 2e-6))
    assert not is_right(lambda x: x * 2, x, x * 2 + (x == 3))


def test_lists_are_judged_by_neighbours_too():
    expected, truth = torch.ones(3), torch.ones(3, dtype=torch.float64)
    assert_as_true([expected + 1e-4], [expected], [truth], [[expected - 6e-5]])
    with pytest.raises(AssertionError):
        assert_as_true([expected + 1e-4], [expected], [truth], [[expected - 4e-5]])
