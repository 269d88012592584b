"""torch.compile(backend="diptych"), by the name that the package registers."""
import subprocess
import sys

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
