"""Cases that users of PyTorch met, by the number of the issue or pull request of pytorch/pytorch where they are told; here about aliases, mutation, hooks and
derivatives. What happens in eager is expected. See test_public_issues_of_regions.py and test_more_public_issues.py, too."""
import copy

import diptych
import pytest
import torch
from torch import nn

from beside_eager import agree, both

PARTITIONS = ("default", "min_cut", "memory_budget(0.5)", "memory_budget(0)")


def test_89532_views_of_inputs_and_of_intermediates_share_what_they_share_in_eager():
    def f(x):
        y = x * 2
        return x.view(-1), x.t(), y.view(-1), y

    def look(f):
        leaf = torch.randn(3, 4, requires_grad=True)
        x = leaf.clone()
        flat, transposed, flat_y, y = f(x)
        flat.mul_(3)  # reaches x and its other view
        y.add_(1)  # reaches the other view of the intermediate
        (x.sin().sum() + transposed.cos().sum() + flat_y.sum()).backward()
        return [x, flat, transposed, flat_y, y, leaf.grad]

    agree(look, *both(f))


@pytest.mark.parametrize("f", [
    lambda x: x.unbind(0),
    lambda x: x.split(2),
    lambda x: x.chunk(3, 1),
    lambda x: x.view(2, 2, 3).unbind(1),
    lambda x: [part.t() for part in x.split(2)],
    lambda x: [x.unbind(0)[2], x.unbind(0)[0]],
    lambda x: x.neg().unbind(0),
])
def test_186503_each_of_several_views_goes_backward_on_its_own(f):
    def look(f):
        x = torch.randn(4, 3, requires_grad=True)
        for part in f(x):
            (part * 2).sum().backward()
        return [x.grad]

    agree(look, *both(f))


@pytest.mark.parametrize("f", [lambda a: a.add_(1.0), lambda a: a.add_(1.0) * 2, lambda a: a.detach().add_(1.0)])
def test_93363_a_view_that_is_changed_in_place_changes_its_base(f):
    def look(f):
        leaf = torch.ones(4, requires_grad=True)
        base = leaf.add(0.0)
        f(base[0::2])
        base.square().sum().backward()
        return [base, leaf.grad]

    agree(look, *both(f))


def test_93363_as_it_was_told_the_function_returns_nothing():
    def foo(a):
        a.add_(1.0)

    def look(f):
        base = torch.ones(4, requires_grad=True).add(0.0)
        assert f(base[0::2]) is None
        return [base]

    agree(look, *both(foo))


def test_114646_a_buffer_that_is_changed_in_place_is_seen_by_every_alias():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)
            self.register_buffer("history", torch.zeros(4, 3))

        def forward(self, x):
            self.history[0].copy_(x.detach().mean(0))
            with torch.no_grad():
                self.history[1:].add_(1)
            return self.norm(x) + self.history.sum(0)

    torch.manual_seed(1)
    module = Counts()

    def look(compile_):
        mine = copy.deepcopy(module)
        call = compile_(mine)
        row, statistics = mine.history[1], mine.norm.running_mean.view(-1)
        for _ in range(2):
            x = torch.randn(5, 3, requires_grad=True)
            call(x).square().sum().backward()
        return [row, statistics, x.grad, *mine.state_dict().values()]

    agree(look, lambda module: module, diptych.aot_module)


@pytest.mark.parametrize("first", ["apart", "one storage", "overlapping", "same"])
def test_139789_arguments_that_overlap_in_a_later_call_alone(first):
    def f(x, y):
        x.mul_(2)
        return x + y

    def arguments(how):
        base = torch.arange(8.0)
        views = {"apart": (torch.ones(4), torch.ones(4)), "one storage": (base[:4], base[4:]), "overlapping": (base[:4], base[2:6]), "same": (base[:4],) * 2}
        return base, *views[how]

    def look(f):
        seen = []
        for how in (first, "apart", "one storage", "overlapping", "same"):
            base, x, y = arguments(how)
            seen += [f(x, y), x, y, base]
        return seen

    agree(look, *both(f))


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
