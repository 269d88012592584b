"""Whose memory a result, a literal or an argument lies in, and who sees a write to it, beside eager."""
import array
import ctypes
import random
import re

import numpy
import pytest
import torch
from beside_eager import both

import diptych


def outcome(function, *arguments):
    """What a caller sees: values, whether they are lazily conjugated, or the first words of eager's error."""
    try:
        result = function(*arguments)
    except RuntimeError as error:
        return str(error).split(".")[0]
    results = result if isinstance(result, (tuple, list)) else [result]
    return [(r.resolve_conj().resolve_neg().detach().clone(), r.is_conj(), r.is_neg(), r.requires_grad, r.is_leaf) for r in results]


def same(one, other):
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return len(one) == len(other) and all(
        torch.equal(a[0].nan_to_num(99.0), b[0].nan_to_num(99.0)) and a[0].dtype == b[0].dtype and a[1:] == b[1:] for a, b in zip(one, other))


def as_eager(body, make_arguments, calls=3):
    """Each call's results, and the arguments after it, are eager's."""
    compiled = diptych.aot_function(body)
    for _ in range(calls):
        mine, theirs = make_arguments(), make_arguments()
        got, wanted = outcome(compiled, *mine), outcome(body, *theirs)
        assert same(got, wanted), f"got {got}, eager gives {wanted}"
        assert same(outcome(lambda: mine), outcome(lambda: theirs)), f"arguments are {mine}, eager leaves {theirs}"
    return compiled


# Literals


@pytest.mark.parametrize("literal", [
    lambda x: torch.tensor(0.0), lambda x: torch.tensor([0.0, 0.0])[1:], lambda x: torch.as_tensor([0.0]).view(1, 1),
    lambda x: torch.asarray(0.0), lambda x: torch.tensor([0.0, 1.0])[:1], lambda x: torch.Tensor([0.0]), lambda x: torch.tensor([[0.0]]).t(),
    lambda x: torch.tensor(0.0).expand(2).clone(), lambda x: torch.zeros(1)], ids=range(9))
def test_a_literal_that_leaves_is_new_in_each_call(literal):
    def step(x):
        total = literal(x)
        return total, x + literal(x)
    compiled = diptych.aot_function(step)
    for _ in range(3):
        total, moved = compiled(torch.ones(2))
        assert torch.equal(total, literal(torch.ones(2))) and torch.equal(moved, torch.ones_like(moved))
        total += 5
        moved += 5


def test_literals_in_bodies_leave_as_copies():
    def loop(x):
        carry, ys = diptych.scan(lambda c, s: (c, c + s), torch.tensor(0.0), x)
        chosen = diptych.cond(x.sum() > 0, lambda t: torch.tensor([1.0, 2.0]), lambda t: torch.tensor([3.0, 4.0]), x)
        return carry, ys, chosen
    compiled = diptych.aot_function(loop)
    for _ in range(3):
        results = compiled(torch.ones(2))
        for result, wanted in zip(results, (torch.tensor(0.0), torch.ones(2), torch.tensor([1.0, 2.0]))):
            assert torch.equal(result, wanted)
            result += 7


def test_a_pair_hands_out_copies_of_its_literals():
    pair = diptych.capture(lambda w: (torch.tensor([2.0]), (w * torch.tensor([3.0])).exp()), torch.ones(1, requires_grad=True))
    for _ in range(3):
        outputs, residuals = pair.forward_call([torch.zeros(1)])
        assert [t.item() for t in outputs] == [2.0, 1.0]
        assert pair.backward_call(residuals, [torch.ones(1)])[0].item() == 3.0
        for tensor in [*outputs, *residuals]:
            tensor.detach().add_(9)


def test_a_literal_with_a_gradient_of_its_own():
    def penalty(x):
        scale = torch.tensor([2.0, 3.0])
        scale.mul_(x)
        scale[0] += 1
        return (scale * x).sum()
    for function in both(penalty):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        function(x).backward()
        function(x).backward()
        assert torch.equal(x.grad, torch.tensor([10.0, 24.0]))


def test_memory_of_an_array_is_read_in_each_call_and_not_handed_out():
    array = numpy.ones(2, dtype=numpy.float32)
    compiled = diptych.aot_function(lambda x: x + torch.from_numpy(array))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    array[:] = 5
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 6.0))
    for body in (lambda x: (torch.from_numpy(numpy.zeros(2)), x + 1), lambda x: torch.as_tensor(array).view(1, 2) if x is not None else x,
                 lambda x: torch.from_numpy(array).add_(x)):
        with pytest.raises(diptych.UserError, match="the function makes a tensor .* of memory that the capture can't know"):
            diptych.aot_function(body)(torch.ones(2))


