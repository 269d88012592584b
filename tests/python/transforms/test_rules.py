"""Higher-order operators and compiled functions inside of vmap, grad, jvp and their compositions: each has a rule, and no call
runs the function in a loop. The oracle is the same program written out in plain torch, element by element."""
import functools
import itertools
import random

import diptych
import pytest
import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from loops import close, plain_loop, plain_while
from rotation import rotating

torch.manual_seed(0)
BATCH, STEPS, WIDTH = 3, 4, 2


def draw(*sizes):
    return torch.rand(*sizes, dtype=torch.float64) + 0.25


class Eager:
    """The operators in plain torch, by Python's control flow; they see plain tensors."""

    @staticmethod
    def scan(f, init, xs, reverse=False, **kept):
        carry, ys = plain_loop(f, init, xs.flip(0) if reverse else xs)
        return carry, ys.flip(0) if reverse else ys

    @staticmethod
    def cond(predicate, yes, no, *args):
        return (yes if predicate else no)(*args)

    @staticmethod
    def while_loop(test, step, init, **kept):
        return plain_while(test, step, init)

    @staticmethod
    def map(f, xs):
        return torch.stack([f(x) for x in xs])

    @staticmethod
    def checkpoint(f):
        return f

    @staticmethod
    def custom_vjp(f, fwd, bwd):
        return f

    @staticmethod
    def associative_scan(f, xs):
        found = [xs[0]]
        for x in xs[1:]:
            found.append(f(found[-1], x))
        return torch.stack(found)


def smooth(ops, x, w):
    carry, ys = ops.scan(lambda c, x: ((c * x).tanh() + w, c.sin() * x), x[0], x)
    return carry.sum() + (ys * w).sin().sum()


def reversed_scan(ops, x, w):
    carry, ys = ops.scan(lambda c, x: (c * 0.5 + x * w, c), w, x, reverse=True)
    return (carry * ys.sum(0)).sum()


def checkpointed_scan(ops, x, w):
    carry, ys = ops.scan(lambda c, x: ((c * x).sin() + w, c * c), w, x, max_saved_carries=2, segment=1)
    return carry.sum() * ys.sum()


def carry_that_becomes_a_batch(ops, x, w):
    carry, ys = ops.scan(lambda c, x: (c + x.sum(), c * 2), torch.zeros((), dtype=torch.float64), x)
    return carry * (ys * w.sum()).sin().sum()


def branch(ops, x, w):
    return ops.cond((x.sum() + w.sum()) > STEPS * WIDTH * 0.75 + 1.5, lambda x: (x * w).sin().sum(), lambda x: (x.cos() * w).sum(), x)


def branch_with_a_domain(ops, x, w):
    shift = x.sum() - STEPS * WIDTH * 0.75
    return ops.cond(shift > 0, lambda s: s.sqrt() * w.sum(), lambda s: (-s).sqrt() * (w * w).sum(), shift) + shift


def branch_that_nobody_takes(ops, x, w):
    return ops.cond(x.sum() < 0, lambda x: (x.sum() - 100).sqrt() * w.log().sum(), lambda x: x.sum() * w.sum(), x)


def plain_predicate(ops, x, w):
    return ops.cond(torch.tensor(True), lambda x: (x * w).sin().sum(), lambda x: x.sum(), x)


def loop(ops, x, w):
    return ops.while_loop(lambda c: c.sum() < 40, lambda c: c * 1.5 + w, x).sin().sum()


def loop_with_a_domain(ops, x, w):
    return ops.while_loop(lambda c: c > 1, lambda c: (c - 1).sqrt() * w.sum().sigmoid(), x.sum() * 2)


def loop_of_equal_length(ops, x, w):
    count, last = ops.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, (c[1] * w).sin()), (torch.tensor(0), x))
    return last.sum() * count


def mapped(ops, x, w):
    return ops.map(lambda row: (row.sin() * w).sum() * row.sum(), x).sum()


def prefixes(ops, x, w):
    return (ops.associative_scan(lambda a, b: a * b, x) * w).sin().sum()


def checkpointed(ops, x, w):
    return ops.checkpoint(lambda x: (x.sin() * w).exp().sum())(x)


def ruled(ops, x, w):
    rule = ops.custom_vjp(
        lambda x, w: (x.sin() * w).sum(), lambda x, w: ((x.sin() * w).sum(), (x, w)), lambda kept, t: (t * kept[0].cos() * kept[1], (t * kept[0].sin()).sum(0))
    )
    return rule(x, w)


