"""Graphs in other hands: fx, Dynamo, files, the command."""
import os
import pathlib
import re
import subprocess
import sys

import diptych
import pytest
import torch
from diptych import _command
from torch import nn
from torch._inductor.utils import fresh_cache


def loss(params, x):
    hidden = nn.functional.gelu(nn.functional.linear(x, params["w"], params["b"]))
    top, _ = hidden.sort(dim=1)
    a, b = hidden.split([2, 3], dim=1)
    return (top * hidden).mean() + a.sum() * b.square().mean()


def inputs():
    torch.manual_seed(0)
    return {"w": torch.randn(5, 4, requires_grad=True), "b": torch.randn(5, requires_grad=True)}, torch.randn(3, 4)


def with_scan(w, xs):
    carry, ys = diptych.scan(lambda c, x: (torch.tanh(c @ w + x), c * 2), torch.zeros(3), xs)
    return carry.sum() + ys.sum()


def run_pair(pair, arguments):
    outputs, residuals = pair.forward_call(arguments)
    return outputs, pair.backward_call(residuals, [torch.ones_like(output) for output in outputs])


def compare(a, b):
    (outputs_a, gradients_a), (outputs_b, gradients_b) = a, b
    torch.testing.assert_close(outputs_a, outputs_b)
    for x, y in zip(gradients_a, gradients_b, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            torch.testing.assert_close(x, y)


@pytest.mark.parametrize("make", [
    lambda: (diptych.capture(loss, *inputs()), [inputs()[0]["b"], inputs()[0]["w"], inputs()[1]]),
    lambda: (diptych.capture(with_scan, torch.eye(3, requires_grad=True), torch.ones(4, 3)), [torch.eye(3), torch.ones(4, 3)]),
])
def test_fx_and_back(make):
    pair, arguments = make()
    forward, backward = (diptych.fx.to_graph_module(graph) for graph in (pair.forward, pair.backward))
    forward.graph.lint()
    backward.graph.lint()
    assert "placeholder" in str(forward.graph)
    with torch.no_grad():
        results = forward(*arguments)
        count = len(pair.signature.forward_outputs) - len(pair.signature.residuals)
        outputs, residuals = list(results[:count]), results[count:]
        gradients = backward(*residuals, *[torch.ones_like(output) for output in outputs])
    expected = run_pair(pair, arguments)
    compare((outputs, gradients), expected)
    again = diptych.make_pair(
        diptych.fx.from_graph_module(forward, like=pair.forward), diptych.fx.from_graph_module(backward, like=pair.backward)
    )
    for name in ("forward_inputs", "forward_outputs", "backward_inputs", "backward_outputs"):
        slots = [(info.kind, info.path) for info in getattr(again.signature, name)]
        assert slots == [(info.kind, info.path) for info in getattr(pair.signature, name)]
    compare(run_pair(again, arguments), expected)


def test_fx_names_every_input_apart():
    """Paths that are one identifier, Python's keywords, and names that fx gives to other things."""
    def f(self, x, x_a, **more):
        return self * x["a"] * x_a * more["class"] * more["torch"] * more["mul_tensor"] * more["x_a_1"] + more["W"] * more["w"]

    more = {name: torch.randn(3) for name in ("class", "torch", "mul_tensor", "x_a_1", "W", "w")}
    arguments = (torch.randn(3), {"a": torch.randn(3)}, torch.randn(3))
    pair = diptych.capture(f, *arguments, **more)
    module = diptych.fx.to_graph_module(pair.forward)
    module.graph.lint()
    compile(pair.print_readable(print_output=False), "readable", "exec")
    inputs = [arguments[0], arguments[1]["a"], arguments[2], *(more[info.path] for info in pair.signature.forward_inputs[3:])]
    torch.testing.assert_close(module(*inputs)[0], f(*arguments, **more))
    names = [node.target for node in module.graph.nodes if node.op == "placeholder"]
    assert len(set(names)) == len(names) == 9 and {"x_a", "W", "w"} <= set(names), names


def test_dynamo_compiles_by_us():
    from diptych._dynamo import backend

    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    compiled = torch.compile(model, backend=backend)
    for size in (3, 3):
        x = torch.randn(size, 4)
        model.zero_grad()
        model(x).square().sum().backward()
        expected = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        got = compiled(x)
        torch.testing.assert_close(got, model(x))
        got.square().sum().backward()
        torch.testing.assert_close([p.grad for p in model.parameters()], expected)


def test_files(tmp_path):
    pair = diptych.capture(loss, *inputs())
    params, x = inputs()
    path = tmp_path / "pair.dp"
    diptych.save(pair, path, params)
    loaded, tensors = diptych.load(path, with_parameters=True)
    assert loaded.forward == pair.forward and loaded.backward == pair.backward
    assert sorted(tensors) == ["b", "w"]
    torch.testing.assert_close(tensors["w"], params["w"].detach())
    compare(run_pair(loaded, [params["b"], params["w"], x]), run_pair(pair, [params["b"], params["w"], x]))
    with pytest.raises(diptych.UserError, match="No such file"):
        diptych.load(tmp_path / "none.dp")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["pair.dp", "pair.dp.safetensors"]


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """The command in this process: command(*arguments) is whether it failed, and what it said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments):
        try:
            status = _command.main(list(arguments))
        except SystemExit as end:
            status = end.code
        sys.modules.pop("model", None)
        said = capsys.readouterr()
        return bool(status), f"{said.out}{said.err}{status}"

    return run


MODEL = "import torch\ndef f(x, w):\n    return torch.tanh(x @ w).sum()\n"


def test_the_command_in_a_process_of_its_own(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(diptych.__file__).parents[1])}  # from wherever it runs
    words = [sys.executable, "-m", "diptych._command", "capture", "model:f"]
    run = subprocess.run([*words, "f32[3,4]", "f32[4,2]!", "--html", "f.html"], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "f.html").read_text().startswith("<!")
    run = subprocess.run([*words, "q[3]"], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert run.returncode == 1 and "expected one such as f32[8,16]" in run.stderr


def test_the_command(tmp_path, command):
    (tmp_path / "model.py").write_text(MODEL)
    for words, expected in [
        (("capture", "model:f", "f32[3,4]", "f32[4,2]!"), "graph backward"),
        (("capture", "model:f", "f32[3,4]", "f32[4,2]!", "--save", "f.dp"), "wrote f.dp"),
        (("show", "f.dp", "--table"), "aten.tanh"),
        (("doctor",), "a capture  works"),
    ]:
        failed, said = command(*words)
        assert not failed and expected in said, said


@pytest.mark.parametrize("wrong, words", [
    (("show", "none.dp"), "No such file"),
    (("capture", "model:g", "f32[3]"), "can't be imported"),
    (("capture", "model:f", "q[3]"), "expected one such as f32[8,16]"),
    (("capture", "model", "f32[3]"), "expected module:function"),
])
def test_mistakes_at_the_command_are_named(tmp_path, command, wrong, words):
    (tmp_path / "model.py").write_text(MODEL)
    failed, said = command(*wrong)
    assert failed and words in said


def test_the_reference_names_every_option_of_the_command(capsys):
    def help_of(*name):
        with pytest.raises(SystemExit):
            _command.main([*name, "--help"])
        return capsys.readouterr().out

    page = (pathlib.Path(__file__).parents[3] / "docs/python_api.md").read_text()
    section = page.partition("## The `diptych` command")[2].partition("\n## ")[0]
    names = re.findall(r"^    (\w[\w-]*)(?: |$)", help_of(), flags=re.M)
    assert len(names) == 4
    for name in names:
        assert f"diptych {name}" in section
        for option in re.findall(r"--\w+", help_of(name)):
            assert option in section, f"{name} {option}"


def test_a_pair_is_called_in_the_place_of_its_function(tmp_path):
    params, x = inputs()
    pair = diptych.capture(loss, params, x)
    diptych.save(pair, tmp_path / "pair", {f"params.{name}": tensor for name, tensor in params.items()})
    loaded, tensors = diptych.load(tmp_path / "pair", with_parameters=True)
    leaves = [tensor.requires_grad_() for tensor in diptych.tensors_of_argument(loaded.signature, "params", tensors, "params.")]
    expected = torch.autograd.grad(loss(params, x), [params["b"], params["w"]])
    compiled = diptych.aot_function(lambda *arguments: diptych.call_pair(loaded, arguments)[0])
    for value in (diptych.call_pair(loaded, [*leaves, x])[0], compiled(*leaves, x)):
        torch.testing.assert_close(value, loss(params, x))
        torch.testing.assert_close(torch.autograd.grad(value, leaves), expected)
    assert "hop.custom_vjp" in compiled.forward_graphs()[0].code()
    with pytest.raises(diptych.UserError, match="got 2 tensors, expected the 3 flattened arguments"):
        diptych.call_pair(loaded, leaves)
    del tensors["params.w"]
    with pytest.raises(diptych.UserError, match="there is no tensor 'params.w'"):
        diptych.tensors_of_argument(loaded.signature, "params", tensors, "params.")


@pytest.fixture
def recursion_limit():
    """Inductor raises it for the process when it compiles."""
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("recursion_limit")
def test_inductor_compiles_our_backward():
    x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
    pair = diptych.capture(lambda x, w: torch.tanh(x @ w).sum(), x, w)
    residuals = pair.forward_call([x, w])[1]
    compiled = torch.compile(diptych.fx.to_graph_module(pair.backward), backend="inductor", fullgraph=True)
    with fresh_cache(), torch.no_grad():  # the user's may hold code for another CPU: its keys do not tell which vectors ATen has
        found = compiled(*residuals, torch.ones(()))
    compare(((), found), ((), pair.backward_call(residuals, [torch.ones(())])))
