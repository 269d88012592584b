"""Training steps on devices beside eager ones: optimizers, their state both ways, buffers, draws, extras, the end of a step."""
import concurrent.futures
import copy
import gc
import os
import subprocess
import sys

import diptych
import pytest
import torch

F64 = torch.float64


class Mlp(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(4, width, dtype=F64), torch.nn.LayerNorm(width, dtype=F64), torch.nn.Linear(width, 2, dtype=F64)

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x))))


def make_model(make=Mlp):
    torch.manual_seed(5)
    return make()


def batch_of(seed, rows=6):
    return torch.randn(rows, 4, dtype=F64, generator=torch.Generator().manual_seed(seed))


def loss_of(model, x):
    return (model(x) - x[:, :2]).square().mean()


def eager_step(optimizer, loss, *args, **kwargs):
    optimizer.zero_grad()
    value = loss(*args, **kwargs)
    value.backward()
    optimizer.step()
    return value.detach()


def two_groups(kind, **options):
    def make(model):
        first, *rest = model.parameters()
        slower = {"params": rest, "lr": options["lr"] / 2, "weight_decay": 0.03}
        return kind([{"params": [first]}, slower], **options)

    return make


SGD, Adam, AdamW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
OPTIMIZERS = {
    "sgd": two_groups(SGD, lr=0.1),
    "momentum": two_groups(SGD, lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.01),
    "nesterov": two_groups(SGD, lr=0.1, momentum=0.9, nesterov=True, foreach=True),
    "sgd that maximizes": two_groups(SGD, lr=0.01, momentum=0.5, weight_decay=0.01, maximize=True),
    "adam": two_groups(Adam, lr=0.05, weight_decay=0.02, fused=True),
    "amsgrad": two_groups(Adam, lr=0.05, amsgrad=True, betas=(0.8, 0.9), eps=1e-6),
    "adam that maximizes": two_groups(Adam, lr=0.01, maximize=True, weight_decay=0.02),
    "adam, decoupled": two_groups(Adam, lr=0.05, decoupled_weight_decay=True),
    "adamw": two_groups(AdamW, lr=0.05, weight_decay=0.1),
    "adamw, amsgrad": two_groups(AdamW, lr=0.05, amsgrad=True, foreach=False),
    "a tensor as rate": lambda model: AdamW(model.parameters(), lr=torch.tensor(0.05, dtype=F64)),
}


def expect_same(got, expected, tolerance=1e-10):
    """Compares two trees with tensors."""
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)
    elif isinstance(expected, dict):
        assert got.keys() == expected.keys()
        for key in expected:
            expect_same(got[key], expected[key], tolerance)
    elif isinstance(expected, list | tuple):
        assert type(got) is type(expected)
        for ours, theirs in zip(got, expected, strict=True):
            expect_same(ours, theirs, tolerance)
    else:
        assert got == expected


def expect_as_eager(model, optimizer, expected, eager, tolerance=1e-10):
    expect_same(dict(model.state_dict()), dict(expected.state_dict()), tolerance)
    expect_same(optimizer.state_dict(), eager.state_dict(), tolerance)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_trains_as_eager(name):
    model, expected = make_model(), make_model()
    optimizer, eager = OPTIMIZERS[name](model), OPTIMIZERS[name](expected)
    step = diptych.xla.capture_step(optimizer, loss_of)
    for seed in range(4):
        result = step(model, batch_of(seed))
        assert result.loss.item() == pytest.approx(eager_step(eager, loss_of, expected, batch_of(seed)).item(), abs=1e-10)
        assert result.extras is None and result.gradient_norm is None
    assert step.num_programs == 1
    expect_same(dict(model.state_dict()), dict(make_model().state_dict()))  # until sync(), the host keeps what it had
    step.sync()
    expect_as_eager(model, optimizer, expected, eager)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_moves_both_ways(name):
    """Eager steps, steps on the device, and a checkpoint loaded into new objects, in turns, with a scheduler."""
    model, expected = make_model(), make_model()
    optimizer, eager = OPTIMIZERS[name](model), OPTIMIZERS[name](expected)
    schedules = [torch.optim.lr_scheduler.StepLR(of, 2, gamma=0.7) for of in (optimizer, eager)]
    for turn in range(4):
        step = diptych.xla.capture_step(optimizer, loss_of)
        for seed in range(3 * turn, 3 * turn + 3):
            eager_step(eager, loss_of, expected, batch_of(seed))
            if turn % 2:
                step(model, batch_of(seed))
            else:
                eager_step(optimizer, loss_of, model, batch_of(seed))
            for schedule in schedules:
                schedule.step()
        step.sync()
        expect_as_eager(model, optimizer, expected, eager)
        saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), schedules[0].state_dict()))
        model = make_model()
        optimizer = OPTIMIZERS[name](model)
        schedules[0] = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.7)
        for of, state in zip((model, optimizer, schedules[0]), saved):
            of.load_state_dict(state)


