"""Writes to tensors several of whose elements lie in one place, and operands that share memory with what is written."""
import diptych
import pytest
import torch

from as_eager import as_eager


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
    with pytest.raises(diptych.UserError, match="changes memory that overlaps another operand,"):
        diptych.aot_function(body)(torch.arange(16.0).view(4, 4))


def test_arguments_that_share_some_columns():
    def add(a, b):
        return b.add_(a) * 1
    as_eager(add, lambda: torch.arange(12.0).view(3, 4).split(2, 1))
    with pytest.raises(diptych.UserError, match="changes memory that overlaps another operand,"):
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
