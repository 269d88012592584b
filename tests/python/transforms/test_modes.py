"""Modes, hooks on saved tensors, anomaly mode and the like round a call: they act during it as in eager, and not after. Modes that kernels read."""
import collections

import diptych
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

X = torch.linspace(0.1, 2, 12, dtype=torch.float64).reshape(3, 4)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = collections.Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls[func] += 1
        result = func(*args, **(kwargs or {}))
        return result * 10 if func is torch.ops.aten.sin.default else result


class SeenFunctions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = collections.Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls[getattr(func, "__name__", "")] += 1
        result = func(*args, **(kwargs or {}))
        return result * 10 if func is torch.Tensor.sin else result


@pytest.mark.parametrize("mode_of, sin", [(Seen, torch.ops.aten.sin.default), (SeenFunctions, "sin")])
@pytest.mark.parametrize("first", ["under the mode", "before it"])
def test_a_mode_acts_during_the_call_and_not_after(mode_of, sin, first):
    f = diptych.aot_function(lambda x: x.sin() + 1)
    if first == "before it":
        f(X)
    for _ in range(2):
        with mode_of() as mode:
            y = f(X)
        close(y, 10 * X.sin() + 1)
        assert mode.calls[sin] == 1
        close(f(X), X.sin() + 1)
    assert f.stats().originals == 2 and f.stats().entries == 1


@pytest.mark.parametrize("mode_of, sin", [(Seen, torch.ops.aten.sin.default), (SeenFunctions, "sin")])
def test_a_mode_acts_in_each_step_of_an_operator(mode_of, sin):
    def step(carry, x):
        return carry + x.sin(), x

    with mode_of() as mode:
        carry, _ = diptych.scan(step, X[0] * 0, X)
    assert mode.calls[sin] == 3
    close(carry, 10 * X.sin().sum(0))
    close(diptych.scan(step, X[0] * 0, X)[0], X.sin().sum(0))


def test_a_mode_round_the_backward_leaves_nothing_behind():
    f = diptych.aot_function(lambda x: x.sin().sum())
    x = X.clone().requires_grad_()
    y = f(x)
    with SeenFunctions(), Seen():
        y.backward()
    z = X.clone().requires_grad_()
    f(z).backward()
    close(z.grad, X.cos())


def test_modes_of_torch_that_guards_know():
    f = diptych.aot_function(lambda x: x + torch.ones(3))
    x = torch.zeros(3)
    with torch.device("cpu"):
        close(f(x), torch.ones(3))
        f(x)
    assert f.stats().originals == 0 and f.stats().hits == 1
    f(x)
    assert f.stats().entries == 2
    g = diptych.aot_function(lambda: torch.ones(3) * 2)
    g()
    with torch.device("meta"):
        assert g().device.type == "meta"
    assert g().device.type == "cpu"
    with torch.autocast("cpu"), torch.inference_mode():
        f(x)
    assert f.stats().originals == 0


def test_counting_modes_of_torch():
    from torch.utils.flop_counter import FlopCounterMode

    f = diptych.aot_function(lambda x: x @ x.t())
    f(X)
    with FlopCounterMode(display=False) as counter:
        f(X)
    assert counter.get_total_flops() == 2 * 3 * 4 * 3


def test_hooks_on_saved_tensors_round_the_call():
    packed = []

    def pack(tensor):
        packed.append(tensor)
        return tensor * 1

    f = diptych.aot_function(lambda x: x.sin().cos())
    for _ in range(2):
        x = X.clone().requires_grad_()
        packed.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor * 3):
            y = f(x)
        assert len(packed) == 2
        y.sum().backward()
        z = X.clone().requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor * 3):
            z.sin().cos().sum().backward()
        close(x.grad, z.grad)
        w = X.clone().requires_grad_()
        f(w).sum().backward()
        close(w.grad, -X.sin().sin() * X.cos())
    x = X.clone().requires_grad_()
    with torch.autograd.graph.save_on_cpu():
        f(x).sum().backward()
    close(x.grad, -X.sin().sin() * X.cos())


def test_hooks_round_a_backward_that_is_traced_then():
    f = diptych.aot_function(lambda x: (x.sin(), x.cos()))
    x = X.clone().requires_grad_()
    y, _ = f(x)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), lambda t: torch.from_numpy(t)):
        y.sum().backward()
    close(x.grad, X.cos())


