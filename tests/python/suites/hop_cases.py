"""What PyTorch's database of higher-order operators leaves out: cases in the words of torch's operators, and each as a loop.

A case is (inputs, with torch's operator, as a loop). First gradients are compared with torch's operator where it gives them, values, first and second
gradients with the loop.
"""
from functools import partial

import judge
import torch


def leaf(*sizes):
    return torch.rand(*sizes, dtype=torch.float64).add_(0.3).requires_grad_()


def loop_scan(combine, carry, xs, reverse=False):
    ys = []
    for index in reversed(range(len(xs))) if reverse else range(len(xs)):
        carry, y = combine(carry, xs[index])
        ys.append(y)
    return [carry, torch.stack(ys[::-1] if reverse else ys)]


def loop_prefixes(combine, xs, reverse=False):
    prefixes = []
    for x in reversed(xs) if reverse else xs:
        prefixes.append(x if not prefixes else combine(prefixes[-1], x))
    return torch.stack(prefixes[::-1] if reverse else prefixes)


def loop_while(condition, body, carry):
    while condition(*carry):
        carry = body(*carry)
    return list(carry)


CASES = {}


def case(*inputs):
    """Registers a function that returns (with torch's operator, as a loop)."""

    def register(function):
        CASES[function.__name__] = (inputs, *function())
        return function

    return register


@case((3,), (4, 3))
def scan_reverse():
    def step(c, x):
        return c * x.cos(), c + x

    return lambda init, xs: torch._higher_order_ops.scan(step, init, xs, reverse=True), lambda init, xs: loop_scan(step, init, xs, True)


@case((3,), (3, 4))
def scan_along_the_last_dimension():
    def step(c, x):
        return c * x.sin(), c * x

    def loop(init, xs):
        carry, ys = loop_scan(step, init, xs.unbind(1))
        return [carry, ys.movedim(0, 1)]

    return lambda init, xs: torch._higher_order_ops.scan(step, init, xs, dim=1), loop


@case((2, 3), (4, 2, 3), (3, 3))
def scan_with_a_free_variable():
    def step(w, c, x):
        c = torch.tanh(c @ w + x)
        return c, c * 2

    def torchs(init, xs, w):
        return torch._higher_order_ops.scan(partial(step, w), init, xs)

    return torchs, lambda init, xs, w: loop_scan(partial(step, w), init, xs)


@case((3,), (5, 3))
def scan_whose_carry_is_also_its_y():
    def step(c, x):
        c = c * x
        return c, c.clone()

    return lambda init, xs: torch._higher_order_ops.scan(step, init, xs), lambda init, xs: loop_scan(step, init, xs)


@case((5, 3))
def scan_from_a_carry_that_needs_no_gradient():
    def step(c, x):
        return c * x + 1, c * x

    def torchs(xs):
        return torch._higher_order_ops.scan(step, torch.ones(3, dtype=torch.float64), xs)

    return torchs, lambda xs: loop_scan(step, torch.ones(3, dtype=torch.float64), xs)


@case((2, 3), (4, 2, 3))
def scan_in_scan():
    def inner(c, x):
        return c * x.sin(), c + x

    def outer(scan, c, x):
        last, ys = scan(inner, c[0], x)
        return torch.stack([last, c[1]]), ys.sum(0)

    def torchs(init, xs):
        return torch._higher_order_ops.scan(partial(outer, torch._higher_order_ops.scan), init, xs)

    return torchs, lambda init, xs: loop_scan(partial(outer, loop_scan), init, xs)


@case((6, 2))
def associative_products():
    def torchs(xs):
        return torch._higher_order_ops.associative_scan(lambda a, b: a * b, xs, dim=0, combine_mode="generic")

    return torchs, lambda xs: loop_prefixes(lambda a, b: a * b, xs)


@case((5, 2))
def associative_sums_in_reverse():
    def torchs(xs):
        return torch._higher_order_ops.associative_scan(lambda a, b: a + b, xs, dim=0, reverse=True, combine_mode="generic")

    return torchs, lambda xs: loop_prefixes(lambda a, b: a + b, xs, True)


@case((7, 2, 2))
def associative_matrix_products():
    def torchs(xs):
        return torch._higher_order_ops.associative_scan(lambda a, b: a @ b, xs, dim=0, combine_mode="generic")

    return torchs, lambda xs: loop_prefixes(lambda a, b: a @ b, xs)


@case((3,))
def while_that_doubles():
    def holds(steps, x):
        return steps < 4

    def body(steps, x):
        return steps + 1, x * x.cos()

    def torchs(x):
        return torch._higher_order_ops.while_loop(holds, body, (torch.tensor(0), x))

    return torchs, lambda x: loop_while(holds, body, (torch.tensor(0), x))


@case((3,))
def while_that_never_runs():
    def holds(steps, x):
        return steps < 0

    def body(steps, x):
        return steps + 1, x * 2

    def torchs(x):
        return torch._higher_order_ops.while_loop(holds, body, (torch.tensor(0), x))

    return torchs, lambda x: loop_while(holds, body, (torch.tensor(0), x.clone()))


TORCH_IS_WRONG = {"while_that_never_runs"}  # torch's gradient is that of one trip


@case((3,), (3,))
def cond_with_free_variables():
    def torchs(x, y):
        return torch.cond(x.sum() > 0, lambda x: x * y.sin(), lambda x: x + y, (x,))

    return torchs, lambda x, y: x * y.sin() if x.sum() > 0 else x + y


@case((3,), (3,))
def cond_whose_other_branch_ignores_an_operand():
    def torchs(x, y):
        return torch.cond(x.sum() < 0, lambda x, y: x * y, lambda x, y: x.sin(), (x, y))

    return torchs, lambda x, y: x * y if x.sum() < 0 else x.sin()


@case((2, 3))
def cond_in_cond():
    def choose(cond, x):
        def inner(x):
            return cond(x.prod() > 0.5, lambda x: x.sin(), lambda x: x.cos(), (x,))

        return cond(x.sum() > 0, inner, lambda x: x * 2, (x,))

    def host(predicate, yes, no, operands):
        return yes(*operands) if predicate else no(*operands)

    return lambda x: choose(torch.cond, x), lambda x: choose(host, x)


@case((4, 3), (3,))
def cond_in_map():
    def torchs(xs, y):
        from torch.testing._internal import hop_db

        return hop_db.map(lambda x, y: torch.cond(x.sum() > 2, lambda x, y: x * y, lambda x, y: x + y, (x, y)), xs, y)

    return torchs, lambda xs, y: torch.stack([x * y if x.sum() > 2 else x + y for x in xs])


def case_entries(ours, plain, compilers):
    """The entries of the cases, for suite.main."""

    def entry(name, inputs, torchs, loop):
        def torchs_plain(*args):
            return plain(torchs(*args))

        def look(call, order):
            judge.seed(5)
            arguments = [leaf(*sizes) for sizes in inputs]
            return judge.observe(call, arguments, arguments, {}, order, aliases=False, none_is_zero=True)

        for how, compiler in compilers.items():
            call = ours(torchs_plain, compiler)
            if name not in TORCH_IS_WRONG:
                yield f"torch's {how}", lambda: judge.judge_to_order(partial(look, torchs_plain), partial(look, call), 1)
            yield f"loop {how}", lambda: judge.judge(lambda: look(lambda *args: plain(loop(*args)), 2), lambda: look(call, 2))

    return [(name, partial(entry, name, *parts)) for name, parts in CASES.items()]
