"""torch.compile(backend="diptych"), by the name that the package registers."""
import copy
import subprocess
import sys
import types

import diptych
import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()


def test_the_name_is_registered():
    assert "diptych" in torch.compiler.list_backends()


def test_dynamo_finds_the_backend_without_our_import():
    program = "import torch; print(torch.compile(lambda x: x.sin() * 2, backend='diptych')(torch.ones(2)))"
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert run.stdout == "tensor([1.6829, 1.6829])\n", run.stderr


def test_importing_us_does_not_import_dynamo():
    program = "import sys, torch; before = set(sys.modules); import diptych; print([m for m in set(sys.modules) - before if not m.startswith('diptych')])"
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "torch._dynamo" not in run.stdout and "torch" not in run.stdout, run.stdout


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 2))

    def forward(self, x, mask=None):
        y = self.layers(x)
        if x.shape[0] > 4:  # what Dynamo decides
            y = y * 2
        return {"y": y if mask is None else y * mask, "n": x.shape[0]}


@pytest.mark.parametrize("options", [None, {"partition": "min_cut"}, {"decompositions": ["all"], "partition": "memory_budget(0.5)"}])
def test_a_model_trains_as_in_eager(options):
    torch.manual_seed(0)
    eager, ours = Net(), Net()
    ours.load_state_dict(eager.state_dict())
    compiled = torch.compile(ours, backend="diptych", options=options)
    pairs = [(net, run, torch.optim.SGD(net.parameters(), 0.1)) for net, run in ((eager, eager), (ours, compiled))]
    for size, mask in ((3, None), (3, torch.ones(2)), (6, None), (7, None)):
        x = torch.randn(size, 4)
        results = []
        for _, run, optimizer in pairs:
            result = run(x, mask)
            optimizer.zero_grad()
            result["y"].square().mean().backward()
            optimizer.step()
            results.append(result)
        assert results[0]["n"] == results[1]["n"]
        torch.testing.assert_close(results[0]["y"], results[1]["y"])
        torch.testing.assert_close(eager.state_dict(), ours.state_dict())


def test_options_reach_the_graphs():
    seen = []

    def compiler(graph):
        seen.append(graph.name)
        program = diptych.Program(graph)
        return lambda tensors: program(tensors)

    f = torch.compile(lambda x: (x.sin() * x).sum(), backend="diptych", options={"forward_compiler": compiler, "backward_compiler": compiler})
    x = torch.randn(3, requires_grad=True)
    f(x).backward()
    torch.testing.assert_close(x.grad, (x.cos() * x + x.sin()).detach())
    assert len(seen) == 2


@pytest.mark.parametrize("arguments, words", [
    ({"options": {"cache_size": 3}}, r"\[torch.compile\] got options cache_size, expected those of diptych.Options"),
    ({"options": {"partition": "best"}}, "min_cut"),
    ({"mode": "max-autotune"}, r"\[torch.compile\] got mode='max-autotune'"),
])
def test_wrong_options_are_named(arguments, words):
    with pytest.raises(Exception, match=words) as caught:
        torch.compile(lambda x: x * 2, backend="diptych", **arguments)(torch.ones(2))
    assert "UserError" in str(caught.value) or isinstance(caught.value, diptych.UserError)


def test_dynamic_sizes():
    f = torch.compile(lambda x: (x * x.shape[0]).relu().sum(0), backend="diptych", dynamic=True)
    for size in (2, 3, 5, 3):
        x, y = torch.randn(size, 4, requires_grad=True), None
        y = x.detach().clone().requires_grad_()
        f(x).sum().backward()
        (y * size).relu().sum(0).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)


def never(module, example_inputs):
    """A backend for what is compiled and must not be run so."""
    raise AssertionError("Dynamo compiled what a trace runs")


SCALE = 2.0


def scaled(x, w):
    return (x @ w).tanh() * SCALE


def check_beside(compiled, eager, *arguments):
    """Values and gradients of a function that was compiled twice are those of what was written."""
    results = []
    for function in (compiled, eager):
        leaves = [argument.detach().clone().requires_grad_() for argument in arguments]
        value = function(*leaves)
        results.append([value, *torch.autograd.grad(value.sum(), leaves)])
    torch.testing.assert_close(*results)


def test_a_function_of_torch_compile_is_traced_as_it_was_written(monkeypatch):
    x, w = torch.randn(4, 3), torch.randn(3, 2)
    for wrap in (torch.compile(backend=never), torch.compile(backend=never, fullgraph=True, dynamic=True), torch.compiler.disable):
        compiled = diptych.aot_function(wrap(scaled))
        check_beside(compiled, scaled, x, w)
        check_beside(compiled, scaled, x, w)
        assert (compiled.stats().misses, compiled.stats().hits, compiled.__name__) == (1, 1, "scaled")
        monkeypatch.setitem(globals(), "SCALE", SCALE + 1)
        check_beside(compiled, scaled, x, w)
        assert compiled.stats().misses == 2 and "SCALE" in compiled.stats().last_miss


