"""tensor[index] with a tensor of no dimensions in bodies of operators and in backwards, where nobody can ask for its value."""
import diptych
import pytest
import torch
from beside_eager import Cases, loop
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.while_loop import while_loop

READS = Cases()  # functions of a table [5, 3, 4], an index that counts and a slice [4]; as WRITES, of a table that they may change




@READS
def first(t, i, x):
    return t[i, 0] * x + t[i].sum(0)


@READS
def negative(t, i, x):
    return t[-i - 1, 1] * x


@READS
def last_of_three(t, i, x):
    return t[..., i].sum() * x + t[0, ..., i % 3, :]


@READS
def two(t, i, x):
    return t[i, i % 3] * x + t[i, :, i % 4].sum()


@READS
def among_slices_and_new_dimensions(t, i, x):
    return t[None, i, 1:, ::2].sum() * x + t[1:3, i % 3, None].sum((0, 1))


@READS
def other_dtypes(t, i, x):
    return t[i.int(), 1] * x + t[i.to(torch.int8), 0] + t[i.short(), 2]


@READS
def beside_other_tensors(t, i, x):
    mask = torch.tensor([True, False, True])
    return t[i, :, torch.tensor([0, 1])].sum() * x + t[torch.tensor([1, 2]), i % 3].sum(0) + t[torch.tensor([1, 1, 0]), i % 3, None].sum((0, 1)) + mask.sum()


@READS
def in_lists(t, i, x):
    return t[i, [0, 2]].sum(0) * x + t[[0, 2], i % 3].sum(0) + t[0, [i % 3, 1]].sum(0)


@READS
def of_a_transposed(t, i, x):
    return t.transpose(0, 2)[i % 4, :, 1].sum() * x


@READS
def in_a_branch(t, i, x):
    return diptych.cond(x.sum() > 0, lambda: t[i, 1] * 2, lambda: t[i, 0]) * x


@READS
def in_a_while_loop(t, i, x):
    return diptych.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * t[c[0], 1] + t[i, 0]), (torch.tensor(0), x * 1))[1]


@READS
def in_maps(t, i, x):
    return diptych.map(lambda k: t[k, i % 3] * x, torch.arange(3)).sum(0)


@READS
def in_a_vmap_and_a_grad(t, i, x):
    return torch.vmap(lambda row: row[i % 3] * x)(t).sum(0) + torch.func.grad(lambda x: (t[i, 1] * x).sum().sin())(x)


@READS
def a_range_that_begins_at_one(t, i, x):
    return t.narrow(0, i, 2).sum((0, 1)) * x + torch.narrow(t, -1, -(i % 3).int() - 1, 1).sum() + t.narrow(1, i % 2, 0).sum()


@READS
def by_the_method(t, i, x):
    return t.__getitem__((i, 0)) * x + torch.Tensor.__getitem__(t, i).sum(0)


WRITES = Cases()


@WRITES
def assigned(t, i, x):
    t[i, 0] = x
    t[:, i % 3] = 3.5
    t[i, 1, 2] = x.sum()
    return t.sin().sum((0, 1))


@WRITES
def assigned_beside_others(t, i, x):
    t[i, 1:, [0, 3]] = x[:2]
    t[1:, i % 3] = x.float()
    t[i, t[0, :, 0] > 0] = 2.0
    return t.sin().sum((0, 1))


@WRITES
def added(t, i, x):
    t[i] += x
    t[i, 1] *= 2
    t[i, :, 1:] -= 1
    return t.sin().sum((0, 1))


@WRITES
def a_part_is_a_view(t, i, x):
    r = t[i]
    r.add_(x)
    q = r[1:]
    t.mul_(2)
    q.sub_(1)
    s = t[i][i % 3]
    s.exp_()
    return (t.sin() * r.sum() + q.sum() * s.sum()).sum((0, 1))


@WRITES
def a_part_sees_what_is_written(t, i, x):
    r, other = t[i], t[2]
    t[i, 0] = x
    other.mul_(3)
    t[-1] = 7.0
    return r.sum(0) * 2 + t.sum((0, 1))


@WRITES
def an_index_that_changes(t, i, x):
    k = i + 0
    r = t[k]
    k.add_(1)
    r.add_(x)
    return t.sin().sum((0, 1)) + t[k % 5, 0]


