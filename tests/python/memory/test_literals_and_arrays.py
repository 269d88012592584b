"""In whose memory literals and arrays lie that a function reads or hands out, beside eager."""
import array
import ctypes

import diptych
import numpy
import pytest
import torch

from beside_eager import both
from as_eager import outcome


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
        with pytest.raises(diptych.UserError, match="the function makes a tensor .* from foreign memory"):
            diptych.aot_function(body)(torch.ones(2))


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