def test_what_torch_compile_made_may_stand_in_a_traced_function():
    inner = torch.compile(scaled, backend=never)

    class Holder:
        @torch.compile(backend=never)
        def method(self, x, w):
            return inner(x, w).exp()

    holder, x, w = Holder(), torch.randn(4, 3), torch.randn(3, 2)
    for function, eager in (
        (lambda x, w: inner(x, w).sin(), lambda x, w: scaled(x, w).sin()),
        (holder.method, lambda x, w: scaled(x, w).exp()),
        (diptych.checkpoint(inner), scaled),
        (lambda x, w: diptych.scan(torch.compile(lambda c, x: (c + x, c), backend=never), w[0], w)[1] * x.sum(), lambda x, w: (w.cumsum(0) - w + w[0]) * x.sum()),
    ):
        compiled = diptych.aot_function(function)
        check_beside(compiled, eager, x, w)
        check_beside(compiled, eager, x, w)
        assert compiled.stats().hits == 1, compiled.stats().last_miss
    w.requires_grad_()
    [expected] = torch.autograd.grad(scaled(x, w).sum(), w)
    torch.testing.assert_close(diptych.grad(torch.compile(lambda w: inner(x, w).sum(), backend=never))(w), expected)
    assert "aten.tanh" in diptych.capture(inner, x, w).code()


def test_a_module_of_torch_compile_is_traced_as_it_was_written():
    torch.manual_seed(0)
    eager, x = Net(), torch.randn(3, 4)
    in_place, whole = copy.deepcopy(eager), copy.deepcopy(eager)
    in_place.compile(backend=never)
    for module, compiled in ((whole, torch.compile(whole, backend=never)), (in_place, in_place)):
        reference = copy.deepcopy(eager)
        for ours in (diptych.aot_module(compiled), diptych.aot_function(lambda net, x: net(x))):
            arguments = (x,) if isinstance(ours, diptych.AotModule) else (compiled, x)
            for _ in range(2):
                for run in (lambda: ours(*arguments), lambda: reference(x)):
                    run()["y"].square().mean().backward()
            assert ours.stats().hits == 1, ours.stats().last_miss
        torch.testing.assert_close(module.state_dict(), reference.state_dict())
        torch.testing.assert_close([p.grad for p in module.parameters()], [p.grad for p in reference.parameters()])
    hooked = torch.compile(copy.deepcopy(eager).eval(), backend=never)
    hooked.register_forward_hook(lambda module, arguments, result: {**result, "y": result["y"] + 1})
    torch.testing.assert_close(diptych.aot_module(hooked)(x)["y"], copy.deepcopy(eager).eval()(x)["y"] + 1)


def test_the_first_use_of_dynamo_inside_a_trace_is_refused_by_name():
    program = "import diptych, torch; diptych.aot_function(lambda x: torch.compile(lambda x: x.sin(), backend='eager')(x))(torch.ones(2))"
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert run.returncode == 0 or "the function calls an operator that torch compiles with Dynamo" in run.stderr, run.stderr


def test_dynamo_goes_on_after_a_trace():
    compiled, x = diptych.aot_function(torch.compile(lambda x: x.sin(), backend=never)), torch.ones(3)
    torch.testing.assert_close(compiled(x), x.sin())
    with pytest.raises(Exception, match="compiled what a trace runs"):
        torch.compile(lambda x: x.cos(), backend=never)(x)
    broken = diptych.aot_function(torch.compile(lambda x: x.sum().item() * x, backend=never), path_limit=0)
    with pytest.raises(diptych.UserError, match="needs the values"):
        broken(x)
    torch.testing.assert_close(torch.compile(lambda x: compiled(x) * 2, backend="eager")(x), x.sin() * 2)


@pytest.mark.parametrize("function", [lambda x: x.clone().resize_(3), lambda x: x.to_sparse().to_dense(), lambda x: x.clone().set_()])
def test_a_refusal_that_ends_well_prints_no_traceback(function, capfd):
    module = torch.fx.symbolic_trace(function)
    call = torch._dynamo.lookup_backend("diptych")(module, [torch.ones(2)])
    with pytest.warns(UserWarning, match="runs uncompiled"):
        call(torch.ones(2))
    assert "Traceback" not in capfd.readouterr().err


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return self.layer(x).relu() * self.calls


def exported(made_of):
    module, x = Counting(), torch.ones(2, 3)
    if made_of == "torch.export":
        return torch.export.export(module, (x,)).module()
    return torch._dynamo.export(module)(x).graph_module if made_of == "Dynamo" else torch.fx.symbolic_trace(module)


@pytest.mark.parametrize("compile", [diptych.aot_module, diptych.aot_function], ids=["module", "function"])
@pytest.mark.parametrize("made_of", ["torch.export", "Dynamo", "torch.fx"])
def test_exported_modules_are_captured(made_of, compile):
    module = exported(made_of)
    other, compiled = copy.deepcopy(module), compile(module)
    for step in range(3):
        x = torch.full((2, 3), float(step))
        torch.testing.assert_close(compiled(x), other(x))
    torch.testing.assert_close(dict(module.named_buffers()), dict(other.named_buffers()))
    assert (compiled.stats().hits, compiled.stats().originals) == (2, 0)


def broken_in_two(x, factor=2):
    y = x * factor
    torch._dynamo.graph_break()
    return y.sin() + 1


def test_code_that_dynamo_has_rewritten_is_captured():
    rewritten = []
    handle = torch._dynamo.convert_frame.register_bytecode_hook(lambda code, made: rewritten.append(made))
    x = torch.ones(3)
    torch.compile(broken_in_two, backend="eager")(x)
    handle.remove()
    code = next(made for made in rewritten if made.co_name == "broken_in_two")
    function = types.FunctionType(code, broken_in_two.__globals__, "rewritten", broken_in_two.__defaults__)
    compiled = diptych.aot_function(function)
    for step in range(3):
        torch.testing.assert_close(compiled(x * step), broken_in_two(x * step))
    assert (compiled.stats().hits, compiled.stats().originals) == (2, 0)