def nested(ops, x, w):
    def step(c, x):
        y = ops.cond(x.sum() > 1.5, lambda c: c * x, lambda c: c + w, c)
        return ops.while_loop(lambda c: c.sum() < 3, lambda c: c * 1.5, y), y

    return ops.scan(step, x[0], x)[0].sum()


PROGRAMS = [
    smooth, reversed_scan, checkpointed_scan, carry_that_becomes_a_batch, branch, branch_with_a_domain, branch_that_nobody_takes, plain_predicate,
    loop, loop_with_a_domain, loop_of_equal_length, mapped, prefixes, checkpointed, ruled, nested,
]
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
each_form = pytest.mark.parametrize("compiled", [False, True], ids=["operator", "compiled"])


def ours_of(program, compiled):
    f = functools.partial(program, diptych)
    return diptych.aot_function(lambda x, w: f(x, w)) if compiled else f


class no_loops:
    """Nothing inside has run a function itself because no rule was there."""

    def __enter__(self):
        self.before = diptych.eager_calls()

    def __exit__(self, kind, value, trace):
        if kind is None:
            assert diptych.eager_calls() == self.before


def each(function, *args, dims):
    """vmap by a loop."""
    size = next(a.shape[0] for a, d in zip(args, dims) if d is not None)
    rows = [function(*[a if d is None else a.select(d, i) for a, d in zip(args, dims)]) for i in range(size)]
    if isinstance(rows[0], tuple):
        return tuple(torch.stack(column) for column in zip(*rows))
    return torch.stack(rows)


X, W = draw(BATCH, STEPS, WIDTH), draw(BATCH, WIDTH)
DIMS = [(0, 0), (0, None), (None, 0)]


@each_program
@each_form
@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_vmap(program, compiled, dims):
    ours, theirs = ours_of(program, compiled), functools.partial(program, Eager)
    x, w = X if dims[0] == 0 else X[0], W if dims[1] == 0 else W[0]
    for derive in (lambda f: f, lambda f: grad(f, argnums=(0, 1))):
        wanted = each(derive(theirs), x, w, dims=dims)
        with no_loops():
            for _ in range(2):
                close(vmap(derive(ours), dims)(x, w), wanted)
    if compiled:
        assert ours.stats().originals == 0 and ours.stats().hits > 0


@each_program
@each_form
def test_gradients_of_a_batch(program, compiled):
    """Autograd around the vmap: what is the same for all elements gets the sum of their gradients."""
    ours, theirs = ours_of(program, compiled), functools.partial(program, Eager)
    for dims in DIMS:
        x, w = X if dims[0] == 0 else X[0], W if dims[1] == 0 else W[0]

        def look(f):
            leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
            y = f(*leaves)
            gradients = torch.autograd.grad(y.sin().sum(), leaves, create_graph=True, allow_unused=True)
            second = torch.autograd.grad(sum(g.pow(2).sum() for g in gradients if g is not None), leaves, allow_unused=True)
            return [y, *gradients, *(torch.zeros_like(leaf) if g is None else g for g, leaf in zip(second, leaves))]

        wanted = look(lambda x, w: each(theirs, x, w, dims=dims))
        with no_loops():
            got = look(vmap(ours, dims))
        close(got, wanted)


@each_program
@each_form
def test_forward_mode(program, compiled):
    ours, theirs = ours_of(program, compiled), functools.partial(program, Eager)
    x, w = X[0], W[0]
    directions = (draw(STEPS, WIDTH), draw(WIDTH))
    with no_loops():
        close(jvp(ours, (x, w), directions), jvp(theirs, (x, w), directions))
        close(jvp(lambda x: ours(x, w), (x,), directions[:1]), jvp(lambda x: theirs(x, w), (x,), directions[:1]))
        close(jvp(grad(ours), (x, w), directions), jvp(grad(theirs), (x, w), directions))
        close(grad(lambda x, w: jvp(ours, (x, w), directions)[1])(x, w), grad(lambda x, w: jvp(theirs, (x, w), directions)[1])(x, w))
        close(vmap(lambda x, w: jvp(ours, (x, w), directions))(X, W)[1], each(lambda x, w: jvp(theirs, (x, w), directions)[1], X, W, dims=(0, 0)))


@each_program
@each_form
def test_matrices_of_derivatives(program, compiled):
    ours, theirs = ours_of(program, compiled), functools.partial(program, Eager)
    x, w = X[0], W[0]
    close(jacrev(ours)(x, w), jacrev(theirs)(x, w))
    close(vmap(jacrev(ours))(X, W), each(jacrev(theirs), X, W, dims=(0, 0)))
    close(jacfwd(ours)(x, w), jacfwd(theirs)(x, w))
    close(jacfwd(jacfwd(ours))(x, w), jacfwd(jacfwd(theirs))(x, w))
    wanted = hessian(theirs, argnums=(0, 1))(x, w)
    close(hessian(ours, argnums=(0, 1))(x, w), wanted)
    close(jacrev(jacrev(ours))(x, w), wanted[0][0])


