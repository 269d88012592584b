"""More cases that users of PyTorch met, by number, with torch.compile or AOTAutograd; see test_public_issues.py."""
import diptych
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from beside_eager import agree, both, loop


def same_as_eager(f, look=None, **options):
    """By default looks at the result of f on a tensor of 4, its requires_grad and the gradient of its sum."""

    def by_default(f):
        x = torch.randn(4, requires_grad=True)
        y = f(x)
        y.sum().backward()
        return [y, y.requires_grad, x.grad]

    agree(look or by_default, *both(f, **options))


def test_90507_a_result_whose_metadata_changed_may_be_changed_in_place():
    def f(x):
        y = x * 2
        y.unsqueeze_(0)
        return y

    def look(f):
        x = torch.randn(4, requires_grad=True)
        y = f(x).mul_(2)
        y.sum().backward()
        return [y, x.grad]

    same_as_eager(f, look)


def test_90844_a_leaf_that_is_changed_without_grad():
    def f(x):
        with torch.no_grad():
            x.add_(1)
        return x * 2

    def look(f):
        x = torch.zeros(2, requires_grad=True)
        f(x).sum().backward()
        return [x, x.grad]

    same_as_eager(f, look)


def test_95167_a_leaf_that_is_changed_through_detach():
    def f(x):
        x.detach().mul_(2)
        return x.sin()

    def look(f):
        x = torch.ones(2, requires_grad=True)
        f(x).sum().backward()
        return [x, x.grad]

    same_as_eager(f, look)


def test_106456_a_column_that_is_changed_in_place():
    def look(f):
        x = torch.ones(2, 2)
        return [f(x[:, 0]), x]

    same_as_eager(lambda x: x.mul_(2) + 1, look)


def test_100348_a_result_and_itself_detached():
    def look(f):
        x = torch.randn(3, requires_grad=True)
        y, detached = f(x)
        assert y is not detached and y.untyped_storage().data_ptr() == detached.untyped_storage().data_ptr()
        y.sum().backward()
        return [y.requires_grad, detached.requires_grad, x.grad]

    same_as_eager(lambda x: (y := x.sin(), y.detach()), look)


def test_173926_a_view_made_without_grad_of_what_needs_a_gradient():
    layer = nn.Linear(4, 4)

    def f(x):
        a = layer(x)
        with torch.no_grad():
            b = a.view(-1)
        return a.mean(), b

    def look(f):
        layer.zero_grad()
        loss, view = f(torch.randn(4))
        loss.backward()
        return [loss, view, view.requires_grad, layer.weight.grad]

    same_as_eager(f, look)


@pytest.mark.parametrize("needs", [False, True])
def test_92129_strided_views_of_a_changed_argument(needs):
    def f(a, b):
        e = a[:].as_strided([2, 2], [4, 2], 0)
        e.add_(1.0)
        a.mul_(2.0)
        e[1:2] = 3.0
        return e[1::2] * b[0, 0]

    def look(f):
        a, b = torch.randn(2, 4, requires_grad=needs), torch.randn(2, 4, requires_grad=True)
        changed = a * 1
        result = f(changed, b)
        result.sum().backward()
        return [result, changed, b.grad, a.grad if needs else 0]
    agree(look, *both(f))


def test_91468_gradients_that_are_retained():
    def f(x):
        z = x.clone().sin()
        z.retain_grad()
        return z

    def look(f):
        z = f(torch.ones((), requires_grad=True))
        (z * 3).backward()
        return [z.grad]

    same_as_eager(f, look)

    def of_two(x):
        y = x.clone()
        y.retain_grad()
        return y.clone(), y

    def look_at_two(f):
        z, y = f(torch.ones((), requires_grad=True))
        (z * 3).backward()
        return [y.grad]

    same_as_eager(of_two, look_at_two)


def test_172020_a_hook_on_an_intermediate():
    def f(x):
        y = x * 2
        y.register_hook(lambda gradient: gradient + 1)
        return y.sum()

    same_as_eager(f)


@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward_pre"])
def test_117758_and_117265_hooks_that_a_module_gets_after_the_first_call(kind):
    def look(compile_):
        layer = nn.Linear(3, 3, bias=False)
        layer.weight = nn.Parameter(torch.eye(3))
        f = compile_(lambda x: layer(x))
        f(torch.ones(3))
        hook = {
            "forward": lambda module, inputs, output: output * 2,
            "forward_pre": lambda module, inputs: (inputs[0] * 2,),
            "full_backward_pre": lambda module, outputs: (outputs[0] * 2,),
        }[kind]
        getattr(layer, f"register_{kind}_hook")(hook)
        x = torch.ones(3, requires_grad=True)
        y = f(x)
        y.sum().backward()
        assert x.grad[0] == 2
        return [y, x.grad, layer.weight.grad]

    agree(look, lambda f: f, diptych.aot_function)


def test_116221_hooks_on_saved_tensors_around_the_call():
    def look(f):
        a, b = torch.ones((), requires_grad=True), torch.tensor(2.0, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 2 * t):
            y = f(a, b)
        y.backward()
        return [a.grad, b.grad]

    same_as_eager(lambda a, b: a * b, look)


def test_140707_a_buffer_that_keeps_the_history_of_an_earlier_call():
    def look(compile_):
        weight, buffer = nn.Parameter(torch.ones(3)), torch.zeros(3)

        def f(x):
            buffer.copy_(weight * 2)
            return x * weight

        f = compile_(f)
        for _ in range(3):
            f(torch.ones(3)).sum().backward()
        return [weight.grad, buffer, buffer.requires_grad]

    agree(look, lambda f: f, diptych.aot_function)