def test_torchs_checkpoint_round_a_compiled_function_with_dropout():
    layer = nn.Dropout(0.5)
    f = diptych.aot_function(lambda x: layer(x.sin()).cos())

    def look(f, reentrant):
        torch.manual_seed(0)
        x = X.clone().requires_grad_()
        y = torch.utils.checkpoint.checkpoint(f, x, use_reentrant=reentrant)
        y.sum().backward()
        return [y, x.grad]

    for _ in range(2):
        close(look(f, False), look(lambda x: layer(x.sin()).cos(), False))


def test_anomaly_mode_sees_the_operators():
    f = diptych.aot_function(lambda x: x.sqrt().sum())
    x = torch.zeros(3, requires_grad=True)
    f(x)
    for _ in range(2):
        with pytest.warns(UserWarning, match="Traceback of forward call"), torch.autograd.detect_anomaly(check_nan=True):
            with pytest.raises(RuntimeError, match="SqrtBackward0"):
                (f(x) * 0).backward()


def test_mutation_of_saved_tensors_is_allowed_where_torch_allows_it():
    f = diptych.aot_function(lambda x: x.sin())
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        a = X.clone().requires_grad_()
        b = a.clone()
        y = f(b)
        b.zero_()
        y.sum().backward()
    close(a.grad, X.cos())


def test_the_profiler_and_threads_are_no_transforms():
    f = diptych.aot_function(lambda x: x.sin())
    with torch.autograd.profiler.profile(), torch.autograd.set_multithreading_enabled(False):
        f(X)
        f(X)
    assert f.stats().hits == 1 and f.stats().originals == 0


@pytest.mark.parametrize("needs", [False, True])
def test_views_in_inference_mode(needs):
    def f(x):
        with torch.inference_mode():
            view, made = x.t(), x.sin()
            product = made[:, :2] @ view[:2]
        return view, product

    compiled = diptych.aot_function(f)
    for _ in range(2):
        x = X.clone().requires_grad_(needs)
        for ours, theirs in zip(compiled(x), f(x)):
            close(ours, theirs)
            assert ours.requires_grad == theirs.requires_grad


@pytest.mark.parametrize("function", [lambda x: x * 2, lambda x: x.add_(1), lambda x: x[:1], lambda x: x * x])
@pytest.mark.parametrize("order", [(0, 1, 0, 1), (1, 0, 1, 0)])
def test_tensors_of_inference_mode_outside_it(function, order):
    """Beside ordinary tensors of the same kind: what eager refuses to write to and to save is refused, the rest is computed."""

    def outcomes(call):
        with torch.inference_mode():
            inference = torch.ones(3)
        found = []
        for number in order:
            x = [torch.ones(3), inference][number]
            try:
                result = call(x)
                found.append((result.tolist(), result.is_inference(), result.requires_grad, x.tolist()))
            except RuntimeError as error:
                found.append(str(error).split(".")[0])
        return found

    assert outcomes(diptych.aot_function(function)) == outcomes(function)


def test_a_mode_of_kernels_is_a_guard():
    def body(x):
        return torch.empty(3), torch.empty(2, 2).view(4), x + 1, torch.empty(3) + x
    compiled = diptych.aot_function(body)
    compiled(torch.ones(3))
    before = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    try:
        torch.utils.deterministic.fill_uninitialized_memory = True
        for _ in range(2):
            empty, view, moved, both_of = compiled(torch.ones(3))
            assert empty.isnan().all() and view.isnan().all() and both_of.isnan().all() and moved.eq(2).all()
        assert "filling of uninitialized memory was off, is on" in compiled.stats().last_miss
        torch.utils.deterministic.fill_uninitialized_memory = False
        compiled(torch.ones(3))
        assert "filling of uninitialized memory was on, is off" in compiled.stats().last_miss
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = before
        torch.use_deterministic_algorithms(False)


def test_flushing_of_denormals_is_a_guard():
    compiled = diptych.aot_function(lambda x: x + torch.tensor([1e-40]) * 1)
    assert compiled(torch.zeros(1)).item() != 0
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor can't")
    try:
        assert compiled(torch.zeros(1)).item() == 0
    finally:
        torch.set_flush_denormal(False)
    assert compiled(torch.zeros(1)).item() != 0