def test_a_checkpoint_is_loaded_into_the_optimizer_of_a_step():
    model, expected = make_model(), make_model()
    optimizer, eager = AdamW(model.parameters(), lr=0.05), AdamW(expected.parameters(), lr=0.05)
    with diptych.xla.capture_step(optimizer, loss_of) as step:
        step(model, batch_of(0))
        step.sync()
        saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        step(model, batch_of(1))
        step.sync()
        model.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
        step(model, batch_of(2))
    for seed in (0, 2):
        eager_step(eager, loss_of, expected, batch_of(seed))
    expect_as_eager(model, optimizer, expected, eager)
    assert step.num_programs == 1


@pytest.mark.parametrize("default", [torch.float32, F64])
def test_steps_are_counted_in_eagers_dtype(default):
    torch.set_default_dtype(default)
    try:
        for fused in (False, True):
            model = make_model()
            optimizer = Adam(model.parameters(), lr=0.1, fused=fused)
            with diptych.xla.capture_step(optimizer, loss_of) as step:
                step(model, batch_of(0))
            counted = {state["step"].dtype for state in optimizer.state.values()}
            expected = make_model()
            eager = Adam(expected.parameters(), lr=0.1, fused=fused)
            eager_step(eager, loss_of, expected, batch_of(0))
            assert counted == {state["step"].dtype for state in eager.state.values()}
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_clips_as_clip_grad_norm(norm_type):
    model, expected = make_model(), make_model()
    optimizer, eager = SGD(model.parameters(), lr=0.1, maximize=True), SGD(expected.parameters(), lr=0.1, maximize=True)
    step = diptych.xla.capture_step(optimizer, loss_of, max_gradient_norm=0.05, norm_type=norm_type)
    for seed in range(3):
        norm = step(model, batch_of(seed)).gradient_norm
        eager.zero_grad()
        loss_of(expected, batch_of(seed)).backward()
        assert norm.item() == pytest.approx(torch.nn.utils.clip_grad_norm_(expected.parameters(), 0.05, norm_type).item(), rel=1e-10)
        eager.step()
    step.sync()
    expect_as_eager(model, optimizer, expected, eager)


@pytest.mark.parametrize("partition", ["default", "min_cut"])
def test_buffers_and_draws_are_eagers(partition):
    def make():
        linear = torch.nn.Linear(4, 3, bias=False, dtype=F64)
        return torch.nn.Sequential(linear, torch.nn.BatchNorm1d(3, dtype=F64), torch.nn.Dropout(0.4), torch.nn.Linear(3, 2, dtype=F64))

    results = []
    for is_eager in (False, True):
        model = make_model(make)
        optimizer = Adam(model.parameters(), lr=0.05)
        step = diptych.xla.capture_step(optimizer, loss_of, partition=partition)
        torch.manual_seed(8)
        losses = [eager_step(optimizer, loss_of, model, batch_of(i)).item() if is_eager else step(model, batch_of(i)).loss.item() for i in range(4)]
        drawn = torch.rand(1).item()
        step.sync()
        results.append((losses, drawn, dict(model.state_dict()), optimizer.state_dict()))
    (ours, our_draw, *state), (theirs, their_draw, *expected) = results
    assert ours == pytest.approx(theirs, abs=1e-10) and our_draw == their_draw
    expect_same(state, expected, 1e-8)
    assert state[0]["1.num_batches_tracked"].item() == 4


def test_modes_of_the_module_and_autocast_have_programs_of_their_own():
    def make():
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))

    model, expected = make_model(make), make_model(make)
    optimizer, eager = SGD(model.parameters(), lr=0.1), SGD(expected.parameters(), lr=0.1)
    with diptych.xla.capture_step(optimizer, loss_of) as step:
        for is_training, is_autocast in ((True, False), (False, False), (True, True), (True, False)):
            model.train(is_training), expected.train(is_training)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_autocast):
                step(model, batch_of(1).float())
                eager_step(eager, loss_of, expected, batch_of(1).float())
    assert step.num_programs == 3
    expect_as_eager(model, optimizer, expected, eager, 2e-2)


