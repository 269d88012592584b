"""Which node code of the user is called for in a captured backward, and what a profiler sees of one."""
import diptych
import pytest
import torch
from beside_eager import Cases
from diptych import backward_capture
from torch.autograd.graph import saved_tensors_hooks

MAKERS = Cases()  # functions of a leaf and of a function that notes the node, which return a loss


def node():
    current = torch._C._current_autograd_node()
    return None if current is None else current.name()


@MAKERS
def unpacked(x, note):
    with saved_tensors_hooks(lambda t: t.detach(), lambda t: (note(), t)[1]):
        return (x.sin() * x.exp()).sum()


@MAKERS
def hook_of_a_tensor(x, note):
    y = x.sin()
    y.register_hook(lambda gradient: (note(), gradient * 2)[1])
    return (y * x.exp()).sum()


@MAKERS
def hooks_of_a_node(x, note):
    y = x.sin()
    y.grad_fn.register_prehook(lambda gradients: note())
    y.grad_fn.register_hook(lambda gradients, given: note())
    return (y * x.exp()).sum()


@MAKERS
def hooks_of_a_leaf(x, note):
    x.register_hook(lambda gradient: note())
    x.register_post_accumulate_grad_hook(lambda leaf: note())
    return (x.sin() * x).sum()


@MAKERS
def function(x, note):
    class Noted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            note()
            return gradient * 2

    return Noted.apply(x.sin()).sum()


@MAKERS
def compiled(x, note):
    y = diptych.aot_function(lambda x: x.sin(), name="f")(x)
    y.register_hook(lambda gradient: note())
    return (y * y).sum()


@MAKERS
def backward_in_a_hook(x, note):
    def again(gradient):
        note()
        with torch.enable_grad():
            inner = torch.ones(2, requires_grad=True).cos()
            inner.register_hook(lambda gradient: note())
            inner.sum().backward()
        note()

    y = x.sin()
    y.register_hook(again)
    return (y * x).sum()


@pytest.mark.parametrize("name", MAKERS)
def test_the_node_is_that_of_eager(name):
    def nodes(run):
        noted = []
        x = torch.arange(1.0, 4).requires_grad_()
        run(MAKERS[name](x, lambda: noted.append(node())).backward)
        return [*noted, node()], x.grad

    def captured(backward):
        with backward_capture.capture():
            backward()

    expected, gradient = nodes(lambda backward: backward())
    assert None not in expected[:-1] and expected[-1] is None
    for _ in range(2):
        got = nodes(captured)
        assert got[0] == expected
        torch.testing.assert_close(got[1], gradient)


def test_the_profiler_sees_forwards_and_backwards_by_name():
    f = diptych.aot_function(lambda x: (x.sin() * x).sum(), name="loss")
    x = torch.ones(3, requires_grad=True)
    names = []
    for _ in range(2):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            f(x).backward()
            with backward_capture.capture():
                x.cos().exp().sum().backward()
        names = [event.name for event in profile.events()]
    assert names.count("diptych::forward loss") == names.count("DiptychBackward(loss)") == 1
    assert [name for name in names if name.startswith("diptych::backward")] == [
        "diptych::backward torch::autograd::GraphRoot, SumBackward0, ExpBackward0, CosBackward0, torch::autograd::AccumulateGrad"
    ]
