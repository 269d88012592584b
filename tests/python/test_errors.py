"""What is refused, in which words, and where it points."""
import traceback

import diptych
import pytest
import torch


def refusal(function, *args):
    with pytest.raises(diptych.UserError) as caught:
        function(*args)
    return caught


def test_a_branch_on_data_names_the_line():
    def f(x):
        if x.sum() > 0:
            return x
        return -x

    caught = refusal(diptych.aot_function(f), torch.randn(3))
    assert "aten::_local_scalar_dense" in str(caught.value) or "aten::is_nonzero" in str(caught.value)
    assert "test_errors.py" in str(caught.value)
    assert "cond" in str(caught.value)
    assert any("if x.sum() > 0" in (frame.line or "") for frame in traceback.extract_tb(caught.tb))


def test_a_subclass_is_refused():
    class Mine(torch.Tensor):
        pass

    caught = refusal(diptych.aot_function(lambda x: x * 2), torch.randn(3).as_subclass(Mine))
    assert "'x' is a test_errors.test_a_subclass_is_refused.<locals>.Mine" in str(caught.value)


def test_numpy_is_refused():
    with pytest.raises(RuntimeError, match="Cannot access data pointer of Tensor"):
        diptych.aot_function(lambda x: torch.from_numpy(x.numpy()))(torch.randn(3))
    with pytest.raises(RuntimeError):
        diptych.aot_function(lambda x: x * x.tolist()[0])(torch.randn(3))


def test_dict_keys_of_other_kinds():
    caught = refusal(diptych.aot_function(lambda d: d[(1, 2)]), {(1, 2): torch.randn(3)})
    assert "'d' is a dict with keys such as (1, 2), expected all strings or all integers" in str(caught.value)


def test_what_the_function_raises_comes_through():
    class Mine(Exception):
        pass

    def f(x):
        raise Mine("here")

    with pytest.raises(Mine, match="here"):
        diptych.aot_function(f)(torch.randn(3))
    with pytest.raises(RuntimeError, match="must match"):
        diptych.aot_function(lambda x, y: x + y)(torch.randn(3), torch.randn(4))
    torch.testing.assert_close(torch.ones(2) + 1, torch.full((2,), 2.0))  # nothing is traced any more


def test_options_are_checked():
    with pytest.raises(TypeError, match="cache_limit"):
        diptych.aot_function(lambda x: x, cache_size=3)
    caught = refusal(lambda: diptych.Options(partition="best"))
    assert "min_cut" in str(caught.value)