@WRITES
def a_part_is_what_an_operator_fills(t, i, x):
    with torch.no_grad():
        filled = torch.zeros(5, 4, dtype=t.dtype)
        torch.add(x.detach(), 1, out=filled[(i + 1) % 4])
    torch._foreach_mul_([t[i], x * 1], 2.0)
    diptych.cond(x.sum() > 0, lambda part: part.mul_(2), lambda part: part.add_(1), t[i])
    torch.nn.functional.relu_(t[:, i % 3])
    return t.sin().sum((0, 1)) + filled.sum(0)


@WRITES
def a_range_is_a_view(t, i, x):
    r = t.narrow(0, i, 2)
    r.mul_(x)
    t[i] += 1
    return t.sin().sum((0, 1)) + r.sum((0, 1))


@WRITES
def a_part_that_is_transposed_in_place(t, i, x):
    r = t[i]
    r.t_()
    return t.sin().sum((0, 1)) + (r @ t[i]).sum(0) * x


@WRITES
def without_gradients(t, i, x):
    with torch.no_grad():
        t = t.detach() * 1
        t[i] += 1
        t[i, 1] = 0
    return t.sum((0, 1)) * x


def _of(body, writes):
    def step(t):
        return lambda i, x: (i + 1, body(t * 1 if writes else t, i, x))

    return step


@pytest.mark.parametrize("backend", ["native", "interpreter", "xla"])
@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_an_index_that_is_a_tensor_is_that_of_eager(name, backend):
    if backend == "xla" and backend not in diptych.backend_names():
        pytest.skip("no plugin")
    step = _of({**READS, **WRITES}[name], name in WRITES)

    def run(scan):
        torch.manual_seed(0)
        table, xs = (torch.randn(*sizes, dtype=torch.float64).requires_grad_() for sizes in ((5, 3, 4), (4, 4)))
        last, ys = scan(table, xs)
        return last, ys, torch.autograd.grad(ys.square().sum(), (table, xs), allow_unused=True)

    scan = diptych.aot_function(lambda table, xs: diptych.scan(step(table), torch.tensor(0), xs), backend=backend)
    expected = run(lambda table, xs: loop(step(table), torch.tensor(0), xs))
    torch.testing.assert_close(run(scan), expected)
    if backend == "native":
        torch.testing.assert_close(run(lambda table, xs: diptych.scan(step(table), torch.tensor(0), xs)), expected)


@pytest.mark.parametrize("name", ["first", "two", "added", "a_part_is_a_view"])
def test_gradients_of_what_an_index_takes(name):
    step = _of({**READS, **WRITES}[name], name in WRITES)
    table, xs = (torch.randn(*sizes, dtype=torch.float64).requires_grad_() for sizes in ((5, 3, 4), (2, 4)))
    scan = diptych.aot_function(lambda table, xs: diptych.scan(step(table), torch.tensor(0), xs)[1])
    assert torch.autograd.gradcheck(scan, (table, xs)) and torch.autograd.gradgradcheck(scan, (table, xs))


def test_operators_of_torch_take_one():
    @diptych.aot_function
    def f(table, xs):
        table = table * torch.cond(xs.sum() > 1e3, lambda i: table[i, 0], lambda i: table[i, i] / table[1, 1], (torch.tensor(1),))
        last = while_loop(lambda i, c: i < 3, lambda i, c: (i + 1, c * table[i]), (torch.tensor(0), xs[0] * 1))[1]
        return last + mapped(lambda k: table[k], torch.arange(3)).sum(0)

    table, xs = torch.randn(3, 4), torch.randn(2, 4)
    torch.testing.assert_close(f(table, xs), xs[0] * table[0] * table[1] * table[2] + table.sum(0))


def test_a_captured_table_is_written_to():
    def added(table):
        def step(i, x):
            table[i % 2] += x
            return i + 1, table[i % 2] * 2

        return step

    xs = torch.arange(12.0).reshape(3, 4)
    tables = [torch.ones(2, 4) for _ in range(3)]
    expected = loop(added(tables[0]), torch.tensor(0), xs)
    for table, scan in (tables[1], diptych.scan), (tables[2], diptych.aot_function(diptych.scan)):
        torch.testing.assert_close(scan(added(table), torch.tensor(0), xs), expected)
        torch.testing.assert_close(table, tables[0])


