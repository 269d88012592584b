"""Compiled functions inside of transforms that change their arguments, and return them and views of them: values, gradients,
memory and errors are eager's, and it is a graph that runs."""
import diptych
import pytest
import torch
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from loops import T, W, X, close


HELD = torch.linspace(0.5, 1.5, 12, dtype=torch.float64).reshape(3, 4)


def changes(x):
    y = x.sin()
    x.mul_(2).add_(y.sum())
    return (x * y).sum()


def changes_and_returns(x):
    x.add_(1)
    return x, x.sin()


def changes_a_view(x):
    x[0].mul_(3)
    x.t()[1].add_(x[0, 0])
    return x.cos() * 2


def returns_a_view(x):
    return x[0], x.t(), x.sin()


def returns_itself(x):
    return x


def returns_views_of_a_result(x):
    y = x.exp()
    return y[0], y, y.t()


def returns_views_of_an_intermediate(x):
    y = x.exp()
    return y[0], y[1:]


def returns_one_twice(x):
    y = x.exp()
    return y, y, x


def view_of_what_is_changed(x):
    row = x[1]
    x.exp_()
    return row, x.reshape(-1)


def changes_without_grad(x):
    with torch.no_grad():
        x.mul_(2)
    return x * 3


FUNCTIONS = [
    changes, changes_and_returns, changes_a_view, returns_a_view, returns_itself, returns_views_of_a_result, returns_views_of_an_intermediate,
    returns_one_twice, view_of_what_is_changed, changes_without_grad,
]
each_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)


def number(results):
    results = results if isinstance(results, tuple) else (results,)
    return sum((result * (place + 1)).sin().sum() for place, result in enumerate(results))


def on_a_copy(f):
    """Calls f on a copy, and takes what it does to the copy among the results."""

    def call(x):
        copy = x.clone()
        results = f(copy)
        results = results if isinstance(results, tuple) else (results,)
        return (*results, copy)

    return call


TRANSFORMS = {
    "vmap": lambda f: lambda x: vmap(on_a_copy(f))(torch.stack([x, x * 2])),
    "vmap without a copy": lambda f: lambda x: (b := torch.stack([x, x * 2]), vmap(f)(b), b)[1:],
    "vmap along another dimension": lambda f: lambda x: vmap(on_a_copy(f), 1)(torch.stack([x, x * 2], 1)),
    "vmap of vmap": lambda f: lambda x: vmap(vmap(on_a_copy(f)))(torch.stack([torch.stack([x, x * 2])] * 2)),
    "grad": lambda f: grad(lambda x: number(on_a_copy(f)(x))),
    "grad of grad": lambda f: grad(lambda x: grad(lambda x: number(on_a_copy(f)(x)))(x).sin().sum()),
    "vjp": lambda f: lambda x: vjp(lambda x: number(on_a_copy(f)(x)), x)[1](torch.tensor(2.0, dtype=x.dtype)),
    "jvp": lambda f: lambda x: jvp(on_a_copy(f), (x,), (T,)),
    "jvp without a copy": lambda f: lambda x: (t := T.clone(), jvp(f, (x,), (t,)), x, t)[1:],
    "jacfwd": lambda f: jacfwd(on_a_copy(f)),
    "jacrev": lambda f: jacrev(on_a_copy(f)),
    "jacrev of jacfwd": lambda f: jacrev(lambda x: jacfwd(on_a_copy(f))(x)),
    "hessian": lambda f: hessian(lambda x: number(on_a_copy(f)(x))),
    "vmap of grad": lambda f: lambda x: vmap(grad(lambda x: number(on_a_copy(f)(x))))(torch.stack([x, x * 2])),
    "grad of vmap": lambda f: grad(lambda x: sum(number(r) for r in vmap(on_a_copy(f))(torch.stack([x, x * 2])))),
}


def outcome(call, *args):
    try:
        return call(*args)
    except RuntimeError as error:
        return type(error)


def same(ours, theirs):
    if isinstance(theirs, type):
        assert ours is theirs
    else:
        close(ours, theirs)


# An element with gaps is left to the function itself, since reshape() of it is a copy; and so is a derivative through what
# autograd does not see, or of what has been changed since.
def runs_a_graph(function, transform):
    if transform == "vmap along another dimension":
        return False
    return function not in (changes, changes_without_grad) or transform in ("vmap", "vmap without a copy", "vmap of vmap")