def test_181581_and_183603_gradients_of_gradients():
    def inside(x):
        return torch.autograd.grad((x**4).sum(), x, create_graph=True)[0]

    def look(f):
        x = torch.tensor([0.5, 1.5, 2.5, 3.5], requires_grad=True)
        first = f(x)
        return [first, *torch.autograd.grad(first.sum(), x)]

    same_as_eager(inside, look)
    compiled = diptych.aot_function(lambda x: (x**4).sum())
    agree(look, inside, lambda x: torch.autograd.grad(compiled(x), x, create_graph=True)[0])


def test_91542_generator_and_discriminator_in_turn():
    def look(compile_):
        torch.manual_seed(0)
        generator, critic = (nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)) for _ in range(2))
        make, judge = compile_(generator), compile_(critic)
        fake = make(torch.ones(3, 2))
        judge(fake.detach()).mean().backward()
        assert all(parameter.grad is None for parameter in generator.parameters())
        judge(fake).mean().backward()
        return [parameter.grad for parameter in (*generator.parameters(), *critic.parameters())]

    agree(look, lambda module: module, diptych.aot_module)


def test_153044_autocast_around_the_forward_alone():
    layer = nn.Linear(8, 8)

    def look(f):
        layer.zero_grad()
        x = torch.randn(4, 8, requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = f(x)
        y.float().mul(1e6).sum().backward()
        return [y, x.grad, layer.weight.grad]

    same_as_eager(lambda x: layer(x).sin(), look)


def test_112583_a_layer_without_grad_then_with_it_under_one_autocast():
    layer = nn.Linear(4, 4)

    def f(x):
        with torch.no_grad():
            a = layer(x)
        return a, layer(x)

    def look(f):
        layer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            a, b = f(torch.randn(2, 4))
        b.float().sum().backward()
        return [a, b, a.requires_grad, b.requires_grad, layer.weight.grad]

    same_as_eager(f, look)


def test_62471_and_96136_a_checkpoint_updates_batch_norm_once():
    def look(how):
        norm = nn.BatchNorm1d(3)

        def f(x):
            return norm(x).sin()

        call = {"eager": f, "checkpointed": diptych.checkpoint(f), "compiled": diptych.aot_function(diptych.checkpoint(f))}[how]
        x = torch.randn(5, 3, requires_grad=True)
        call(x).sum().backward()
        return [x.grad, norm.running_mean, norm.num_batches_tracked]

    agree(look, "eager", "checkpointed", "compiled")


def test_141896_torchs_checkpoint_under_autocast():
    layer = nn.Linear(4, 4)

    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return checkpoint(lambda x: layer(x).sin(), x, use_reentrant=False)

    def look(f):
        layer.zero_grad()
        x = torch.randn(3, 4, requires_grad=True)
        y = f(x)
        y.float().sum().backward()
        return [y, x.grad, layer.weight.grad]

    same_as_eager(f, look)


def test_113717_torchs_checkpoint_of_random_numbers_is_refused():
    """It sets the generator's state back for what it computes again, which a graph can't hold; diptych.checkpoint keeps the numbers."""
    x = torch.randn(3, 4, requires_grad=True)
    with pytest.raises(diptych.UserError, match="checkpoint"):
        diptych.aot_function(lambda x: checkpoint(lambda x: nn.functional.dropout(x.sin(), 0.5), x, use_reentrant=False))(x)


def test_153679_gradients_of_all_layers_of_a_recurrent_network_in_a_scan():
    layers = nn.ModuleList([nn.Linear(6, 3) for _ in range(3)]).double()

    def step(carry, x):
        states = []
        for state, layer in zip(carry, layers):
            x = state + layer(torch.cat((state, x), -1))
            states.append(x)
        return states, x

    def look(run):
        layers.zero_grad()
        init = [torch.zeros(2, 3, dtype=torch.float64) for _ in layers]
        _, ys = run(init, torch.randn(5, 2, 3, dtype=torch.float64))
        ys.square().sum().backward()
        return [ys, *(parameter.grad for parameter in layers.parameters())]

    def scan(init, xs):
        return diptych.scan(step, init, xs)

    agree(look, lambda init, xs: loop(step, init, xs), scan, diptych.aot_function(scan))


def test_135207_a_post_accumulate_hook_on_a_number():
    def look(backward):
        x, seen = torch.tensor(2.0, requires_grad=True), []
        x.register_post_accumulate_grad_hook(lambda x: seen.append(x.grad.clone()))
        for _ in range(2):
            backward(x.sin())
        return [x.grad, *seen]

    def captured(loss):
        with diptych.backward_capture.capture():
            loss.backward()

    agree(look, lambda loss: loss.backward(), captured)


def test_138538_hooks_run_in_eagers_order():
    def look(backward):
        order = []
        layers = nn.Sequential(*(nn.Linear(2, 2, bias=False) for _ in range(3)))
        for index, layer in enumerate(layers):
            layer.weight.register_hook(lambda gradient, index=index: order.append(f"tensor {index}"))
            layer.weight.register_post_accumulate_grad_hook(lambda weight, index=index: order.append(f"accumulated {index}"))
        for _ in range(2):
            backward(layers(torch.ones(1, 2)).sum())
        return order

    def captured(loss):
        with diptych.backward_capture.capture():
            loss.backward()

    assert look(lambda loss: loss.backward()) == look(captured)


def test_115774_a_buffer_that_is_replaced_between_calls():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = torch.tensor([0, 0])

        def forward(self, x, position):
            self.cache[position] = x
            return self.cache

    def look(compile_):
        model = Model()
        call = compile_(model)
        first = call(torch.tensor([2]), torch.tensor([0])).clone()
        model.cache = torch.tensor([0, 0])
        return [first, call(torch.tensor([1]), torch.tensor([1])), model.cache]

    agree(look, lambda module: module, diptych.aot_module)
