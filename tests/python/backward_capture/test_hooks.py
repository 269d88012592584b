"""Hooks of captured passes: those that only compute are nodes of the graph, all others are called in each pass."""
import functools

import pytest
import torch

import diptych
from passes import beside_eager, capture, same

MASK = torch.tensor([1.0, 0.0, 2.0, 0.0])
SCALE, STEPS = 3.0, [1.0, 0.5]
_AROUND = (0, 1, 3)  # stages of hop.autograd_node that are hooks


def live_hooks(graph):
    return sum(f"stage={stage}," in line for line in graph.code().splitlines() for stage in _AROUND if "autograd_node" in line)


def looked(register):
    """A pass with hooks, from the same numbers each time: the gradients of its leaves."""

    def look():
        torch.manual_seed(0)
        x, w = torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True)
        y = (x * w).sin()
        register(x, y)
        (y.square() + y).sum().backward()
        return x.grad, w.grad

    return look


def helper(gradient, factor=SCALE):
    return torch.where(gradient > 0, gradient * factor, -gradient)


def several(x, y):
    x.register_hook(lambda g: g * MASK)
    y.register_hook(lambda g: g / (g.norm() + 1))
    y.register_hook(lambda g: g.clamp(-0.1, 0.1))


def on_node(name):
    def around(call):
        return lambda x, y: getattr(y.grad_fn, name)(call)

    return around


COMPUTE = {
    "operators": lambda x, y: y.register_hook(lambda g: torch.nan_to_num(g.clamp(-0.1, 0.1)).mul(2)),
    "functional": lambda x, y: y.register_hook(lambda g: torch.nn.functional.relu(g) + abs(g).max()),
    "sizes": lambda x, y: y.register_hook(lambda g: g * g.shape[0] if g.dim() > 0 else g),
    "tensor of a leaf": lambda x, y: x.register_hook(lambda g: g * MASK),
    "tensor returned": lambda x, y: x.register_hook(lambda g: MASK),
    "nothing": lambda x, y: x.register_hook(lambda g: None),
    "number": lambda x, y: y.register_hook(lambda g: g * SCALE + STEPS[1]),
    "default": lambda x, y: y.register_hook(lambda g, mask=MASK: g * mask),
    "partial": lambda x, y: y.register_hook(functools.partial(helper, factor=0.5)),
    "helper": lambda x, y: y.register_hook(lambda g: helper(g)),
    "expanded": lambda x, y: y.sum().register_hook(lambda g: g.expand(3)[0]),
    "half and back": lambda x, y: y.register_hook(lambda g: g.to(torch.bfloat16).float()),
    "noise": lambda x, y: y.register_hook(lambda g: g + 0.1 * torch.randn_like(g)),
    "several": several,
    "before a node": on_node("register_prehook")(lambda grads: (grads[0] * 2,)),
    "behind a node": on_node("register_hook")(lambda made, given: (made[0] * 2 + given[0].sum(),)),
}


@pytest.mark.parametrize("name", COMPUTE)
def test_hooks_that_compute_are_nodes(name):
    stats = beside_eager(looked(COMPUTE[name]))
    assert (stats.captures, stats.hits) == (1, 2)
    assert live_hooks(diptych.backward_capture.last_graph()) == 0


class Kept:
    def __init__(self):
        self.calls, self.factor = [], 2.0

    def __call__(self, gradient):
        self.calls.append(gradient.clone())
        return gradient * self.factor

    def method(self, gradient):
        return gradient * self.factor


KEPT, LOG = Kept(), []
count = 0


def counts(gradient):
    global count
    count += 1
    return gradient * count


def in_place(gradient):
    gradient.mul_(2)


def writes_out(gradient):
    return torch.mul(gradient, 2, out=torch.empty_like(gradient))


def item_assigned(gradient):
    gradient = gradient.clone()
    gradient[0] = 0
    return gradient


def asks(gradient):
    return gradient * 2 if gradient.sum() > 0 else gradient


def inner(gradient):
    return sum([part * 2 for part in [gradient]])


