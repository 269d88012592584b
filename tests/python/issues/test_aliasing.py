"""Cases that users of PyTorch met, by the number of the issue or pull request of pytorch/pytorch where they are told; here about
aliases, views and mutation. What happens in eager is expected."""
import copy

import diptych
import pytest
import torch
from torch import nn

from beside_eager import agree, both, same_as_eager


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
