"""Operators of libraries that write to their arguments, inside of captured functions."""
from collections.abc import Sequence

import diptych
import pytest
import torch
from beside_eager import agree, both, same_as_eager
from torch import library


@library.custom_op("diptych_writes::scale_", mutates_args={"x"})
def scale_(x: torch.Tensor, by: float) -> None:
    x.mul_(by)


@library.custom_op("diptych_writes::take_", mutates_args={"x"})
def take_(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    before = x.clone()
    x.copy_(y)
    return before.sum(-1)


@take_.register_fake
def _(x, y):
    return x.new_empty(x.shape[:-1])


@library.custom_op("diptych_writes::swap_", mutates_args={"a", "b"})
def swap_(a: torch.Tensor, scale: float, b: torch.Tensor) -> None:
    old = a.clone()
    a.copy_(b * scale)
    b.copy_(old)


@library.custom_op("diptych_writes::all_", mutates_args={"xs", "rest"})
def all_(xs: Sequence[torch.Tensor], by: torch.Tensor, rest: torch.Tensor | None = None) -> None:
    for x in xs:
        x.add_(by)
    if rest is not None:
        rest.sub_(by)


LIBRARY = library.Library("diptych_writes", "FRAGMENT")
LIBRARY.define("fill_(Tensor(a!) x, *, Tensor by, Tensor(b!)? count=None) -> Tensor(a!)")


def _fill(x, *, by, count=None):
    x.copy_(by.expand_as(x))
    if count is not None:
        count.add_(1)
    return x


LIBRARY.impl("fill_", _fill, "CPU")
fill_ = torch.ops.diptych_writes.fill_


@library.custom_op("diptych_writes::noisy_", mutates_args={"x"}, tags=(torch.Tag.nondeterministic_seeded,))
def noisy_(x: torch.Tensor) -> None:
    x.add_(torch.rand_like(x))


def new(f):
    """f(x) on a new tensor that follows from the argument."""
    return lambda x: f(x * 2)


def whole(x):
    scale_(x, 3.0)
    return x + 1


def view(x):
    y = x.view(2, 2)
    scale_(x, 2.0)
    scale_(y[0], 5.0)
    return x, y, y.t() * 2


def two(x):
    a, b = x[:2], x[2:]
    swap_(a, 3.0, b)
    return x * a.sum()


def result(x):
    y = torch.ones(2, 2)
    sums = take_(y, x.view(2, 2))
    return y * 2, sums


def lists(x):
    rest = torch.zeros(4)
    all_([x[:1], x[3:]], torch.full((1,), 2.0))
    all_([x], torch.ones(4), rest)
    return x + rest


def keyword(x):
    count = torch.zeros(())
    y = fill_(x, by=torch.tensor(4.0), count=count)
    fill_(y[1:], by=count)
    return x, count


def strided(x):
    y = x.view(2, 2).t()
    take_(y, torch.arange(4.0).view(2, 2))
    return x, y.stride() == (1, 2)


def drawn(x):
    noisy_(x)
    return x + torch.rand(4)


FUNCTIONS = [whole, view, two, result, lists, keyword, strided, drawn]


def look(f):
    found = []
    for _ in range(2):
        x = torch.randn(4)
        found += [f(x), x]
    return found


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_of_an_argument_and_of_a_new_tensor(function):
    for f in (function, new(function)):
        eager, ours = both(f)
        agree(look, eager, ours)
        assert ours.stats().originals == 0 and ours.stats().misses == 1


@pytest.mark.parametrize("backend", ["interpreter", "native"])
def test_gradients_around_it(backend):
    def f(x):
        y = torch.zeros(4)
        take_(y, (x * 2).detach())
        return (x * y).sin() + y

    same_as_eager(f, backend=backend)


@library.custom_op("diptych_writes::counted", mutates_args={"count"})
def counted(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    count.add_(1)
    return x * x


@counted.register_fake
def _(x, count):
    return torch.empty_like(x)


def test_without_a_derivative_the_backward_is_eagers_error():
    def f(x):
        count = torch.zeros(())
        return counted(x, count) + count

    def look(f):
        x = torch.randn(4, requires_grad=True)
        y = f(x)
        with pytest.raises(RuntimeError, match="no autograd formula was registered"):
            y.sum().backward()
        return [y.detach(), y.requires_grad]

    agree(look, *both(f))


def test_what_autograd_would_record_is_unknown():
    def f(x):
        y = x * 2
        return fill_(y, by=torch.tensor(2.0)) * x

    with pytest.raises(diptych.UserError, match="diptych_writes::fill_.*has no kernel for autograd"):
        diptych.capture(f, torch.ones(4, requires_grad=True))
    same_as_eager(f, eager_fallback=True)


def test_versions_and_saved_tensors():
    def f(x):
        y = x.exp()
        scale_(y.detach(), 2.0)
        return y

    def look(f):
        x = torch.randn(4, requires_grad=True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            f(x).sum().backward()
        return []

    def behind_the_graph(x):
        y = x.exp()
        with torch.no_grad():
            fill_(y, by=torch.tensor(2.0))
        return y

    for one in (f, behind_the_graph):
        look(one)
        look(diptych.aot_function(one, eager_fallback=True))


def test_of_a_leaf_under_no_grad():
    w = torch.nn.Parameter(torch.ones(3))

    def f(x):
        with torch.no_grad():
            scale_(w, 2.0)
        return (w * x).sum()

    compiled = diptych.aot_function(f)
    for _ in range(2):
        x = torch.randn(3)
        before = w.detach().clone()
        compiled(x).backward()
        assert torch.equal(w.detach(), before * 2) and torch.equal(w.grad, x)
        w.grad = None
    assert compiled.stats().originals == 0


def test_overlapping_arguments_are_refused():
    def f(x):
        swap_(x[:3], 1.0, x[1:])
        return x

    with pytest.raises(diptych.UserError, match="diptych_writes::swap_.*overlaps another operand"):
        diptych.capture(f, torch.ones(4))
    with pytest.raises(diptych.UserError, match="diptych_writes::scale_.*whose elements overlap"):
        diptych.capture(lambda x: scale_(x.expand(3, 4), 2.0) or x, torch.ones(4))
    assert torch.equal(diptych.aot_function(f, eager_fallback=True)(torch.arange(4.0)), f(torch.arange(4.0)))


def test_a_pair_is_stored_and_read(tmp_path):
    def f(x, w):
        y = x * w
        scale_(y, 3.0)
        return y.detach() * x * w

    x, w = torch.randn(4), torch.randn(4, requires_grad=True)
    pair = diptych.capture(f, x, w)
    assert "on_copies.diptych_writes__scale_" in pair.forward.code()
    diptych.save(pair, tmp_path / "pair.dp")
    again = diptych.load(tmp_path / "pair.dp")
    torch.testing.assert_close(diptych.call_pair(again, [x, w])[0], f(x, w))


def test_in_a_checkpoint():
    def f(x):
        def inner(x):
            y = x.sin()
            z = torch.zeros(4)
            take_(z, y.detach())
            return y * z

        return diptych.checkpoint(inner)(x) * 2

    same_as_eager(f)


def test_two_calls_on_equal_copies_are_two_values():
    def f(x):
        a, b = x.clone(), x.clone()
        scale_(a, 2.0)
        scale_(b, 2.0)
        scale_(b, 2.0)
        return a, b

    eager, ours = both(f)
    agree(look, eager, ours)


def test_check_mode_sees_the_same():
    compiled = diptych.aot_function(whole, check=1)
    for _ in range(3):
        x = torch.randn(4)
        torch.testing.assert_close(compiled(x.clone()), whole(x))