class Picked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, i):
        ctx.save_for_backward(i)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (i,) = ctx.saved_tensors
        h = gradient.clone()
        h[i] += 1
        h[i + 1].mul_(3)
        return h * gradient[i], None


def test_a_backward_takes_one():
    i = torch.tensor(1)
    gradients = []
    for function in (Picked.apply, diptych.aot_function(Picked.apply)):
        x = torch.arange(4.0).requires_grad_()
        gradients.append(torch.autograd.grad(function(x, i), x, torch.arange(1.0, 5)))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(("index", "error", "words"), [
    (lambda i: i + 3, IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    (lambda i: (i, i, i), IndexError, "too many indices for tensor of dimension 2"),
    (lambda i: i.double(), IndexError, "tensors used as indices must be long, int, byte or bool tensors"),
    (lambda i: i > 0, diptych.UserError, "needs the values of a tensor"),
    (lambda i: i.byte(), diptych.UserError, "needs the values of a tensor"),
    (lambda i: slice(i, i + 1), diptych.UserError, "needs the values of a tensor"),
])
def test_what_no_index_can_be(index, error, words):
    with pytest.raises(error, match=words):
        diptych.scan(lambda i, x: (i, x[index(i)]), torch.tensor(0), torch.ones(2, 3, 3))


def test_a_range_out_of_range_is_refused():
    for start in (2, -1, -4, 3):
        with pytest.raises(diptych.UserError, match="index 3 is out of bounds for dimension 0 with size 3|index 2 is|index 4 is") as error:
            diptych.scan(lambda i, x: (i, x.narrow(0, i, 2)), torch.tensor(start), torch.ones(2, 3, 3))
        assert isinstance(error.value, IndexError)


def test_a_part_is_no_result_beside_what_it_is_part_of():
    table, i = torch.randn(4, 3), torch.tensor(1)
    for function in (lambda t, i: t[i], lambda t, i: (t.narrow(0, i, 2) + 1, t[i][1:])):
        with pytest.raises(diptych.UserError, match=r"is a part that an index which is a tensor has taken, .*return clone\(\) of it"):
            diptych.aot_function(function, path_limit=0)(table, i)
        asked = diptych.aot_function(function)(table, i)
        torch.testing.assert_close(asked, function(table, i))
    torch.testing.assert_close(diptych.aot_function(lambda t, i: t[i] * t[i].clone(), path_limit=0)(table, i), table[1] ** 2)
    assert diptych.aot_function(lambda t, i: t[i])(table, i).data_ptr() == table[1].data_ptr()


def test_a_part_is_written_to_beside_another_of_its_memory():
    def at_once(i, x):
        t = x * 1
        torch._foreach_mul_([t[i], t[1 - i]], 2.0)
        return i, t

    def in_a_branch(i, x):
        t = x * 1
        part = t[i]
        return i, diptych.cond(x.sum() > 0, lambda: (part.mul_(2), t * 1)[1], lambda: (t.add_(1), part * t)[1])

    for step, words in (at_once, "writes to several tensors, more than one of which is a part"), (in_a_branch, "whose memory 'free.[01]' shares"):
        with pytest.raises(diptych.UserError, match=words):
            diptych.scan(step, torch.tensor(0), torch.ones(2, 3, 3))


def test_a_part_whose_shape_changed_is_not_written_to():
    def step(i, x):
        part = (x * 1)[i]
        part.t_()
        return i, part.mul_(2)

    with pytest.raises(diptych.UserError, match="whose shape it has changed in place; reshape a view of it"):
        diptych.scan(step, torch.tensor(0), torch.ones(2, 3, 3, 3))


def test_a_part_is_not_written_to_in_a_transform():
    def written(x):
        t = x * torch.ones(3, 3)
        t[torch.tensor(1)].mul_(x)
        return t.sum()

    def assigned(x):
        t = x * torch.ones(3, 3)
        t[torch.tensor(1)] = x.sin()
        return t.sum()

    def step(function):
        return lambda carry, x: (carry, torch.func.grad(function)(x))

    xs = torch.ones(2, 3)
    with pytest.raises(diptych.UserError, match=r"in a transform of torch.func; assign to tensor\[index\]"):
        diptych.scan(step(written), torch.tensor(0), xs)
    torch.testing.assert_close(diptych.scan(step(assigned), torch.tensor(0), xs), loop(step(assigned), torch.tensor(0), xs))
