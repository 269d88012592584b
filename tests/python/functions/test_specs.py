"""Captures from types alone: specs, FakeTensors and meta tensors, on devices that are there and on others."""
import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

import diptych


def two_layers(x, w):
    return F.relu(x @ w).square().sum()


class Tied(torch.nn.Module):
    """An embedding whose table is the last layer's weight, as in GPT, with a buffer."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(11, 8)
        self.block = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(8, 11, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("scale", torch.ones(8))

    def forward(self, tokens):
        return F.cross_entropy(self.head(self.block(self.table(tokens)) * self.scale).flatten(0, 1), tokens.flatten())


def devices_of(graph):
    values = [*graph.inputs, *(value for node in graph.nodes for value in node.outputs if value)]
    return {str(graph.meta(value).device) for value in values}


def test_specs_give_the_graphs_of_tensors():
    of_tensors = diptych.capture(two_layers, torch.randn(4, 3), torch.randn(3, 5, requires_grad=True))
    of_specs = diptych.capture(two_layers, diptych.spec((4, 3)), diptych.spec((3, 5), torch.float32, requires_grad=True))
    assert of_specs.code() == of_tensors.code()


@pytest.mark.parametrize("dtype, name", [("bf16", "bf16"), (torch.int64, "i64"), ("b8", "b8")])
def test_a_spec_prints_its_type(dtype, name):
    assert repr(diptych.spec((8, 16), dtype, "cuda")) == f"spec({name}[8,16]@cuda:0)"
    assert str(diptych.spec([2])) == "spec(f32[2])" and "requires_grad=True" in repr(diptych.spec((), requires_grad=True))


def test_on_a_device_that_is_not_there():
    pair = diptych.capture(two_layers, diptych.spec((4, 3), "f32", "cuda"), diptych.spec((3, 5), "f32", "cuda", requires_grad=True))
    assert devices_of(pair.forward) == devices_of(pair.backward) == {"cuda:0"}
    assert [value is not None for value in pair.backward.outputs] == [False, True]


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:1"])
def test_a_meta_module_lies_where_its_arguments_lie(device):
    with torch.device("meta"):
        model = Tied()
    before = dict(model.named_parameters())
    pair = diptych.capture(model, diptych.spec((2, 5), "i64", device))
    assert devices_of(pair.forward) == {"cuda:0" if device == "cuda" else device}
    assert all(parameter is before[name] and parameter.is_meta for name, parameter in model.named_parameters())
    assert model.head.weight is model.table.weight and model.scale.is_meta
    if device == "cpu":
        assert pair.code() == diptych.capture(Tied(), torch.zeros(2, 5, dtype=torch.int64)).code()


def test_fake_tensors_lie_on_their_device():
    with FakeTensorMode(), torch.device("cuda"):
        model, tokens = Tied(), torch.zeros(2, 5, dtype=torch.int64)
    pair = diptych.capture(model, tokens)
    assert devices_of(pair.forward) == {"cuda:0"}
    assert len(pair.free_variables) == len(list(model.parameters())) + 1
    assert all(type(parameter).__name__ == "FakeTensor" for parameter in model.parameters())


def test_meta_tensors_alone_stay_on_meta():
    pair = diptych.capture(two_layers, torch.empty(4, 3, device="meta"), torch.empty(3, 5, device="meta", requires_grad=True))
    assert devices_of(pair.forward) == {"meta"}


def test_one_tensor_is_one_spec_in_trees():
    w = torch.empty(3, 3, device="meta")

    def f(tree, x):
        tree["w"][0].mul_(2)
        return x @ tree["w"][0] + tree["again"][0]

    real = torch.randn(3, 3)
    assert diptych.capture(f, {"w": [w], "again": w}, diptych.spec((2, 3))).code() == diptych.capture(f, {"w": [real], "again": real}, torch.randn(2, 3)).code()


def test_a_capture_that_fails_leaves_the_module():
    with torch.device("meta"):
        model = Tied()
    before = list(model.parameters())
    with pytest.raises(RuntimeError, match="Long"):
        diptych.capture(model, diptych.spec((2, 5)))
    assert all(now is then for now, then in zip(model.parameters(), before, strict=True))


def test_nothing_runs_on_a_spec():
    x = diptych.spec((4, 3))
    for act in (lambda: x + 1, lambda: x.numpy(), lambda: x.tolist(), lambda: diptych.aot_function(torch.sin)(x)):
        with pytest.raises(RuntimeError, match="a spec has no elements"):
            act()


def test_refusals():
    with pytest.raises(diptych.UserError, match=r"\[spec\] got the sizes \[4, -1\]"):
        diptych.spec((4, -1))
    with pytest.raises(diptych.UserError, match="f31"):
        diptych.spec((4,), "f31")
    dynamic = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.STATIC])
    symbolic = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.zeros(4, 3), symbolic_context=dynamic)
    with pytest.raises(diptych.UserError, match="expected integers"):
        diptych.capture(torch.sin, symbolic)
    with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cpu!"):
        diptych.capture(two_layers, diptych.spec((4, 3), "f32", "cuda"), torch.randn(3, 5))