@each_program
def test_a_transform_inside_a_capture_is_one_graph(program):
    ours, theirs = functools.partial(program, diptych), functools.partial(program, Eager)
    compiled = diptych.aot_function(lambda x, w: vmap(grad(ours))(x, w))
    with no_loops():
        for _ in range(2):
            close(compiled(X, W), each(grad(theirs), X, W, dims=(0, 0)))
    assert (compiled.stats().misses, compiled.stats().hits, compiled.stats().originals) == (1, 1, 0)


@each_program
def test_batches_of_batches(program):
    ours, theirs = functools.partial(program, diptych), functools.partial(program, Eager)
    wanted = torch.stack([torch.stack([theirs(x, w) for w in W]) for x in X])
    with no_loops():
        close(vmap(vmap(ours, (None, 0)), (0, None))(X, W), wanted)
        close(vmap(vmap(ours, (None, 0)), (0, None), out_dims=1)(X, W), wanted.t())
        gradients = torch.stack([torch.stack([grad(theirs)(x, w) for w in W]) for x in X])
        close(vmap(vmap(grad(ours), (None, 0)), (0, None))(X, W), gradients)


def test_batches_along_other_dimensions():
    moved = X.movedim(0, 2)
    for program in (smooth, branch, loop):
        wanted = each(functools.partial(program, Eager), X, W, dims=(0, 0))
        close(vmap(functools.partial(program, diptych), (2, 1))(moved, W.t()), wanted)
        close(vmap(functools.partial(program, diptych), (-1, -1))(moved, W.t()), wanted)


def test_batches_of_one_element_and_of_none():
    for program in PROGRAMS:
        close(vmap(functools.partial(program, diptych))(X[:1], W[:1]), program(Eager, X[0], W[0])[None])
    for program in (smooth, mapped, prefixes, checkpointed):  # of the others, torch's own rules fail as well
        assert vmap(functools.partial(program, diptych))(X[:0], W[:0]).shape == (0,)


@each_form
def test_draws_are_the_same_or_different_as_torch_says(compiled):
    def f(ops, x):
        return ops.scan(lambda c, x: (c + torch.rand_like(x), x), x[0], x)[0]

    ours = functools.partial(f, diptych)
    ours = diptych.aot_function(lambda x: f(diptych, x)) if compiled else ours
    for randomness in ("same", "different"):
        torch.manual_seed(3)
        wanted = vmap(functools.partial(f, Eager), randomness=randomness)(X)
        after = torch.rand(1)
        torch.manual_seed(3)
        close(vmap(ours, randomness=randomness)(X), wanted)
        assert torch.equal(torch.rand(1), after)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(ours)(X)


def test_a_tensor_that_a_body_captures_may_be_wrapped():
    """A closure over a tensor of an outer transform, of each kind."""

    def f(ops, x, w):
        return ops.scan(lambda c, x: (c * w + x, c * w.sum()), x[0], x)[0].sum()

    ours, theirs = functools.partial(f, diptych), functools.partial(f, Eager)
    with no_loops():
        close(vmap(lambda w: vmap(lambda x: ours(x, w))(X))(W), vmap(lambda w: vmap(lambda x: theirs(x, w))(X))(W))
        close(grad(lambda w: vmap(lambda x: ours(x, w))(X).sum())(W[0]), grad(lambda w: vmap(lambda x: theirs(x, w))(X).sum())(W[0]))
        close(vmap(lambda x: jvp(lambda w: ours(x, w), (W[0],), (W[1],))[1])(X), vmap(lambda x: jvp(lambda w: theirs(x, w), (W[0],), (W[1],))[1])(X))


def test_a_compiled_function_that_captures_a_wrapped_tensor():
    def outer(compile, x, w):
        return vmap(lambda w: compile(lambda x: (x * w).sin().sum())(x))(w)

    close(outer(diptych.aot_function, X[0], W), outer(lambda f: f, X[0], W))
    close(outer(diptych.aot_function, X[0], W + 1), outer(lambda f: f, X[0], W + 1))
    held = {}
    compiled = diptych.aot_function(lambda x: (x * held["w"]).sin().sum())

    def by_cell(f, w):
        held["w"] = w
        return f(X[0])

    for shift in (0, 1):
        wanted = vmap(functools.partial(by_cell, lambda x: (x * held["w"]).sin().sum()))(W + shift)
        close(vmap(functools.partial(by_cell, compiled))(W + shift), wanted)