@each_function
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_effects(function, transform):
    compiled = diptych.aot_function(function)
    ours, theirs = TRANSFORMS[transform](compiled), TRANSFORMS[transform](function)
    for x in (X, X + 1):
        wanted = outcome(theirs, x.clone())
        same(outcome(ours, x.clone()), wanted)
    stats = compiled.stats()
    if not isinstance(wanted, type) and runs_a_graph(function, transform):
        assert stats.originals == 0 and stats.hits > 0, stats.last_original


@each_function
def test_gradients_around_a_vmap(function):
    compiled = diptych.aot_function(function)

    def look(f):
        x = X.clone().requires_grad_()
        y = sum(number(r) for r in vmap(on_a_copy(f))(torch.stack([x, x * 2])))
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        return y, first, torch.autograd.grad(first.sin().sum(), x)[0]

    for _ in range(2):
        same(outcome(look, compiled), outcome(look, function))


def test_results_share_memory_as_in_eager():
    def at(f):
        batch = torch.stack([X, X * 2])
        view, transposed, sine = vmap(f)(batch)
        batch.zero_()
        return view, transposed, sine

    compiled = diptych.aot_function(returns_a_view)
    close(at(compiled), at(returns_a_view))
    close(at(compiled), at(returns_a_view))

    def inside(f):
        def call(x):
            x = x.clone()
            view, itself = f(x)
            assert itself is x
            view.mul_(3)
            return x * 2

        return vmap(call)(torch.stack([X, X * 2])), grad(lambda x: call(x).sin().sum())(X), jvp(call, (X,), (T,))

    f = lambda x: (x[1:], x)  # noqa: E731
    compiled = diptych.aot_function(f)
    for _ in range(2):
        close(inside(compiled), inside(f))
    assert compiled.stats().originals == 0


def test_one_tensor_may_be_several_arguments():
    def f(x, y):
        x.add_(1)
        return y * 2

    compiled = diptych.aot_function(f)

    def look(f):
        x, y = torch.stack([X, X * 2]), torch.stack([X, X * 3])
        once = vmap(f)(x, y)
        twice = vmap(lambda x: f(x, x))(x)
        parts = vmap(lambda x: f(x[0], x))(y)
        return once, twice, parts, x, y

    for _ in range(2):
        close(look(compiled), look(f))


def test_what_a_level_does_not_wrap():
    """An unbatched argument that gets a batch, and a captured one under grad, are torch's errors."""
    f = lambda x, y: (x.add_(y), y * 2)[1]  # noqa: E731
    compiled = diptych.aot_function(f)
    batch = torch.stack([X, X * 2])
    calls = [
        lambda f, x: vmap(lambda y: f(x, y))(batch),
        lambda f, x: grad(lambda y: f(x, y).sum())(X),
        lambda f, x: jvp(lambda y: f(x, y), (X,), (T,)),
        lambda f, x: vmap(lambda y: f(x, X) + y)(batch),
        lambda f, x: vmap(lambda y: f(y, x))(batch.clone()),
    ]
    for call in calls:
        for _ in range(2):
            ours, theirs = X.clone(), X.clone()
            same(outcome(call, compiled, ours), outcome(call, f, theirs))
            close(ours, theirs)


def test_what_is_written_before_an_error_is_written_once():
    def f(x, w, y):
        x.add_(1)
        w.add_(y)
        return y * 2

    compiled = diptych.aot_function(f)

    def look(f):
        x, w = torch.stack([X, X]), X.clone()
        with pytest.raises(RuntimeError):
            vmap(lambda x, y: f(x, w, y))(x, torch.stack([X, X * 2]))
        return x, w

    for _ in range(2):
        close(look(compiled), look(f))


