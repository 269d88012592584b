"""One backward after another, leaves that a function makes, checkpoints of torch round a call, and what a backward changes."""
import gc
import weakref

import diptych
import pytest
import torch
from torch.autograd import Function
from torch.autograd import grad
from torch.utils.checkpoint import checkpoint

from looks import RAISED, leaf, or_raised, twice


# Leaves that the function makes.
def test_a_leaf_that_is_made_inside_and_returned_gets_its_gradient():
    def f(x):
        w = torch.ones(3, dtype=torch.float64, requires_grad=True)
        v = torch.full((3,), 2.0, dtype=torch.float64).requires_grad_()
        y = x * w * w
        return {"w": w, "loss": (y * v).sum(), "y": y}, v

    for requires_grad in (False, True):

        def look(f):
            x = leaf().detach().requires_grad_(requires_grad)
            results, v = f(x)
            again = grad(grad(results["loss"], results["w"], create_graph=True)[0].sum(), [results["w"], v, results["y"]], retain_graph=True, allow_unused=True)
            (results["loss"] + results["y"].sum()).backward()
            return [results["w"].grad, v.grad, *(torch.zeros(0) if g is None else g for g in (*again, x.grad))]

        twice(look, f)


# One backward after the other.
PAIRS = {
    "apart": lambda x, w: (x.sin(), w.exp()),
    "one saves nothing": lambda x, w: (x * w, x + w),
    "shared and saved": lambda x, w: ((x * w).exp().sin(), (x * w).exp() * 2),
    "shared, saved by one": lambda x, w: ((x * 2).sin(), (x * 2) + w),
    "nothing saved in common": lambda x, w: ((lambda h: (h.sin(), h.cos()))(x * 2)),
    "saved in common": lambda x, w: ((lambda h: (h * 2, h * 3))(x.exp())),
    "inner": lambda x, w: ((lambda h: (h, h.sin()))(x.exp())),
    "three": lambda x, w: (x.sin(), w.exp(), (x * w).sum()),
    "changed": lambda x, w: (x.sin().mul_(w), w.sin().add_(1)),
    "reduced": lambda x, w: (x.prod() + w.sum(), torch.logsumexp(w, 0)),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("partition", ["default", "min_cut"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 0), (-1, 0, 1)])
def test_backwards_in_turn_raise_where_eager_raises(name, partition, order):
    def look(f):
        x, w = leaf(), leaf(start=0.4)
        results = f(x, w)
        seen = []
        for index in order:
            seen.append(or_raised(lambda: results[index].sum().backward()))
            if seen[-1] != RAISED:  # before it raises, eager may have filled some
                seen.append([torch.zeros(0) if t.grad is None else t.grad.clone() for t in (x, w)])
            x.grad = w.grad = None
        return seen

    function = PAIRS[name]
    expected = look(function)
    compiled = diptych.aot_function(function, partition=partition)
    for _ in range(2):
        got = look(compiled)
        assert [entry for entry in got if entry == RAISED or entry is None] == [entry for entry in expected if entry == RAISED or entry is None]
        torch.testing.assert_close([entry for entry in got if isinstance(entry, list)], [entry for entry in expected if isinstance(entry, list)])


