"""Slices, strides, windows and views: where their places lie, who sees a write through them, and views that are made leaves."""
import random

import diptych
import pytest
import torch

from beside_eager import both, loop
from as_eager import as_eager
from rotation import rotating


def test_slices_share_what_their_places_say():
    base = torch.arange(5.0 * 6 * 7).view(5, 6, 7)
    chooser = random.Random(0)

    def any_part():
        index = []
        for size in base.shape:
            begin = chooser.randrange(size)
            index.append(slice(begin, chooser.randint(begin + 1, size), chooser.randint(1, 3)))
        return lambda y: y[tuple(index)]
    seen = set()
    for _ in range(150):
        first, second = any_part(), any_part()

        def body(x):
            y = x.clone()
            torch._foreach_mul_([first(y), second(y).permute(2, 0, 1)], 2.0)
            return y
        share = not set(first(base).flatten().tolist()).isdisjoint(second(base).flatten().tolist())
        seen.add(share)
        if share:
            with pytest.raises(diptych.UserError, match="changes memory that overlaps another operand,"):
                diptych.aot_function(body)(base)
        else:
            assert torch.equal(diptych.aot_function(body)(base), body(base))
    assert seen == {True, False}


@pytest.mark.parametrize("pair", [
    lambda b: (b, b.conj()), lambda b: (b.conj(), b), lambda b: (b.conj(), b.conj()), lambda b: (b.imag, b.conj().imag)], ids=range(4))
def test_arguments_that_read_one_memory_in_two_ways(pair):
    b = torch.randn(3, dtype=torch.complex64)
    with pytest.raises(diptych.UserError, match="reads conjugated or negated,"):
        diptych.aot_function(lambda x, y: x.mul_(2) + y)(*pair(b))
    as_eager(lambda x, y: x * 2 + y, lambda: pair(torch.arange(3) * (1 + 2j)))
    as_eager(lambda x, y: x.mul_(2) + y, lambda: [(torch.arange(3) * (1 + 2j)).conj()] * 2)


def changed(x):
    return x.mul_(2)


def changed_base(z, view):
    y = z * 1
    view(y).mul_(2)
    return y


@pytest.mark.parametrize("body", [
    lambda x: changed(x).as_strided((2,), (1,), 3) * 1, lambda x: changed(x[1:]).as_strided((2,), (1,), 4) * 1,
    lambda x: changed(x).view(2, 3).t().as_strided((2,), (3,), 3) * 1, lambda x: changed(x).as_strided((2,), (2,)) * 1,
    lambda x: x.as_strided((2,), (1,), 3), lambda x: x.as_strided((2,), (1,), 3) * changed(x)[:2],
    lambda x: changed(x.as_strided((2,), (1,))) * x[:2]], ids=range(7))
def test_strides_that_count_from_where_a_storage_begins(body):
    begins = iter([2, 2, 1, 1, 3, 3, 2, 2])  # of each call compiled, and in eager
    as_eager(body, lambda: [torch.arange(12.0)[next(begins):][:6]], calls=4)


def test_strides_that_lead_out_of_an_argument():
    bodies = [lambda x: changed(x.as_strided((4,), (1,))).sum(), lambda x: x.as_strided((2,), (1,), 0) * 1,
              lambda x: x.as_strided((2,), (3,)) * 1]
    for body in bodies:
        with pytest.raises(diptych.UserError, match="reaches elements of the storage of 'x' that are not elements of that tensor;"):
            diptych.aot_function(body)(torch.arange(12.0)[2:5])
    with pytest.raises(diptych.UserError, match="not elements of that tensor;"):
        diptych.aot_function(lambda x: x.as_strided((2, 3), (4, 1)) * 1)(torch.arange(16.0).view(4, 4)[:, :2])
    as_eager(lambda x: changed(x).as_strided((2, 2), (8, 1)) * 1, lambda: [torch.arange(16.0).view(4, 4)[:, :2]])


@pytest.mark.parametrize("body", [
    lambda x, w: (lambda v: v.mul_(w).sum())((x * 1)[0].as_strided((2,), (4,), 1)),
    lambda x, w: (lambda y: (y[0].as_strided((2,), (4,), 1).mul_(w).sum() + y.sum()))(x * 1),
    lambda x, w: (lambda y: ((y.expand(3, 2, 4)[1].mul_(3)[:, :2].mul_(w) ** 2).sum() + y.sum()))(x * 1),
    lambda x, w: (lambda y: (lambda v: (v.mul_(w) * 2 * v.mul_(w)).sum())(y.t()[0].as_strided((2,), (1,), 5)))(x * 1)], ids=range(4))
def test_gradients_of_strides_that_lead_out_of_a_view(body):
    for function in both(body):
        x, w = torch.arange(8.0).view(2, 4).requires_grad_(), torch.tensor([2.0, 3.0], requires_grad=True)
        for _ in range(2):
            function(x, w).backward()
        if function is body:
            wanted = x.grad, w.grad
    assert torch.equal(x.grad, wanted[0]) and torch.equal(w.grad, wanted[1])