# Writes to elements that lie in one place

FILLS = [lambda e: e.fill_(2), lambda e: e.zero_(), lambda e: e[1:].fill_(4), lambda e: e[1].add_(1), lambda e: e.t().fill_(3),
         lambda e: e[:, 1].mul_(5), lambda e: e.fill_(2).add(1), lambda e: e.__setitem__(slice(None), 6.0), lambda e: e.__setitem__(0, 7.0),
         lambda e: e.fill_(1)[0].add_(2)]
REFUSED = [lambda e: e.add_(1), lambda e: e.mul_(2), lambda e: e.copy_(torch.ones(3, 3)), lambda e: e.relu_(), lambda e: e.uniform_(),
           lambda e: torch.add(e, 1, out=e), lambda e: torch._foreach_add_([e], 1), lambda e: e.addmm_(torch.ones(3, 3), torch.ones(3, 3)),
           lambda e: e[:2].sub_(1), lambda e: e.clamp_(0, 1), lambda e: e.scatter_(0, torch.zeros(1, 3, dtype=torch.long), 1.0)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("write", FILLS, ids=range(len(FILLS)))
def test_fills_of_expanded_tensors(write, dtype):
    def of_intermediate(x):
        y = x.clone()
        e = y.expand(3, 3)
        write(e)
        return y, e.clone(), e + 1

    def of_argument(x):
        write(x.expand(3, 3))
        return x + 1
    as_eager(of_intermediate, lambda: [torch.arange(3).to(dtype)])
    as_eager(of_argument, lambda: [torch.arange(3).to(dtype)])
    as_eager(of_argument, lambda: [torch.arange(6).to(dtype)[3:]])


@pytest.mark.parametrize("write", [lambda e: e.fill_(True), lambda e: e.zero_(), lambda e: e[1:].fill_(True), lambda e: e.t().fill_(True),
                                   lambda e: e.__setitem__(0, True)], ids=range(5))
@pytest.mark.parametrize("sizes", [(3, 3), (1, 3)])
def test_fills_of_expanded_bools(write, sizes):
    def of_intermediate(x):
        y = x.clone()
        e = y.expand(*sizes)
        write(e)
        return y, e.clone(), e + 1
    as_eager(of_intermediate, lambda: [torch.tensor([False, True, False])])


@pytest.mark.parametrize("write", REFUSED, ids=range(len(REFUSED)))
def test_other_writes_to_expanded_tensors_are_eagers_errors(write):
    def of_intermediate(x):
        e = (x * 1).expand(3, 3)
        write(e)
        return e.clone()

    def of_argument(x):
        e = x.expand(3, 3)
        write(e)
        return e + 1
    as_eager(of_intermediate, lambda: [torch.ones(3)])
    as_eager(of_argument, lambda: [torch.ones(3)])
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        diptych.aot_function(of_argument)(x)
    assert torch.equal(x, torch.ones(3))


@pytest.mark.parametrize("write", [
    lambda y: y[1:].add_(y[:-1]), lambda y: y[1:].copy_(y[:-1]), lambda y: torch.mul(y[1:], 2, out=y[:-1]),
    lambda y: y.view(3, 3).add_(y.view(3, 3).t()), lambda y: y[:4].add_(y[4:8]), lambda y: y[::2].add_(y[1::2].sum()),
    lambda y: y.add_(y), lambda y: y[2:4].mul_(2).add_(y[:2])], ids=range(8))
def test_operands_that_share_memory_with_what_is_written(write):
    def body(x):
        y = x.clone()
        write(y)
        return y
    as_eager(body, lambda: [torch.arange(9.0)])


@pytest.mark.parametrize("write", [
    lambda y: y[:, 1:].add_(y[:, :-1]), lambda y: y[:, 1:].copy_(y[:, :-1]), lambda y: y.div_(y[:, :1]),
    lambda y: y.sub_(y[1:2].expand(4, 4)), lambda y: y[:2].add_(y.t()[:2]), lambda y: y[:2, :2].copy_(y[:2, :2].t()),
    lambda y: y[1:].add_(y[:-1, 1:2]), lambda y: y.addmm_(y, y), lambda y: y.masked_scatter_(y > 2, y),
    lambda y: torch.mm(y, y, out=y), lambda y: torch.sum(y, 0, out=y[0]),
    lambda y: torch._foreach_mul_([y[:2], y[1:]], 2.0), lambda y: torch._foreach_add_([y[0], y[1]], [y[1], y[0]]),
    lambda y: y[:, 1:].view(torch.int32).add_(y[:, :-1].view(torch.int32))], ids=range(14))
def test_what_depends_on_the_order_of_a_kernel_is_refused(write):
    def body(x):
        y = x.clone()
        write(y)
        return y
    with pytest.raises(diptych.UserError, match="changes memory that another operand sees a part of"):
        diptych.aot_function(body)(torch.arange(16.0).view(4, 4))


def test_arguments_that_share_some_columns():
    def add(a, b):
        return b.add_(a) * 1
    as_eager(add, lambda: torch.arange(12.0).view(3, 4).split(2, 1))
    with pytest.raises(diptych.UserError, match="changes memory that another operand sees a part of"):
        m = torch.arange(12.0).view(3, 4)
        diptych.aot_function(add)(m[:, :2], m[:, 1:3])


@pytest.mark.parametrize("write", [
    lambda y: y.mul_(y.sum(0)), lambda y: y.div_(y.norm()), lambda y: y[:, 0].add_(y[:, 1]), lambda y: y.fill_(y[1, 1]),
    lambda y: y[:, ::2].mul_(y[:, 1::2]), lambda y: y[:, 1:].mul_(y[:, 1:]), lambda y: y.t().mul_(y.t()),
    lambda y: torch.tril(y, out=y), lambda y: torch.softmax(y, 0, out=y), lambda y: y.masked_fill_(y > 2, 1.0),
    lambda y: torch.cumsum(y, 0, out=y), lambda y: y[:2, :2].add_(y[2:, :2]), lambda y: torch._foreach_add_([y[0]], [y[0]]),
    lambda y: torch.view_as_complex(y.view(-1, 2)).mul_(torch.view_as_complex(y.view(-1, 2)).conj())], ids=range(14))
def test_operands_that_share_nothing_or_everything(write):
    def body(x):
        y = x.clone()
        write(y)
        return y
    as_eager(body, lambda: [torch.arange(16.0).view(4, 4)])


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
            with pytest.raises(diptych.UserError, match="changes memory that another operand sees a part of"):
                diptych.aot_function(body)(base)
        else:
            assert torch.equal(diptych.aot_function(body)(base), body(base))
    assert seen == {True, False}


@pytest.mark.parametrize("pair", [
    lambda b: (b, b.conj()), lambda b: (b.conj(), b), lambda b: (b.conj(), b.conj()), lambda b: (b.imag, b.conj().imag)], ids=range(4))
def test_arguments_that_read_one_memory_in_two_ways(pair):
    b = torch.randn(3, dtype=torch.complex64)
    with pytest.raises(diptych.UserError, match="reads as conjugates or negated and the other as it is"):
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
        with pytest.raises(diptych.UserError, match="reaches elements of the storage of 'x' that are none of its own"):
            diptych.aot_function(body)(torch.arange(12.0)[2:5])
    with pytest.raises(diptych.UserError, match="none of its own"):
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


# Memory that is known under several storages


def two_names(kind):
    base = torch.arange(6, dtype=torch.float32)
    if kind == "from_numpy":
        array = base.numpy().copy()
        return [torch.from_numpy(array), torch.from_numpy(array)]
    if kind == "numpy_and_back":
        return [base, torch.from_numpy(base.numpy())]
    if kind == "dlpack":
        return [base, torch.from_dlpack(base.numpy())]
    if kind == "frombuffer":
        buffer = bytearray(base.numpy().tobytes())
        return [torch.frombuffer(buffer, dtype=torch.float32), torch.frombuffer(buffer, dtype=torch.float32)]
    if kind == "rows":
        array = base.numpy().copy()
        return [torch.from_numpy(array[:4]), torch.from_numpy(array[2:])]
    array = base.numpy().copy()
    return [torch.from_numpy(array[:3]), torch.from_numpy(array[3:])]  # apart


KINDS = ["from_numpy", "numpy_and_back", "dlpack", "frombuffer", "rows", "apart"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [
    lambda t, u: (t.mul_(10), u * 1)[1], lambda t, u: (u.add_(1), t[1:].clone())[1], lambda t, u: (t[1:].fill_(3), u.view(-1, 1), t.t())[1:],
    lambda t, u: (t.mul_(2), u.add_(1), t + 0)[2], lambda t, u: t.clone() * u.sum(), lambda t, u: (t.zero_(), u)[1]], ids=range(6))
def test_arguments_of_one_memory(kind, body):
    as_eager(body, lambda: two_names(kind))


def test_memory_that_is_shared_later_is_another_capture():
    compiled = diptych.aot_function(lambda t, u: (t.mul_(10), u * 1)[1])
    for kind in ("apart", *KINDS, "apart", *KINDS):
        mine, theirs = two_names(kind), two_names(kind)
        assert torch.equal(compiled(*mine), (theirs[0].mul_(10), theirs[1] * 1)[1])
        assert torch.equal(mine[0], theirs[0]) and torch.equal(mine[1], theirs[1])
    separate = [torch.ones(6), torch.ones(6)]
    assert torch.equal(compiled(*separate), torch.ones(6))


def test_a_captured_tensor_of_an_arguments_memory():
    for _ in range(2):
        array = numpy.ones(3, dtype=numpy.float32)
        held = torch.from_numpy(array)
        compiled = diptych.aot_function(lambda t: (t.mul_(10), held * 1)[1])
        assert torch.equal(compiled(torch.from_numpy(array)), torch.full((3,), 10.0))
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 10.0))
        assert torch.equal(compiled(torch.from_numpy(array)), torch.full((3,), 100.0))


