"""Bodies that change in place what they are given or capture: results, what is changed, and gradients as the loop's."""
import itertools

import diptych
import pytest
import torch

from operators import randn


def changed_carry(c, x, _):
    c.mul_(0.5).add_(x)
    return c, c.clone()


def changed_and_replaced_carry(c, x, _):
    c.mul_(0.5).add_(x)
    return c * 2, c.sin()


def changed_slice(c, x, _):
    y = x.mul_(2).clone()
    return c + y, y * c


def changed_slice_and_carry(c, x, _):
    x.add_(c)
    c.add_(1.0)
    return c, x * 2


def changed_elements(c, x, w):
    c[0] = x[1]
    return c, x * w


def changed_closure(c, x, w):
    w.mul_(0.9).add_(x)
    now = w.clone()
    return c * now, c + now


def changed_view_of_closure(c, x, w):
    w[0].mul_(x[1])
    now = w.clone()
    return c * now, x + now


def changed_carry_by_closure(c, x, w):
    c.mul_(w)
    return c, c.clone() * x


BODIES = [
    changed_carry, changed_and_replaced_carry, changed_slice, changed_slice_and_carry, changed_elements, changed_closure,
    changed_view_of_closure, changed_carry_by_closure,
]  # fmt: skip


def loop(step, c, xs, reverse=False):
    """The scan written out. Slices are taken one by one: autograd lets nobody change what unbind() returns."""
    rows = [None] * len(xs)
    for k in range(len(xs) - 1, -1, -1) if reverse else range(len(xs)):
        c, rows[k] = step(c, xs[k])
    return c, torch.stack(rows)


REQUIRES_GRAD = list(itertools.product((False, True), repeat=3))


def outcome(function, tensors, requires_grad):
    """Results and inputs after the call, what requires grad, and gradients to the second order."""
    leaves = [t.clone().requires_grad_(g) for t, g in zip(tensors, requires_grad)]
    inputs = [leaf * 1 for leaf in leaves]
    results = [*function(*inputs), *inputs]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    loss = sum((r.sin() * (i + 1)).sum() for i, r in enumerate(results))
    grads = []
    if wanted:
        grads = list(torch.autograd.grad(loss, wanted, create_graph=True, materialize_grads=True))
        squares = sum(g.square().sum() for g in grads)
        if squares.requires_grad:
            grads += torch.autograd.grad(squares, wanted, materialize_grads=True)
    return [r.detach() for r in results], [r.requires_grad for r in results], grads


def check(function, expected_function, tensors, requires_grad, same_requires_grad=True):
    expected = outcome(expected_function, tensors, requires_grad)
    for ours in (function, diptych.aot_function(function)):
        for _ in range(2):
            got = outcome(ours, tensors, requires_grad)
            torch.testing.assert_close(got[0], expected[0])
            torch.testing.assert_close(got[2], expected[2])
            assert got[1] == expected[1] or not same_requires_grad


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("body", BODIES)
def test_scan(body, reverse):
    tensors = [randn(2), randn(3, 2), randn(2)]

    def ours(c, xs, w):
        return diptych.scan(lambda c, x: body(c, x, w), c, xs, reverse=reverse)

    def written_out(c, xs, w):
        return loop(lambda c, x: body(c, x, w), c, xs, reverse)

    for requires_grad in REQUIRES_GRAD:
        check(ours, written_out, tensors, requires_grad)


@pytest.mark.parametrize("body", [changed_carry, changed_slice_and_carry, changed_closure])
def test_scan_that_keeps_few_carries(body):
    tensors = [randn(2), randn(9, 2), randn(2)]
    check(
        lambda c, xs, w: diptych.scan(lambda c, x: body(c, x, w), c, xs, max_saved_carries=2, segment=2),
        lambda c, xs, w: loop(lambda c, x: body(c, x, w), c, xs), tensors, (True, True, True),
    )  # fmt: skip


@pytest.mark.parametrize("body", [changed_carry, changed_and_replaced_carry, changed_slice])
def test_scan_without_steps(body):
    c, xs, w = randn(2), randn(0, 2), randn(2)
    before = c.clone()
    last, ys = diptych.scan(lambda c, x: body(c, x, w), c, xs)
    assert torch.equal(c, before) and torch.equal(last, before) and ys.shape == (0, 2)


def test_map():
    for requires_grad in (False, True):
        check(
            lambda xs: [diptych.map(lambda x: x.mul_(2), xs)],
            lambda xs: [torch.stack([xs[i].mul_(2) for i in range(3)])], [randn(3, 2)], [requires_grad],
        )  # fmt: skip


def multiply(a, b):
    a.mul_(b)
    return a + b


def add(a, b):
    b.add_(1.0)
    return a * b