def test_extras_keep_their_structure():
    def loss(model, x, *, scale):
        y = model(x)
        return y.square().mean() * scale, {"y": y.t(), "hits": [y.argmax(1), (x, None)], "scale": scale, "name": "extras"}

    model, expected = make_model(), make_model()
    optimizer, eager = SGD(model.parameters(), lr=0.1), SGD(expected.parameters(), lr=0.1)
    step = diptych.xla.capture_step(optimizer, loss)
    for rows, scale in ((3, 2.0), (5, 2.0), (3, 0.5), (3, 2.0)):
        got = step(model, batch_of(rows, rows), scale=scale)
        value, extras = loss(expected, batch_of(rows, rows), scale=scale)
        eager.zero_grad()
        value.backward()
        eager.step()
        assert got.loss.item() == pytest.approx(value.item(), abs=1e-12)
        assert list(got.extras) == list(extras) and got.extras["scale"] == scale and got.extras["name"] == "extras"
        expect_same(got.extras["y"].tensor(), extras["y"].detach())
        expect_same(got.extras["hits"][0].tensor(), extras["hits"][0])
        assert got.extras["hits"][1][1] is None
        expect_same(got.extras["hits"][1][0].tensor(), extras["hits"][1][0])
        assert got.extras["y"].is_ready()
    assert step.num_programs == 3
    with pytest.raises(diptych.UserError, match=r"\[step\] item\(\) of a result of sizes"):
        got.extras["y"].item()


def test_functions_that_read_their_closure():
    """Parameters, a tensor that is no parameter, and a number that changes."""
    results = []
    for is_eager in (False, True):
        model, shift, scale = make_model(), batch_of(9)[0], 1.0
        optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)

        def loss(x):
            return loss_of(model, x + shift) * scale

        step = diptych.xla.capture_step(optimizer, loss)
        losses = []
        for seed in range(4):
            scale = 1.0 + seed // 2
            shift.add_(0.1)
            losses.append(eager_step(optimizer, loss, batch_of(seed)).item() if is_eager else step(batch_of(seed)).loss.item())
        step.sync()
        results.append((losses, dict(model.state_dict())))
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-10)
    expect_same(results[0][1], results[1][1])


FACTOR = 1.0


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient * FACTOR


def test_backwards_that_read_a_variable(monkeypatch):
    model, expected = make_model(), make_model()
    optimizer, eager = SGD(model.parameters(), lr=0.1), SGD(expected.parameters(), lr=0.1)

    def loss(model, x):
        return Scaled.apply(loss_of(model, x)) + Scaled.apply(model.last.bias).sum()

    with diptych.xla.capture_step(optimizer, loss) as step:
        for seed, factor in enumerate((1.0, 3.0, 1.0)):
            monkeypatch.setitem(globals(), "FACTOR", factor)
            step(model, batch_of(seed))
            eager_step(eager, loss, expected, batch_of(seed))
    expect_as_eager(model, optimizer, expected, eager)
    assert step.num_programs == 2


def test_a_module_that_returns_its_loss():
    class WithLoss(Mlp):
        def forward(self, x, *, target):
            return (super().forward(x) - target).square().mean()

    model, expected = make_model(WithLoss), make_model(WithLoss)
    optimizer, eager = AdamW(model.parameters(), lr=0.05), AdamW(expected.parameters(), lr=0.05)
    with diptych.xla.capture_step(optimizer, model) as step:
        for seed in range(3):
            step(batch_of(seed), target=batch_of(seed)[:, :2])
            eager_step(eager, expected, batch_of(seed), target=batch_of(seed)[:, :2])
    expect_as_eager(model, optimizer, expected, eager)


def test_trees_as_parameters_and_names_of_arguments():
    def loss(params, x):
        return torch.tanh(x @ params["layers"][0] + params["b"]).square().sum()

    w = batch_of(1, 3).t().contiguous().requires_grad_()
    params = {"layers": [w], "b": torch.zeros(3, dtype=F64, requires_grad=True)}
    step = diptych.xla.capture_step(SGD([w, params["b"]], lr=0.1), loss, argument_names=["net"])
    step(params, batch_of(0))
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(diptych.UserError, match=r"\[step\] 'net.layers.0' was changed on the host after a step"):
        step(params, batch_of(0))
    step.sync()