SUMS = {
    "sum": lambda x, w: x.sin() + w.exp(),
    "product": lambda x, w: x * w,
    "product of parts": lambda x, w: x.sin() * w.exp(),
    "plain part": lambda x, w: x.sin() + w,
    "nothing saved": lambda x, w: x * 2 + w,
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("retain", [(False, False), (True, False), (False, True)])
def test_gradients_for_one_argument_after_the_other(name, retain):
    def look(f):
        x, w = leaf(), leaf(start=0.4)
        y = f(x, w).sum()
        seen = [or_raised(lambda: grad(y, wanted, retain_graph=keep)[0]) for wanted, keep in zip((x, w), retain, strict=True)]
        return [*seen, or_raised(lambda: grad(y, x)[0])]

    function = SUMS[name]
    expected = look(function)
    compiled = diptych.aot_function(function)
    for _ in range(2):
        for got, wanted in zip(look(compiled), expected, strict=True):
            if isinstance(wanted, str) or isinstance(got, str):
                assert got == wanted
            else:
                torch.testing.assert_close(got, wanted)


def test_what_a_backward_has_released_is_free():
    def f(x, w):
        return (x.sin() * w).sum(), w.exp()

    compiled = diptych.aot_function(f)
    x, w = torch.rand(1000, requires_grad=True), torch.rand(1000, requires_grad=True)
    batch = x + 0  # whose history keeps nothing, so that both backwards may come through it
    loss, other = compiled(batch, w)
    kept = weakref.ref(batch)
    del batch
    loss.backward()
    gc.collect()
    del loss
    assert kept() is None
    other.sum().backward()


# Checkpoints of torch's.
def test_torchs_checkpoint_round_a_compiled_function():
    def f(x, w):
        return torch.dropout(torch.tanh(x * w), 0.5, True) * x

    def look(f):
        seen = []
        x, w = leaf(20), leaf(20, start=0.4)
        for _ in range(2):
            torch.manual_seed(3)
            y = checkpoint(f, x, w, use_reentrant=False)
            y.sum().backward()
            seen += [y.detach(), x.grad.clone(), w.grad.clone(), torch.rand(2)]
        return seen

    twice(look, f)


def test_a_reentrant_checkpoint_of_someone_else_is_refused():
    class CheckpointFunction(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, gradient):
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                torch.autograd.backward(x.sin(), gradient)
            return x.grad

    f = diptych.aot_function(lambda x: CheckpointFunction.apply(x) * 2)
    with pytest.raises(diptych.UserError, match="use_reentrant=True.*use_reentrant=False"):
        f(leaf())


# What a backward changes.
class Counts(Function):
    @staticmethod
    def forward(ctx, x, count):
        ctx.count = count
        return x * 2

    @staticmethod
    def backward(ctx, g):
        ctx.count.add_(1)
        return g * 2, None


COUNT = torch.zeros(())


class CountsGlobally(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        COUNT.add_(g.sum())
        return g * 2


class WritesToSaved(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        ctx.saved_tensors[0].detach().zero_()
        return g * 2


def hooks(x, count):
    y = x * 2

    def hook(g):
        count.add_(1)

    y.register_hook(hook)
    return y * 3


def returns_what_is_saved(x, count):
    y = x * 1
    return y, WritesToSaved.apply(y)


@pytest.mark.parametrize(
    "function", [lambda x, count: Counts.apply(x, count), lambda x, count: CountsGlobally.apply(x), lambda x, count: WritesToSaved.apply(x), returns_what_is_saved, hooks]
)
def test_a_backward_that_changes_what_is_outside_is_refused(function):
    count = torch.zeros(())
    with pytest.raises(diptych.UserError, match="the backward of the function changes .* in place"):
        diptych.aot_function(function)(leaf(), count)
    assert count == 0 and COUNT == 0


def test_second_order_through_a_hook_inside():
    def f(x):
        y = x.sin()
        y.register_hook(lambda g: g * 3)
        return (y * y * y).sum()

    def look(f):
        x = leaf()
        (first,) = grad(f(x), x, create_graph=True)
        return [first, grad(first.sum(), x)[0]]

    twice(look, f)


def test_second_order_through_a_hook_inside_is_refused_where_one_result_is_made_of_another():
    def f(x):
        y = x.sin()
        h = y * 1
        h.register_hook(lambda g: g * 3)
        return y, (h * h * h).sum()

    x = leaf()
    with pytest.raises(diptych.UserError, match="that the function registers a hook on, and the hook"):
        grad(diptych.aot_function(f)(x)[1], x, create_graph=True)


def test_a_hook_on_a_result_comes_before_those_of_the_caller():
    def f(x):
        y = x.sin()
        y.register_hook(lambda g: g * 3)
        return y

    def look(f):
        x, seen = leaf(), []
        y = f(x)
        y.retain_grad()
        y.register_hook(lambda g: g + 1)
        y.register_hook(seen.append)
        y.sum().backward(retain_graph=True)
        return [x.grad, y.grad, *seen, *grad(y.sum(), [y, x])]

    twice(look, f)


def test_second_order_where_a_hook_has_no_part_in_it():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return (y + x.square()).sum()

    def look(f):
        x = leaf()
        first = grad(f(x), x, create_graph=True)[0]
        return [first.detach(), grad(first.sum(), x)[0]]

    twice(look, f)