@pytest.mark.parametrize("closed", [False, True], ids=["arguments", "closures"])
@pytest.mark.parametrize("predicate", [True, False])
def test_cond(predicate, closed):
    """Autograd sees what either branch changes as changed by the chosen one, so more may require grad."""

    def ours(a, b):
        if closed:
            return [diptych.cond(torch.tensor(predicate), lambda: multiply(a, b), lambda: add(a, b))]
        return [diptych.cond(torch.tensor(predicate), multiply, add, a, b)]

    for requires_grad in itertools.product((False, True), repeat=2):
        check(ours, lambda a, b: [(multiply if predicate else add)(a, b)], [randn(2), randn(2)], requires_grad, False)


def test_batch_norm_in_a_branch():
    """The buffers of a module change in the branch that runs it."""
    x = randn(8, 3)
    for training in (True, False):
        norms = [torch.nn.BatchNorm1d(3).double() for _ in range(2)]
        ours = diptych.aot_function(lambda x, p, norm=norms[0]: diptych.cond(p, norm, lambda x: x * 2, x))
        for _ in range(2):
            got = ours(x, torch.tensor(training))
            torch.testing.assert_close(got, norms[1](x) if training else x * 2)
        torch.testing.assert_close(norms[0].state_dict(), norms[1].state_dict())


@pytest.mark.parametrize("requires_grad", [False, True])
def test_while_loop(requires_grad):
    def ours(a):
        zero = torch.zeros((), dtype=torch.int64)
        return [diptych.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1].mul_(1.5)), (zero, a))[1]]

    def written_out(a):
        for _ in range(3):
            a.mul_(1.5)
        return [a.clone()]

    check(ours, written_out, [randn(2)], [requires_grad])


def test_checkpoint():
    for requires_grad in itertools.product((False, True), repeat=2):
        check(
            lambda a, b: [diptych.checkpoint(multiply)(a, b)], lambda a, b: [multiply(a, b)], [randn(2), randn(2)],
            requires_grad,
        )  # fmt: skip


def test_bodies_inside_of_bodies():
    def nested(cond):
        def step(k, x):
            return cond(x.sum() > 0, lambda u, v: u.mul_(2) + v, lambda u, v: u * 1, k, x), k * 1

        return step

    def written_out(c, xs):
        return loop(nested(lambda p, yes, no, *given: yes(*given) if p else no(*given)), c, xs)

    check(lambda c, xs: diptych.scan(nested(diptych.cond), c, xs), written_out, [randn(2), randn(3, 2)], [False, False])


def test_a_replaced_carry_in_every_iteration():
    """init is left as the first step leaves it, which requires no grad."""
    w, h, xs = randn(2, 2).requires_grad_(), torch.zeros(2, dtype=torch.float64), randn(3, 2)

    def step(h, x):
        h.mul_(0.9)
        h = (h + x) @ w
        return h, h * 1

    for _ in range(2):
        diptych.scan(step, h, xs)[1].sum().backward()
        assert not h.requires_grad


class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def test_a_changed_slice_that_is_given_out_under_a_mode():
    with Mode():
        torch.testing.assert_close(diptych.map(lambda x: x.mul_(2), torch.ones(3, 2)), torch.full((3, 2), 2.0))


def test_what_is_read_by_a_backward_is_what_it_was():
    """The operator's backward reads its operands from before it changed them."""
    w = randn(2).requires_grad_()
    a = randn(2)
    before = a.clone()
    result = diptych.cond(torch.tensor(True), lambda a: a.mul_(w) * w, lambda a: a * w, a)
    (grad,) = torch.autograd.grad(result.sum(), w)
    torch.testing.assert_close(grad, 2 * before * w.detach())


@pytest.mark.parametrize("body", [changed_carry, changed_slice, changed_slice_and_carry])
def test_inside_of_transforms(body):
    w, tensors = randn(2), [randn(4, 2), randn(4, 3, 2)]

    def ours(c, xs):
        c, xs = c.clone(), xs.clone()
        return (*diptych.scan(lambda c, x: body(c, x, w), c, xs), c, xs)

    def written_out(c, xs):
        c, xs = c.clone(), xs.clone()
        return (*loop(lambda c, x: body(c, x, w), c, xs), c, xs)

    torch.testing.assert_close(torch.func.vmap(ours)(*tensors), torch.func.vmap(written_out)(*tensors))
    one = tuple(t[0] for t in tensors)
    tangents = tuple(randn(*t.shape) for t in one)
    torch.testing.assert_close(torch.func.jvp(ours, one, tangents), torch.func.jvp(written_out, one, tangents))
    torch.testing.assert_close(torch.func.jacrev(ours)(*one), torch.func.jacrev(written_out)(*one))


@pytest.mark.parametrize("wrap", [lambda f: f, torch.func.vmap], ids=["plain", "vmap"])
def test_a_carry_that_is_given_out_and_changed_later_is_refused(wrap):
    def body(c, x):
        c.add_(x)
        return c, c

    with pytest.raises(diptych.UserError, match="return clone\\(\\) of one of them"):
        wrap(lambda c, xs: diptych.scan(body, c.clone(), xs))(randn(3, 2), randn(3, 3, 2).transpose(0, 1).contiguous())