def test_memory_of_two_types_or_half_an_element_apart_is_refused():
    array = numpy.zeros(16, dtype=numpy.uint8)
    first = torch.from_numpy(array[:12].view(numpy.float32))
    body = lambda t, u: (t.add_(1), u * 1)[1]
    with pytest.raises(diptych.UserError, match="share memory under two dtypes"):
        diptych.aot_function(body)(first, torch.from_numpy(array))
    with pytest.raises(diptych.UserError, match="share memory, 2 bytes apart"):
        diptych.aot_function(body)(first, torch.frombuffer(array.data, dtype=torch.float32, offset=2, count=3))


# Modes that kernels read


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


# Views on which the function calls requires_grad_()


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


# Lazy conjugates

CONJUGATES = [
    lambda y: (y.conj().mul_(2j), y.imag.add_(1), y)[2], lambda y: (y.conj().mul_(2j), y)[1], lambda y: (y.mul_(2), y.conj())[1],
    lambda y: y.conj() * 2, lambda y: (y.conj()[1:].add_(1j), y.real + y.imag)[1], lambda y: (y.conj().t().mul_(1j), y.conj().imag.clone())[1],
    lambda y: (y.imag.add_(1), y.conj(), y.conj().clone())[1:], lambda y: (y.conj().conj().mul_(3), y)[1],
    lambda y: (y.real.mul_(2), y.real, y.imag.clone())[1:], lambda y: (y.conj().copy_(y.clone()), y.conj().clone())]