DO_MORE = {
    "list": lambda g: LOG.append(g.clone()),
    "print": lambda g: print("hook", end=""),
    "counter": counts,
    "object": KEPT,
    "method": KEPT.method,
    "in place": in_place,
    "out": writes_out,
    "element": item_assigned,
    "asks for a value": asks,
    "code inside": inner,
    "item": lambda g: g * g.sum().item(),
    "seed": lambda g: torch.manual_seed(1) and g * 2,
    "import": lambda g: __import__("math").pi * g,
}


@pytest.mark.parametrize("name", DO_MORE)
def test_hooks_that_do_more_are_called_each_time(name, capsys):
    def look():
        global count
        LOG.clear(), KEPT.calls.clear(), capsys.readouterr()
        count = 0
        gradients = looked(lambda x, y: y.register_hook(DO_MORE[name]))()
        return [*gradients, *LOG, *KEPT.calls, torch.tensor(count), torch.initial_seed(), capsys.readouterr().out]

    stats = beside_eager(look)
    assert (stats.captures, stats.hits) == (1, 2)
    assert live_hooks(diptych.backward_capture.last_graph()) == 1


def test_hooks_are_read_again_before_each_pass():
    scale, mask = 1.0, torch.ones(4)

    def register(x, y):
        y.register_hook(lambda g: g * scale)
        x.register_hook(lambda g: g * mask)

    def steps():
        nonlocal scale
        mask.fill_(1)
        for step in range(8):
            scale = 1.0 + step // 4
            mask.mul_(1.5)  # the same tensor, with other numbers
            yield looked(register)()

    expected = list(steps())
    with capture() as captured:
        same(list(steps()), expected)
    assert captured.stats().misses[1:] == ["a hook is another one, or reads something else"]


def test_hooks_that_always_differ_are_called():
    def register(number):
        return lambda x, y: y.register_hook(lambda g: g * number)

    expected = [looked(register(float(i)))() for i in range(8)]
    with capture() as captured:
        for i in range(8):
            same(looked(register(float(i)))(), expected[i])
    assert captured.stats().captures == 4 and captured.stats().hits == 4
    assert live_hooks(diptych.backward_capture.last_graph()) == 1


def test_what_other_code_of_the_pass_changes_is_seen():
    factors = [2.0]

    def change(gradient):
        factors[0] += 1

    def look():
        factors[0] = 2.0
        return looked(lambda x, y: (y.register_hook(change), x.register_hook(lambda g: g * factors[0]), x.register_hook(lambda g: g + 1)))()

    beside_eager(look)
    assert live_hooks(diptych.backward_capture.last_graph()) == 2

    def constant(x, y):
        y.register_hook(lambda g: g.clamp(-0.1, 0.1))
        x.register_hook(change)

    diptych.backward_capture.reset()
    beside_eager(looked(constant))
    assert live_hooks(diptych.backward_capture.last_graph()) == 1


def test_gradients_that_the_pass_accumulates_are_read_in_time():
    def look():
        x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        x.grad, w.grad = torch.ones(3), torch.ones(3)
        sums = w.grad
        x.register_hook(lambda g: g + sums)
        ((x * 2).sin() * w).sum().backward()
        return x.grad, w.grad

    beside_eager(look)
    assert live_hooks(diptych.backward_capture.last_graph()) == 1


def test_hooks_where_gradients_are_differentiated_again():
    def look():
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x.sin()
        y.register_hook(lambda g: g * g * x)
        (first,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        return first.detach(), second

    beside_eager(look)


def test_sizes_that_change_with_hooks():
    weight = torch.randn(4, requires_grad=True)

    def look(size):
        weight.grad = None
        y = torch.linspace(-1, 1, size * 4).view(size, 4) * weight
        y.register_hook(lambda g: g * g.shape[0] + g.mean())
        hook = weight.register_hook(lambda g: g * MASK)
        y.square().sum().backward()
        hook.remove()
        return weight.grad

    expected = [look(size) for size in range(3, 11)]
    with capture() as captured:
        for size in range(3, 11):
            same(look(size), expected[size - 3])
    assert captured.stats().eager == 0 and captured.stats().captures <= 3
    assert live_hooks(diptych.backward_capture.last_graph()) == 0
