"""Higher-order operators by backend="xla" to the second order, in float64, beside the same loops written in Python."""
import functools

import diptych
import pytest
import torch


class Python:
    """The operators as eager code."""

    @staticmethod
    def scan(f, init, xs, *, reverse=False, **_):
        order = range(len(xs) - 1, -1, -1) if reverse else range(len(xs))
        carry, rows = init, {}
        for i in order:
            carry, rows[i] = f(carry, xs[i])
        empty = f(init, torch.ones(xs.shape[1:], dtype=xs.dtype))[1]
        return carry, torch.stack([rows[i] for i in range(len(xs))]) if rows else empty.new_zeros((0, *empty.shape))

    @staticmethod
    def map(f, xs):
        return Python.scan(lambda carry, x: (carry, f(x)), torch.zeros(()), xs)[1]

    @staticmethod
    def associative_scan(f, xs, *, dim=0):
        rows = list(xs.unbind(dim)[:1])
        for x in xs.unbind(dim)[1:]:
            rows.append(f(rows[-1], x))
        return torch.stack(rows, dim) if rows else xs

    @staticmethod
    def while_loop(condition, f, init, **_):
        while condition(init):
            init = f(init)
        return init

    @staticmethod
    def cond(predicate, if_true, if_false, *args):
        return if_true(*args) if predicate else if_false(*args)

    @staticmethod
    def checkpoint(f):
        return f

    @staticmethod
    def custom_vjp(f, fwd, bwd):
        return f


def scanned(d, w, h, xs, **options):
    return d.scan(lambda h, x: (torch.tanh(h @ w + x), h.sin() * w.sum()), h, xs, **options)


def scan_in_scan(d, w, h, xs):
    return d.scan(lambda c, x: (c @ w, d.scan(lambda e, y: (e * y, e.sin()), c[0], x)[1]), h, xs)


def halved(d, w, h, factor, **options):
    return d.while_loop(lambda x: x.square().sum() > 1, lambda x: torch.tanh(x @ w) * 0.5, h * factor, **options)


def checkpointed(d, w, h):
    return d.checkpoint(lambda y: torch.tanh(y @ w).exp())(h), d.checkpoint(lambda y: (y * y).sin())(w)


def cube(d, w, h):
    rule = d.custom_vjp(lambda x: x**3, lambda x: (x**3, x), lambda x, tangent: (3 * x * x * tangent,))
    return rule(h @ w)


def scan_in_while(d, w, h, xs):
    few = lambda x: scanned(d, w, x * 0.3, xs, max_saved_carries=2, segment=1)[0]  # noqa: E731
    return d.while_loop(lambda x: x.square().sum() > 1, lambda x: few(x) * 0.3, h * 9)


CASES = {
    **{f"scan of {n}": (scanned, n) for n in (0, 1, 5)},
    **{f"reverse scan of {n}": (functools.partial(scanned, reverse=True), n) for n in (0, 1, 5)},
    **{f"scan of {n} with {k} carries in segments of {s}{' in reverse' * r}": (functools.partial(scanned, max_saved_carries=k, segment=s, reverse=r), n)
       for n, k, s, r in [(0, 2, 1, False), (1, 1, 1, False), (2, 1, 1, True), (7, 1, 2, False), (7, 2, 3, True), (12, 3, 1, False), (12, 3, 2, True), (25, 3, 2, False)]},
    "scan in a scan": (scan_in_scan, 4),
    **{f"map of {n}": (lambda d, w, h, xs: d.map(lambda x: torch.tanh(x @ w), xs), n) for n in (0, 1, 5)},
    **{f"associative scan of {n}": (lambda d, w, h, xs: d.associative_scan(lambda a, b: a * b, xs, dim=0), n) for n in (1, 2, 5)},
    "while loop": (lambda d, w, h, xs: halved(d, w, h, 9), 1),
    "while loop that keeps carries": (lambda d, w, h, xs: halved(d, w, h, 9, checkpoint_every=2), 1),
    "while loop without steps": (lambda d, w, h, xs: halved(d, w, h, 1e-3), 1),
    "while loop in a scan": (lambda d, w, h, xs: d.scan(lambda c, x: (halved(d, w, c + x, 5), c.sin()), h, xs), 3),
    "scan that keeps few carries in a while loop": (scan_in_while, 4),
    "cond, true": (lambda d, w, h, xs: d.cond(h.sum() > -100, lambda h: torch.sin(h @ w), lambda h: h.cos() * 2, h), 1),
    "cond, false": (lambda d, w, h, xs: d.cond(h.sum() > 100, lambda h: torch.sin(h @ w), lambda h: h.cos() * 2, h), 1),
    "checkpoint": (lambda d, w, h, xs: checkpointed(d, w, h), 1),
    "custom vjp": (lambda d, w, h, xs: cube(d, w, h), 1),
}