def test_bases_of_lazy_views_that_were_written_to():
    for body in (lambda z: changed_base(z, lambda y: y.conj().imag), lambda z: changed_base(z, lambda y: y.conj()[1:].imag),
                 lambda z: changed_base(z, lambda y: y.conj().real), lambda z: changed_base(z, lambda y: y.conj()),
                 lambda z: changed_base(z.real, torch._neg_view)):
        as_eager(body, lambda: [torch.arange(3) * (1 + 2j)])


def test_windows_and_strides():
    def fill(x):
        y = x.clone()
        y.as_strided((3, 3), (1, 1)).fill_(2)
        y.unfold(0, 2, 1)[0].add_(1)
        return y, y.view(3, 2).as_strided((2,), (1,), 4).mul_(3) + 0
    as_eager(fill, lambda: [torch.arange(6.0)])
    as_eager(lambda x: x.clone().unfold(0, 2, 2).mul_(2), lambda: [torch.arange(7.0)])
    for body in (lambda x: x.clone().as_strided((3, 3), (1, 1)).add_(1), lambda x: x.clone().unfold(0, 3, 1).mul_(2),
                 lambda x: x.clone()[None].expand(3, 6).masked_fill_(x > 2, 1.0)):
        with pytest.raises(diptych.UserError, match="changes a view whose elements overlap"):
            diptych.aot_function(body)(torch.arange(6.0))


def test_gradients_through_writes_by_strides():
    def body(w):
        y = w * 2
        y.expand(3, 3)[1].mul_(3)
        y.view(3, 1).expand(3, 2)[:, 0].add_(1)
        return (y * y).sum()
    grads = []
    for function in both(body):
        w = torch.arange(3.0, requires_grad=True)
        function(w).backward()
        grads.append(w.grad)
    assert torch.equal(*grads)


def test_a_view_that_is_made_a_leaf():
    def leaf(a):
        v = a.view(-1)
        v.requires_grad_(True)
        return v

    def of_intermediate(a):
        y = a * 2
        v = y[0]
        v.requires_grad_()
        return y, v

    def on_from_there(a):
        v = a.view(-1)
        v.requires_grad_()
        return v[1:]
    for body in (leaf, of_intermediate, on_from_there):
        as_eager(body, lambda: [torch.ones(2, 2)])
    compiled = diptych.aot_function(leaf)
    for _ in range(2):
        a = torch.ones(2, 2)
        v = compiled(a)
        assert v._base is a and v.data_ptr() == a.data_ptr()
        (v * 3).sum().backward()
        assert torch.equal(v.grad, torch.full((4,), 3.0))


#: Each takes a tensor of 5 that the function has computed.
COMPUTED = {
    "an offset": lambda y: y.as_strided((3,), (1,), 1),
    "beside a view": lambda y: y[1:3].as_strided((2, 2), (2, 1)),
    "before a view": lambda y: y[2:].as_strided((2,), (1,), 1),
    "windows": lambda y: y.as_strided((3, 2), (1, 1), 1),
    "a copy": lambda y: torch.as_strided_copy(y[1:], (2,), (2,), 1),
    "scattered": lambda y: torch.as_strided_scatter(y, y[:2] * 3, (2,), (2,), 1),
    "scattered by its own place": lambda y: torch.as_strided_scatter(y[1:], y[:2] * 3, (2,), (2,)),
    "nothing": lambda y: y.as_strided((0, 2), (1, 1), 4),
    "changed": lambda y: (y.as_strided((2,), (1,), 3).mul_(2), y)[1],
    "copied to itself": lambda y: (lambda v: (v.unsqueeze_(0), v.copy_(v), y * y)[2])(y.view(5, 1).t()),
}


@pytest.mark.parametrize("name, backend", [(name, backend) for name in COMPUTED for backend in diptych.backend_names()])
@pytest.mark.parametrize("partition", rotating(["default", "min_cut"]))
def test_places_of_what_a_loop_computes(name, partition, backend):
    """A loop's body reads what was computed before it, or saved for its backward, as slices of stacks."""
    part, x = COMPUTED[name], torch.rand(3, 5, dtype=torch.float64)

    def step(carry, x):
        y = (x * 1.5).exp() + 0.5
        z = part(y)
        return carry + (z * z.sin()).sum(), z * z.cos()

    def outcome(function):
        leaf = x.clone().requires_grad_()
        results = function(torch.zeros((), dtype=torch.float64), leaf)
        first = torch.autograd.grad(sum((result * result).sum() for result in results), leaf, create_graph=True)[0]
        return [*results, first, torch.autograd.grad((first * first).sum(), leaf)[0]]

    expected = outcome(lambda carry, xs: loop(step, carry, xs))
    for function in (lambda carry, xs: diptych.scan(step, carry, xs), lambda carry, xs: loop(step, carry, xs)):
        compiled = diptych.aot_function(function, backend=backend, partition=partition)
        torch.testing.assert_close(outcome(compiled), expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(outcome(lambda carry, xs: diptych.scan(step, carry, xs)), expected, rtol=1e-9, atol=1e-12)


def test_a_view_of_another_dtype_has_no_elements_beside_it():
    with pytest.raises(diptych.UserError, match="of a view of another dtype that are not elements of that view;"):
        diptych.aot_function(lambda x: torch.view_as_real((x * 1)[1:]).as_strided((2,), (1,), 0) * 1)(torch.randn(3, dtype=torch.complex64))
