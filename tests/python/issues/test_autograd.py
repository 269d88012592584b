"""Cases that users of PyTorch met, by the number of the issue or pull request of pytorch/pytorch where they are told; here about
unused results, grad modes, hooks and derivatives. What happens in eager is expected."""
import diptych
import pytest
import torch
from torch import nn

from beside_eager import agree, both, same_as_eager

PARTITIONS = ("default", "min_cut", "memory_budget(0.5)", "memory_budget(0)")


def test_131794_results_that_no_loss_uses_cost_no_work_and_give_no_gradient():
    ran = []

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0].cos()

    def backward_compiler(graph):
        program = diptych.Program(graph)

        def run(inputs):
            ran.append([node.name for node in graph.nodes].count("aten.cos"))
            return program(inputs)

        return run

    for function in (torch.sin, Sine.apply):
        ran.clear()
        f = diptych.aot_function(lambda xs: [function(x) for x in xs], backward_compiler=backward_compiler)
        xs = [torch.randn((), requires_grad=True) for _ in range(3)]
        f(xs)[0].backward()
        torch.testing.assert_close(xs[0].grad, xs[0].cos().detach())
        assert xs[1].grad is None and xs[2].grad is None
        assert sum(ran) == 1, ran


def test_114338_grad_modes_inside_and_around_are_kept_apart():
    def f(x):
        with torch.enable_grad():
            a = x + 1
        b = x + 1
        with torch.no_grad():
            c = x + 1
        return a, b, c

    def look(mode):
        def looked(f):
            x = torch.ones(10, requires_grad=True)
            with mode():
                results = f(x)
            assert len({id(result) for result in results}) == 3
            assert len({result.untyped_storage().data_ptr() for result in results}) == 3
            seen = [result.requires_grad for result in results]
            results[2].add_(1)
            results[0].sum().backward()
            return [*seen, *results, x.grad]

        return looked

    for partition in PARTITIONS:
        functions = both(f, partition=partition)
        agree(look(torch.no_grad), *functions)
        agree(look(torch.enable_grad), *functions)


def test_115750_a_backward_hook_that_a_module_gets_later_is_run():
    def hook(module, inputs, outputs):
        return tuple(gradient * 2 for gradient in inputs)

    def look(compile_):
        layer = nn.Linear(3, 3, bias=False)
        layer.weight = nn.Parameter(torch.eye(3))
        f = compile_(lambda x: layer(x))
        seen = []
        for step in range(3):
            if step == 1:
                handle = layer.register_full_backward_hook(hook)
            if step == 2:
                handle.remove()
            x = torch.randn(3, requires_grad=True)
            f(x).sum().backward()
            seen += [x.grad, layer.weight.grad.clone()]
        torch.testing.assert_close(seen[2], torch.full((3,), 2.0))
        return seen

    agree(look, lambda f: f, diptych.aot_function)


def test_91469_second_and_third_derivatives_inside_and_outside():
    def inside(x):
        y = x * x * x * x * x
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        return first, second

    def look_inside(f):
        x = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
        first, second = f(x)
        return [first, second, *torch.autograd.grad(second.sum(), x)]

    def look_outside(f):
        x = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
        seen = [f(x)]
        for _ in range(3):
            seen += torch.autograd.grad(seen[-1].sum(), x, create_graph=True)
        assert seen[-1].abs().min() > 1  # 60 x^2
        return seen

    agree(look_inside, *both(inside))
    for partition in PARTITIONS:
        agree(look_outside, *both(lambda x: x * x * x * x * x, partition=partition))


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