def arguments(length):
    torch.manual_seed(4)
    sizes = ((3, 3), (2, 3), (length, 2, 3))
    return [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes]


def gradients(value, tensors, **options):
    if not value.requires_grad:
        return [torch.zeros_like(t) for t in tensors]
    found = torch.autograd.grad(value, tensors, allow_unused=True, **options)
    return [torch.zeros_like(t) if g is None else g for g, t in zip(found, tensors)]


def to_second_order(function, tensors):
    results = function(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    first = gradients(sum((result * result.detach().cos()).sum() + result.square().sum() for result in results), tensors, create_graph=True)
    second = gradients(sum((g * (i + 1)).sum() + g.square().sum() for i, g in enumerate(first)), tensors)
    return [*results, *first, *second]


@pytest.mark.parametrize("name", CASES)
def test_to_the_second_order(name):
    function, length = CASES[name]
    tensors = arguments(length)
    compiled = diptych.aot_function(functools.partial(function, diptych), backend="xla")
    expected = to_second_order(functools.partial(function, Python), tensors)
    for _ in range(2):
        for got, wanted in zip(to_second_order(compiled, tensors), expected, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-10)


def test_checkpointed_scans_are_loops_of_one_module_each():
    """Forward and backward are loops in loops whatever the length, and the module grows with neither the length nor the carries kept."""
    lines = []
    for length, carries in ((12, 2), (100, 3), (100, 9)):
        modules = diptych.capture(functools.partial(scanned, diptych, max_saved_carries=carries, segment=2), *arguments(length)).stablehlo()
        assert (modules.forward.count("stablehlo.while"), modules.backward.count("stablehlo.while")) == (2, 4)
        lines.append((modules.forward.count("\n"), modules.backward.count("\n")))
    assert len(set(lines)) == 1


def test_draws_of_a_scan_that_keeps_few_carries_are_eagers():
    def loss(h, xs):
        step = lambda h, x: (torch.tanh(h + torch.nn.functional.dropout(x, 0.5)), h.sin())  # noqa: E731
        last, rows = diptych.scan(step, h, xs, max_saved_carries=2, segment=2)
        return last.sum() + rows.square().sum()

    _, h, xs = arguments(7)
    outcomes = []
    for backend in ("interpreter", "xla"):
        torch.manual_seed(9)
        outcomes.append(gradients(diptych.aot_function(loss, backend=backend)(h, xs), (h, xs)))
    for got, wanted in zip(*outcomes, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-10)


def counted(d, w, h, steps):
    """A loop whose length is a tensor: of its carries one is counted, one is constant, and one forgets what it was."""
    carry = (steps.new_zeros(()), h, h.sin(), w)
    step = lambda i, x, y, z: (i + 1, torch.tanh(x @ w) + y * 0.1, torch.ones_like(y), z)  # noqa: E731
    if d is Python:
        while carry[0] < steps:
            carry = step(*carry)
    else:
        carry = d.while_loop(lambda carry: carry[0] < steps, lambda carry: step(*carry), carry)
    return carry[1:]


@pytest.mark.parametrize("steps", [0, 1, 2, 63, 64, 65, 130, 4100])
def test_gradients_of_loops_whose_length_is_a_tensor(steps):
    w, h, _ = arguments(1)
    length = torch.tensor(steps)

    def loss(d, w, h, length):
        return sum((result * (i + 1)).sin().sum() for i, result in enumerate(counted(d, w, h, length)))

    compiled = diptych.aot_function(functools.partial(loss, diptych), backend="xla")
    expected = gradients(loss(Python, w, h, length), (w, h))
    for got, wanted in zip(gradients(compiled(w, h, length), (w, h)), expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-10)


def test_the_gradient_of_a_loop_of_unknown_length_is_in_the_module():
    modules = diptych.capture(lambda w, h: halved(diptych, w, h, 9), *arguments(1)[:2]).stablehlo()
    assert modules.forward.count("stablehlo.while") == 1 and modules.backward.count("stablehlo.while") > 4
