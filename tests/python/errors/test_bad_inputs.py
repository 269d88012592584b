"""Tensors that no graph can hold, reads of values that are not known, and what a function returns: each by name, with the line."""
import copy
import dataclasses
import enum
import functools

import diptych
import pytest
import torch

EYE = torch.eye(3)


def refusal(function, *args, **options):
    with pytest.raises(diptych.UserError) as caught:
        diptych.aot_function(function, **options)(*args)
    torch.testing.assert_close(EYE + 1, EYE.add(1))  # nothing is traced any more
    return str(caught.value)


@pytest.mark.parametrize("make, words", [
    (lambda: EYE.to_sparse(), "'x' is a tensor of layout Sparse, expected a strided one; convert it with to_dense() first"),
    (lambda: EYE.to_sparse_csr(), "'x' is a tensor of layout SparseCsr, expected a strided one"),
    (lambda: EYE.to_mkldnn(), "'x' is a tensor of layout Mkldnn, expected a strided one"),
    (lambda: torch.quantize_per_tensor(EYE, 0.1, 0, torch.qint8), "'x' is a quantized tensor (QInt8), expected a plain one; dequantize() it first"),
])
@pytest.mark.filterwarnings("ignore")  # torch's, on sparse layouts and quantization
def test_tensors_that_a_graph_can_not_hold(make, words):
    assert words in refusal(lambda x: x * 2, make())


@pytest.mark.parametrize("function", [lambda x: x.to_sparse() * 2, lambda x: torch.sparse.mm(EYE.to_sparse(), x)])
def test_sparse_tensors_made_inside_name_the_line(function):
    text = refusal(function, EYE)
    assert "aten::_to_sparse" in text and "test_bad_inputs.py:" in text and "a graph can't hold" in text


def test_meta_tensors_are_captured_as_they_are():
    x = torch.randn(3, 4, device="meta", requires_grad=True)
    pair = diptych.capture(lambda x: x.sin().sum(1), x)
    assert "f32[3]@meta" in pair.forward.code() and "aten.cos" in pair.backward.code()
    result = diptych.aot_function(lambda x: x.sin().sum(1))(x)
    assert result.device.type == "meta" and result.shape == (3,) and result.requires_grad


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about a device that is not there")
def test_a_device_that_is_not_there():
    with pytest.raises((AssertionError, RuntimeError), match="not compiled with CUDA|no NVIDIA driver"):  # torch's own words, by its build
        diptych.aot_function(lambda x: x.to("cuda") * 2)(EYE)
    torch.testing.assert_close(EYE + 1, EYE.add(1))


@pytest.mark.parametrize("function, operator", [
    (lambda x: float(x.sum()), "aten::item"),
    (lambda x: x * int(x.sum()), "aten::item"),
    (lambda x: x * x[0, 0].item(), "aten::item"),
    (lambda x: (f"{x.sum():.3f}", x * 2), "aten::item"),
    (lambda x: (repr(x), x * 2), "aten::"),
    (lambda x: x if x.sum() > 0 else -x, "aten::"),
    (lambda x: x.nonzero(), "aten::nonzero"),
    (lambda x: x[x > 0], "aten::index.Tensor"),
    (lambda x: x.unique(), "aten::"),
])
def test_values_that_are_not_known_name_the_line_and_the_way_out(function, operator):
    text = refusal(function, EYE, path_limit=0)
    assert operator in text and "needs the values of a tensor" in text
    assert f"test_bad_inputs.py:{function.__code__.co_firstlineno}" in text
    assert any(way in text for way in ("where, masking", "keep the shape with where()", "pass its result", "outside the function"))


@pytest.mark.parametrize("function", [lambda x: x * x.detach().numpy().sum(), lambda x: x * (x.data_ptr() % 2)])
def test_memory_that_is_not_there_names_the_line(function):
    text = refusal(function, EYE, path_limit=0)
    assert f"test_bad_inputs.py:{function.__code__.co_firstlineno}" in text and "the function reads the memory of a tensor" in text


@pytest.mark.parametrize("function", [lambda x: None, lambda x: len(x), lambda x: x.shape, lambda x: "text", lambda x: copy])
def test_a_function_without_tensors_in_its_result(function):
    assert "[capture] the function returned no tensor and changed none; return at least one" in refusal(function, EYE)


def test_a_module_in_the_result():
    assert "got a module, at 'weight'" in refusal(lambda x: torch.nn.Linear(3, 3), EYE)


def test_facts_of_tensors_are_plain_values():
    def facts(x):
        return x * 2, x.shape[0], len(x), x.dtype, x.device, x.numel(), x.is_contiguous(), str(x.dtype)

    expected, got = facts(EYE), diptych.aot_function(facts)(EYE)
    torch.testing.assert_close(got[0], expected[0])
    assert got[1:] == expected[1:]


def test_what_is_no_function():
    with pytest.raises(TypeError, match="not callable"):
        diptych.aot_function(3)(EYE)


class Box:
    def __init__(self, tensor, name="box"):
        self.tensor, self.name = tensor, name


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: object


def numbers_of(x):
    yield x


def started(generator):
    next(generator)
    return generator


class Made(Box):
    """Made in a way of its own, so that nobody else can make one."""

    def __new__(cls, *_):
        return super().__new__(cls)


@pytest.mark.parametrize("function, path", [
    (lambda x: (x, Made(x * 2)), "result.1.tensor"),
    (lambda x: {"a": x, "b": [Made({"inner": x * 2})]}, "result.b.0.tensor.inner"),
    (lambda x: (x, {x * 2}), "result.1[0]"),
    (lambda x: Pair(x, Made(x * 2)), "result.second.tensor"),
    (lambda x: (x, lambda: x * 2), "result.1.x"),
    (lambda x: (x, functools.partial(torch.add, x)), "result.1.args.0"),
    (lambda x: (x, started(numbers_of(x))), "result.1.x"),
])
def test_a_tensor_in_an_object_that_is_returned(function, path):
    text = refusal(function, EYE)
    assert f"returned an object that holds a tensor, at '{path}'" in text and "return the tensor itself" in text
    with pytest.raises(diptych.UserError, match="holds a tensor"):
        diptych.capture(function, EYE)


def test_objects_without_tensors_of_the_trace_are_returned():
    class Color(enum.Enum):
        RED = 1

    box = Box(EYE)
    x, same, color, number, held = diptych.aot_function(lambda x: (x * 2, box, Color.RED, Box(3), Pair(x, 5)))(EYE)
    assert same is box and color is Color.RED and number.tensor == 3 and isinstance(held.first, torch.Tensor) and held.second == 5
    torch.testing.assert_close(x, EYE * 2)


def test_a_computation_with_the_sparse_gradient_of_an_embedding_names_the_remedy():
    lookup = diptych.aot_function(lambda w: torch.nn.functional.embedding(torch.tensor([1, 3]), w * 2, sparse=True))
    with pytest.raises(diptych.UserError, match="reads a sparse gradient, as an embedding.*sparse=False"):
        lookup(torch.randn(5, 2, requires_grad=True))