@pytest.mark.parametrize("body", CONJUGATES, ids=range(len(CONJUGATES)))
def test_writes_through_conjugates(body):
    def of_intermediate(x):
        return body(x * 1)
    make = lambda: torch.view_as_complex(torch.arange(6.0).view(3, 2))
    as_eager(of_intermediate, lambda: [make()])
    as_eager(body, lambda: [make()])
    as_eager(of_intermediate, lambda: [make().conj()])
    if body is not CONJUGATES[8]:  # real numbers of a conjugate argument that was changed: an error, whose view can't be taken outside
        as_eager(body, lambda: [make().conj()])


def test_a_conjugate_argument_is_another_capture():
    compiled = diptych.aot_function(lambda y: y.imag + 1)
    y = torch.tensor([1 + 2j])
    for x in (y, y.conj(), y, y.conj(), y.clone()):
        assert torch.equal(compiled(x), x.imag + 1)
    assert compiled.stats().misses == 2


def test_a_conjugate_of_what_was_merged_is_refused():
    def body(a, b):
        a.add_(1)
        return b.conj(), torch.view_as_real(b)
    base = torch.ones(3, dtype=torch.complex64)
    with pytest.raises(diptych.UserError, match="shows the memory of another tensor as conjugates"):
        diptych.aot_function(body)(base[:2], base[1:])


# Numbers where a tensor is expected

