"""Memory that is known under several storages, and lazy conjugates of it."""

import diptych
import numpy
import pytest
import torch

from as_eager import as_eager


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
    with pytest.raises(diptych.UserError, match="views the memory of another tensor as conjugates"):
        diptych.aot_function(body)(base[:2], base[1:])