def test_buffers_of_a_module():
    """Each model of an ensemble has statistics of its own."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).double()
    call = lambda parameters, buffers, x: functional_call(model, (parameters, buffers), (x,))  # noqa: E731
    compiled = diptych.aot_function(call)
    parameters = {name: torch.stack([p.detach(), p.detach() * 2]) for name, p in model.named_parameters()}

    def look(f):
        buffers = {name: torch.stack([b, b]) for name, b in model.named_buffers()}
        results = [vmap(f, (0, 0, None))(parameters, buffers, X) for _ in range(2)]
        gradients = vmap(grad(lambda p, b, x: f(p, b, x).sin().sum()), (0, 0, None))(parameters, {n: b.clone() for n, b in buffers.items()}, X)
        return results, gradients, buffers

    got, wanted = outcome(look, compiled), outcome(look, call)
    same(got, wanted)
    same(outcome(look, compiled), wanted)


def test_a_dual_level_alone():
    import torch.autograd.forward_ad as forward_ad

    for function in FUNCTIONS:
        compiled = diptych.aot_function(function)

        def look(f):
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(X.clone(), T.clone())
                results = f(dual)
                results = results if isinstance(results, tuple) else (results,)
                return [tuple(forward_ad.unpack_dual(r)) for r in (*results, dual)]

        for _ in range(2):
            close(look(compiled), look(function))
        assert compiled.stats().originals == 0 or function in (changes, changes_without_grad)


def test_vjp_inside_of_a_compiled_function():
    inner = lambda x: (x * W).sin().cumsum(0)  # noqa: E731
    for over in (inner, diptych.aot_function(inner), diptych.checkpoint(inner)):

        def f(x, over=over):
            y, pull = vjp(over, x)
            return pull(y.cos())[0] * 2 + y

        plain = lambda x: f(x, inner)  # noqa: E731
        compiled = diptych.aot_function(f)

        def look(f):
            x = X.clone().requires_grad_()
            y = f(x)
            (first,) = torch.autograd.grad(y.sin().sum(), x, create_graph=True)
            return y, first, torch.autograd.grad(first.sin().sum(), x)[0]

        for _ in range(2):
            close(look(compiled), look(plain))
        assert compiled.stats().originals == 0
        close(vmap(compiled)(torch.stack([X, X * 2])), vmap(plain)(torch.stack([X, X * 2])))


@pytest.mark.parametrize("f", [lambda x, y: x * HELD * y, lambda x, y: (x.add_(1), HELD * y)[1], lambda x, y: (HELD.mul_(2), x * y)[1]], ids=["reads", "changes", "changes what it captures"])
def test_an_argument_that_is_captured_as_well(f):
    before, batch = HELD.clone(), torch.stack([X, W, T])

    def run(f):
        HELD.copy_(before)
        seen = []
        for x in (X * 3, HELD, X * 4, HELD, X * 5):
            seen += [vmap(lambda y, x=x: f(x, y))(batch), x.clone(), HELD.clone()]
        return seen

    close(run(diptych.aot_function(f)), run(f))
    close(run(diptych.aot_function(lambda x, y: f(y, x))), run(lambda x, y: f(y, x)))


def test_a_result_that_is_another_one_detached_has_its_memory():
    def outer(f, x):
        y, detached = f(x)
        detached.mul_(2)
        return y

    f = lambda x: (lambda y: (y, y.detach()))(x * 2)  # noqa: E731
    compiled = diptych.aot_function(f)
    for x in (torch.stack([X, W]), torch.stack([T, X])):
        close(vmap(lambda x: outer(compiled, x))(x), vmap(lambda x: outer(f, x))(x))


def test_generators_after_a_write_that_is_an_error():
    f = lambda x, y: (x.add_(y), y * torch.rand(3, 4))[1]  # noqa: E731
    compiled, states = diptych.aot_function(f), []
    for call in (f, compiled, compiled):
        torch.manual_seed(3)
        with pytest.raises(RuntimeError):
            vmap(lambda y, call=call: call(X.clone(), y), randomness="same")(torch.stack([X, W]))
        states.append(torch.get_rng_state())
    assert torch.equal(states[0], states[1]) and torch.equal(states[0], states[2])


def test_what_a_call_returns_may_change_later():
    compiled = diptych.aot_function(lambda x: (x * 2, x))

    def outer(f, x):
        z = x * 1
        y, _ = f(z)
        z.add_(1)
        return y.sum() + (z * x).sum()

    close(grad(lambda x: outer(compiled, x))(X), grad(lambda x: outer(lambda x: (x * 2, x), x))(X))