def test_changes_of_the_host_after_a_sync_count_whatever_they_are_made_by():
    model, expected = make_model(), make_model()
    optimizer, eager = AdamW(model.parameters(), lr=0.05), AdamW(expected.parameters(), lr=0.05)
    step = diptych.xla.capture_step(optimizer, loss_of)
    step(model, batch_of(0))
    step.sync()
    eager_step(eager, loss_of, expected, batch_of(0))
    for of in (model, expected):
        of.first.weight.data.mul_(0.5)
        of.last.bias.data = torch.ones(2, dtype=F64)
    step(model, batch_of(1))
    step.sync()
    eager_step(eager, loss_of, expected, batch_of(1))
    expect_as_eager(model, optimizer, expected, eager)


def test_memory_is_reported():
    model = make_model()
    step = diptych.xla.capture_step(Adam(model.parameters(), lr=0.1), loss_of)
    assert step.state_bytes() == 0
    step(model, batch_of(0))
    assert step.state_bytes() == 3 * sum(parameter.nbytes for parameter in model.parameters())


def test_steps_sync_when_they_are_dropped():
    model, expected = make_model(), make_model()
    optimizer, eager = Adam(model.parameters(), lr=0.05), Adam(expected.parameters(), lr=0.05)
    step = diptych.xla.capture_step(optimizer, loss_of)
    step(model, batch_of(0))
    del step
    gc.collect()
    eager_step(eager, loss_of, expected, batch_of(0))
    expect_as_eager(model, optimizer, expected, eager)


def test_a_step_is_dropped_while_a_function_is_captured():
    model, expected = make_model(), make_model()
    optimizer, eager = Adam(model.parameters(), lr=0.05), Adam(expected.parameters(), lr=0.05)
    cycle = [diptych.xla.capture_step(optimizer, loss_of)]
    cycle.append(cycle)
    cycle[0](model, batch_of(0))
    eager_step(eager, loss_of, expected, batch_of(0))
    del cycle

    def function(x):
        gc.collect()
        return x.sin()

    assert len(diptych.capture(function, batch_of(1)).forward.nodes) == 1
    expect_as_eager(model, optimizer, expected, eager)


def test_leaving_a_step_by_an_exception_syncs_it():
    model = make_model()
    with pytest.raises(KeyError), diptych.xla.capture_step(SGD(model.parameters(), lr=0.1), loss_of) as step:
        step(model, batch_of(0))
        raise KeyError
    assert not torch.equal(model.last.bias, make_model().last.bias)


def test_exceptions_leave_nothing_changed():
    model, calls = make_model(), []
    optimizer = Adam(model.parameters(), lr=0.1)

    def loss(model, x, fails):
        if fails:
            model.last.bias.detach().zero_()
            calls.append(x)
            raise ValueError("no loss today")
        return loss_of(model, x)

    step = diptych.xla.capture_step(optimizer, loss)
    for _ in range(2):
        with pytest.raises(ValueError, match="no loss today"):
            step(model, batch_of(0), True)
    step.sync()
    expect_same(dict(model.state_dict()), dict(make_model().state_dict()))
    assert optimizer.state_dict()["state"] == {} and calls == [] and step.num_programs == 0
    assert step(model, batch_of(0), False).loss.item() > 0


def test_a_scheduler_sees_that_there_was_a_step(recwarn):
    model = make_model()
    optimizer = SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    with diptych.xla.capture_step(optimizer, loss_of) as step:
        step(model, batch_of(0))
        schedule.step()
    assert not [warning for warning in recwarn if "lr_scheduler" in str(warning.message)]


def test_threads_take_turns():
    """Calls release the GIL while they wait, and take it while they hold the step."""
    model = make_model()
    step = diptych.xla.capture_step(Adam(model.parameters(), lr=0.01), loss_of)

    def work(seed):
        for _ in range(5):
            step(model, batch_of(seed, 3 + seed)).loss.item()
            step.state_bytes(), step.num_programs
            step.sync()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4), timeout=120))
    assert step.num_programs == 4


def run(program, **environment):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}, timeout=240)


BEGIN = """
import os, sys, diptych, torch
model = torch.nn.Linear(4, 2)
before = model.weight.detach().clone()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
step = diptych.xla.capture_step(optimizer, lambda model, x: model(x).square().sum())
step(model, torch.ones(3, 4))
"""