def test_forward_mode_of_the_gradient_of_a_loop_that_computes_under_no_grad():
    """no_grad hides a value from gradients and not from tangents."""

    def f(ops, x, w):
        def step(carry):
            with torch.no_grad():
                kept = (carry[1] * w).sin()
            return carry[0] + 1, carry[1] * kept + carry[1].detach() * w

        return ops.while_loop(lambda carry: carry[0] < 3, step, (torch.tensor(0), x))[1].sum()

    ours, theirs = functools.partial(f, diptych), functools.partial(f, Eager)
    with no_loops():
        for transform in (lambda f: hessian(f, (0, 1))(X[0], W[0]), lambda f: jvp(grad(f, (0, 1)), (X[0], W[0]), (X[1], W[1]))):
            close(transform(ours), transform(theirs))
        close(vmap(hessian(ours))(X, W), each(hessian(theirs), X, W, dims=(0, 0)))


def test_vjp_outside_of_its_level():
    for program in PROGRAMS:
        ours, theirs = functools.partial(program, diptych), functools.partial(program, Eager)
        (y, pull), (wanted_y, wanted_pull) = vjp(ours, X[0], W[0]), vjp(theirs, X[0], W[0])
        close(y, wanted_y)
        for _ in range(2):
            close(pull(torch.tensor(2.0, dtype=torch.float64)), wanted_pull(torch.tensor(2.0, dtype=torch.float64)))
        tangents = draw(3)
        close(vmap(pull)(tangents)[0], torch.stack([wanted_pull(t)[0] for t in tangents]))


@pytest.mark.parametrize("program", rotating(PROGRAMS), ids=lambda program: program.__name__)
def test_gradcheck_of_what_vmap_makes(program):
    f = vmap(functools.partial(program, diptych))
    leaves = (X[:2].clone().requires_grad_(), W[:2].clone().requires_grad_())
    # The batches of gradcheck are those of torch's older vmap, which no loop of unknown length runs under.
    has_loop = program in (loop, loop_with_a_domain, loop_of_equal_length, nested)
    batched = not has_loop and program is not ruled
    assert torch.autograd.gradcheck(f, leaves, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=batched)
    if program not in (loop_with_a_domain, branch_with_a_domain):  # whose second derivatives are large
        assert torch.autograd.gradgradcheck(f, leaves, check_fwd_over_rev=True)


TRANSFORMS = {
    "vmap": lambda f: lambda x, w: vmap(f, (0, None))(torch.stack([x, x * 0.5]), w).sum(),
    "vmap of w": lambda f: lambda x, w: vmap(f, (None, 0))(x, torch.stack([w, w * 0.5])).sin().sum(),
    "grad": lambda f: lambda x, w: grad(f)(x, w).sin().sum(),
    "grad of w": lambda f: lambda x, w: grad(f, argnums=1)(x, w).sin().sum(),
    "jvp": lambda f: lambda x, w: jvp(f, (x, w), (torch.ones_like(x), w))[1],
    "vjp": lambda f: lambda x, w: vjp(f, x, w)[1](w.sum())[0].sin().sum(),
}


def loops_of(name, f):
    """The same transform of a function in plain torch, whose control flow must see plain tensors."""
    if name == "vmap":
        return lambda x, w: sum(f(x * s, w) for s in (1, 0.5))
    if name == "vmap of w":
        return lambda x, w: sum(f(x, w * s).sin() for s in (1, 0.5))
    return TRANSFORMS[name](f)


@pytest.mark.parametrize("seed", range(40))
def test_random_compositions(seed):
    rng = random.Random(seed)
    program = rng.choice([program for program in PROGRAMS if program is not loop_with_a_domain])
    names = [rng.choice(list(TRANSFORMS)) for _ in range(rng.randint(2, 3))]
    compiled_at = rng.randint(0, len(names))
    ours, theirs = functools.partial(program, diptych), functools.partial(program, Eager)
    for depth, name in enumerate(names):
        if depth == compiled_at:
            ours = diptych.aot_function(functools.partial(lambda f, x, w: f(x, w), ours))
        ours, theirs = TRANSFORMS[name](ours), loops_of(name, theirs)
    if compiled_at == len(names):
        ours = diptych.aot_function(ours)
    for x, w in itertools.islice(zip(X, W), 2):
        torch.testing.assert_close(ours(x, w), theirs(x, w), rtol=1e-9, atol=1e-9)