NUMBERS = [2, -3, 2.5, True, 2j]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.uint8, torch.int64, torch.bool, torch.complex64]
OPERATORS = ["floor_divide", "add", "sub", "mul", "div", "true_divide", "remainder", "fmod", "pow", "float_power", "maximum", "minimum", "eq", "ne",
             "lt", "le", "gt", "ge", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "copysign",
             "xlogy", "hypot", "ldexp", "logical_and", "rsub", "nextafter", "heaviside", "gcd", "lcm", "logaddexp", "subtract", "multiply", "divide",
             "greater", "less", "not_equal", "where", "clamp_min", "clamp_max", "special_zeta", "special_xlog1py", "arctan2", "fmax", "fmin"]


def of_operator(name, number, side):
    """A function with the number written in it."""
    operator = f"torch.{name}" if hasattr(torch, name) else f"torch.special.{name.removeprefix('special_')}"
    if name == "where":
        operator = "lambda a, b: torch.where(x != 0, a, b)"
    return eval(f"lambda x: ({operator})({f'x, {number}' if side == 'right' else f'{number}, x'})", {"torch": torch})  # noqa: S307


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", OPERATORS)
def test_numbers_on_either_side(name, side):
    for dtype in DTYPES:
        for number in NUMBERS:
            body = of_operator(name, number, side)
            for x in (torch.tensor([[1, 2, 3], [3, 1, 1]]).to(dtype), torch.tensor(3).to(dtype)):
                check_number(body, x, f"{name} {dtype} {number} {side}")


SYMBOLS = ["x // n", "n // x", "x % n", "n % x", "x**n", "n**x", "x << n", "x >> n", "x & n", "n | x", "x.clone().floor_divide_(n)",
           "x.clone().remainder_(n)", "x.clone().__ifloordiv__(n)", "torch.div(x, n, rounding_mode='floor')", "torch.div(x, n, rounding_mode='trunc')",
           "n - x", "n / x", "torch.floor_divide(x, torch.tensor(n))", "x.floor_divide(n).sum()", "torch.floor_divide(n, x)", "(x.sum() // n) + x"]


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_numbers_by_symbols(symbol):
    for dtype in DTYPES:
        for number in NUMBERS:
            body = eval("lambda x: " + re.sub(r"\bn\b", f"({number})", symbol), {"torch": torch})  # noqa: S307
            check_number(body, torch.tensor([[7, 2, 3], [3, 1, 5]]).to(dtype), f"{symbol} {dtype} {number}")


def check_number(body, x, what):
    try:
        wanted = body(x)
    except (RuntimeError, TypeError, ZeroDivisionError):
        return
    if wanted is NotImplemented:
        return
    try:
        got = diptych.aot_function(body)(x)
    except Exception as error:
        raise AssertionError(f"{what}: eager gives {wanted}, got {error}") from error
    assert got.dtype == wanted.dtype and got.shape == wanted.shape and torch.allclose(got.to(torch.complex128), wanted.to(torch.complex128), equal_nan=True), f"{what}: {got}, {wanted}"


def test_floor_division_trains():
    def body(x):
        return (x * (x // 2).detach()).sum()
    grads = []
    for function in both(body):
        x = torch.tensor([1.0, 5.0], requires_grad=True)
        function(x).backward()
        grads.append(x.grad)
    assert torch.equal(*grads)


@pytest.mark.parametrize("lender", ["numpy", "numpy.part", "numpy.turned", "bytearray", "array", "memoryview", "ctypes"])
@pytest.mark.parametrize("read", [True, False])
def test_memory_of_an_array_that_a_written_tensor_has(lender, read):
    """The function reads through the array what it has written through the tensor."""

    def outcome(call_of):
        whole = numpy.arange(4, dtype=numpy.float32) + 1
        held = {"numpy": whole, "numpy.part": whole[:2], "numpy.turned": whole[::-1], "bytearray": bytearray(whole.tobytes()), "array": array.array("f", whole),
                "memoryview": memoryview(whole), "ctypes": (ctypes.c_float * 4)(*whole)}[lender]
        owner = held if lender in ("bytearray", "array", "ctypes") else whole
        x, y = torch.frombuffer(owner, dtype=torch.float32), torch.ones(4)

        def reads(x):
            x.add_(1)
            return x * held[0]

        def reads_not(x):
            x.add_(1)
            return x * 2

        call = call_of(reads if read else reads_not)
        found = [call(x).tolist() for _ in range(3)] + [call(y).tolist()]
        return found, x.tolist(), y.tolist()

    compiled = []
    assert outcome(lambda f: compiled.append(diptych.aot_function(f)) or compiled[0]) == outcome(lambda f: f)
    assert compiled[0].stats().originals == (3 if read else 0)