def test_a_step_that_is_alive_at_the_end_of_python_syncs():
    # Before torch is imported, so that it is called after what is registered later.
    told = "import atexit\natexit.register(lambda: print(torch.equal(model.weight, before), len(optimizer.state)))\n"
    done = run(told + BEGIN + "leaked = [step]; leaked.append(leaked)")
    assert done.returncode == 0 and done.stdout == "False 2\n" and done.stderr == "", done.stdout + done.stderr


def test_a_forked_process_leaves_the_steps_of_its_parent_alone():
    done = run(BEGIN + """
child = os.fork()
if child == 0:
    try:
        step(model, torch.ones(3, 4))
    except diptych.UserError as error:
        print(error, flush=True)
    del step
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
step.sync()
print(torch.equal(model.weight, before))
""")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 2 and done.stderr == "", done.stdout + done.stderr
    assert lines[0].startswith("[xla] this process was forked after XLA was started") and lines[1] == "False"


MESHES = """
import diptych, torch
from diptych.xla import Mesh, capture_step

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2 = (torch.nn.Parameter(torch.randn(*sizes, dtype=torch.float64) * 0.4) for sizes in ((4, 8), (8, 2)))
    def forward(self, x):
        return torch.tanh(x @ self.w1) @ self.w2

def loss(model, batch):
    return (model(batch) - batch[:, :2]).square().mean()

def trained(mesh, shardings, axis):
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    batches = [torch.randn(8, 4, dtype=torch.float64) for _ in range(3)]
    if mesh is None:
        for batch in batches:
            optimizer.zero_grad()
            loss(model, batch).backward()
            optimizer.step()
        return model.state_dict(), optimizer.state_dict()["state"][0]["exp_avg"], 0
    with capture_step(optimizer, loss, mesh=mesh, shardings=shardings, optimizer_axis=axis) as step:
        for batch in batches:
            step(model, batch)
    return model.state_dict(), optimizer.state_dict()["state"][0]["exp_avg"], step.state_bytes()

both = {"model.w1": (None, "model"), "model.w*": ("model",), "batch": ("data",)}
(state, average, _), whole = trained(None, (), ""), 3 * 8 * (32 + 16)
for mesh, shardings, axis, expected in (
    (Mesh(), (), "", whole),
    (Mesh({"data": 2}), [("batch", ("data",))], "", whole),
    (Mesh({"data": 2}), {"batch": ["data"]}, "data", whole // 3 * 2),
    (Mesh(("data", "model"), (2, 2)), both, "", whole // 2),
    (Mesh({"data": 2, "model": 2}), both, "data", whole // 3),
):
    assert mesh.num_devices in (1, 2, 4)
    got, got_average, number = trained(mesh, shardings, axis)
    for name in state:
        torch.testing.assert_close(got[name], state[name], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(got_average, average, rtol=1e-10, atol=1e-10)
    assert number == expected, (mesh, axis, number, expected)
    print("trained on", mesh.num_devices)

for mesh, shardings in ((Mesh({"data": 3}), {"batch": ("data",)}), (Mesh({"data": 16}), {}), (Mesh({"data": 2}), {"model.w1": ("other",)})):
    try:
        trained(mesh, shardings, "")
    except diptych.UserError as error:
        print(error)
"""


def test_meshes_of_virtual_devices():
    done = run(MESHES, DIPTYCH_XLA_CPU_DEVICES="4")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 8, done.stdout + done.stderr
    assert lines[:5] == [f"trained on {n}" for n in (1, 2, 2, 4, 4)]
    assert "'batch'" in lines[5] and "DIPTYCH_XLA_CPU_DEVICES=16" in lines[6] and "'model.w1'" in lines[7]


def test_programs_draw_for_themselves_on_request():
    weight = torch.ones(1000, dtype=F64, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    step = diptych.xla.capture_step(optimizer, lambda w: torch.nn.functional.dropout(w, 0.25).mean(), draws="device")

    def losses():
        torch.manual_seed(3)
        return [step(weight).loss.item() for _ in range(5)]

    first = losses()
    assert len(set(first)) == 5 and all(abs(loss - 1) < 0.15 for loss in first)
    assert losses() == first
    with pytest.raises(diptych.UserError, match="draws 'nobody', expected"):
        diptych.xla.capture_step(optimizer, lambda w: w.sum(), draws="nobody")
