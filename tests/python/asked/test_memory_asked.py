"""Functions that read the memory of a tensor on the host: tolist(), numpy(), and what is made of these."""
import threading

import diptych
import numpy
import pytest
import torch


def leaf(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(0), dtype=torch.double).requires_grad_()


X, KEPT = leaf(4, 3), torch.tensor([1.0, 2.0], dtype=torch.double)
POSITIVE = lambda x: (x.detach() > 0).long()  # noqa: E731
FUNCTIONS = {
    "tolist": lambda x: sum(x[i] * n for i, n in enumerate(POSITIVE(x).sum(1).tolist())),
    "tolist of a number": lambda x: x * POSITIVE(x).sum().tolist(),
    "nested list": lambda x: x * len([n for row in POSITIVE(x).tolist() for n in row if n]),
    "empty list": lambda x: x * (len(x[:0].detach().tolist()) + 2),
    "loop": lambda x: torch.stack([x[i] for n, i in zip(POSITIVE(x)[:, 0].tolist(), range(4)) if n] + [x[0]]),
    "numpy": lambda x: x * int(POSITIVE(x).numpy().sum()),
    "forced numpy": lambda x: x * int((x.numpy(force=True) > 0).sum()),
    "asarray": lambda x: x * float(numpy.asarray(POSITIVE(x)).mean()),
    "array of another type": lambda x: x * float(numpy.asarray(POSITIVE(x), dtype=numpy.float32)[0].sum()),
    "array of a list": lambda x: x * float(numpy.array([POSITIVE(x)[0, 0], 1]).sum()),
    "functions of numpy": lambda x: x[torch.from_numpy(numpy.argsort(POSITIVE(x)[:, 0].numpy(), kind="stable"))].sin(),
    "sections": lambda x: torch.cat([part.exp() for part in x.flatten().split(POSITIVE(x).sum(1).tolist() + [12 - int(POSITIVE(x).sum())])]),
    "float of elements": lambda x: x * (float(POSITIVE(x)[0, 0]) + float(POSITIVE(x)[1, 1])),
    "strides": lambda x: x * POSITIVE(x).t().numpy().strides[0] + POSITIVE(x)[:, ::2].numpy().strides[0] + POSITIVE(x)[:1].expand(4, 3).numpy().strides[0],
    "captured": lambda x: x * KEPT.tolist()[1] + float(KEPT.numpy().sum()),
    "literal": lambda x: x * torch.tensor([1, 2]).tolist()[1],
    "drawn": lambda x: x * (torch.rand(3) > 0.5).tolist()[1] + torch.rand(3),
}


def both(function, compiled, x):
    found = []
    for call in (function, compiled):
        torch.manual_seed(3)
        given = x.detach().clone().requires_grad_(x.requires_grad)
        result = call(given)
        state = torch.get_rng_state()
        gradients = torch.autograd.grad(result.square().sum(), given) if result.requires_grad else ()
        found.append((result, *gradients, given.detach(), state))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name):
    compiled = diptych.aot_function(FUNCTIONS[name])
    for x in (X, X, X.abs(), X * 0.1, -X.abs(), X):
        both(FUNCTIONS[name], compiled, x.detach().requires_grad_())
    assert compiled.stats().originals == 0, compiled.stats().last_original
    assert compiled.stats().hits >= 2


def test_a_text_is_made_by_the_function_itself():
    compiled = diptych.aot_function(lambda x: (texts.append(f"{x} {x * 2!r}"), x * 2)[1])
    texts = []
    for _ in range(2):
        compiled(X.detach())
    assert texts == [f"{X.detach()} {X.detach() * 2!r}"] * 2 and compiled.stats().originals == 2


@pytest.mark.parametrize("function", [
    lambda x: torch.ops.aten.lerp(x, x, x), lambda x: torch.ops.aten.clamp(x, x, x), lambda x: torch.ops.aten.pow(2, x), lambda x: torch.ops.aten.eq(x, x[0]),
    lambda x: torch.ops.aten.scatter(x, -1, torch.zeros(4, 2, dtype=torch.long), x[:, :2]),
])
def test_an_overload_that_does_not_fit_reads_no_values(function):
    """torch.ops describes the arguments in the error of each overload that it tries, whether another one fits or not."""
    compiled = diptych.aot_function(function)
    torch.testing.assert_close(compiled(X), function(X))
    assert compiled.stats().misses == 1 and not compiled.stats().last_original
    diptych.capture(function, X)
    with pytest.raises(RuntimeError, match="failed to match any schema"):
        diptych.aot_function(lambda x: torch.ops.aten.add(x, "a"))(X)


def test_a_captured_tensor_is_read_at_each_call():
    kept = torch.tensor([1, 2])
    compiled = diptych.aot_function(lambda x: x * kept.tolist()[1])
    for value in (2, 5, 2):
        kept[1] = value
        assert compiled(torch.ones(1)).item() == value
    assert (compiled.stats().misses, compiled.stats().hits) == (2, 1)


def test_a_miss_names_the_elements():
    compiled = diptych.aot_function(lambda x, n: x * n.tolist()[0])
    for values in ([1, 2, 3], [1, 2, 4], [1, 2, 3]):
        compiled(X, torch.tensor(values))
    stats = compiled.stats()
    assert (stats.misses, stats.hits) == (2, 1)
    assert "tolist() in scope 'test_memory_asked.py" in stats.last_miss and "asks for is [1, 2, 4], was [1, 2, 3]" in stats.last_miss
    long = diptych.aot_function(lambda x, n: x * n.tolist()[0])
    for last in (0, 1):
        long(X, torch.tensor([*range(20), last]))
    assert "is [0, 1, 2, 3, 4, 5, 6, 7, ...]" in long.stats().last_miss


def fills(x):
    x.numpy()[:] = 3
    return x * 2


def reads_after_a_write(x):
    array = x.numpy()
    x.add_(1)
    return x * float(array.sum())


def reads_after_a_write_to_a_view(x):
    array = x[0].numpy()
    x[:, 1] += 1
    return x * float(array.sum())


def writes_through_a_tensor(x):
    torch.from_numpy(x.numpy()).zero_()
    return x + 1


def reads_through_a_tensor(x):
    other = torch.from_numpy(x.numpy())
    x.add_(1)
    return other * 2


RESULTS = []


def keeps(x):
    RESULTS.append(x.numpy())
    return x * 2


@pytest.mark.parametrize("function", [fills, reads_after_a_write, reads_after_a_write_to_a_view, writes_through_a_tensor, reads_through_a_tensor, keeps])
def test_memory_is_shared_as_in_eager(function):
    compiled = diptych.aot_module(function) if isinstance(function, torch.nn.Module) else diptych.aot_function(function, eager_fallback=True)
    for _ in range(3):
        eager, ours = X.detach().clone(), X.detach().clone()
        RESULTS.clear()
        expected = function(eager)
        ours_first = compiled(ours)
        torch.testing.assert_close((ours_first, ours), (expected, eager))
        for array, of in zip(RESULTS, (eager, ours)):
            array[0, 0] = 7
            assert of[0, 0] == 7
    assert compiled.stats().hits == 0 and compiled.stats().originals >= 2


def test_an_array_that_is_returned_is_the_tensors():
    compiled = diptych.aot_function(lambda x: (x.numpy(), x * 2))
    for _ in range(3):
        x = torch.ones(2)
        array, _ = compiled(x)
        x.add_(1)
        assert array.tolist() == [2, 2]


REFUSED = {
    "requires grad": lambda x: x.requires_grad_().numpy(),
    "no such type": lambda x: x.bfloat16().numpy(),
    "conjugate": lambda x: x.to(torch.cdouble).conj().numpy(),
    "in the function": lambda x: x.detach().numpy()[9],
}


@pytest.mark.parametrize("name", REFUSED)
def test_exceptions_are_eagers_and_leave_nothing_behind(name):
    def function(x):
        y = REFUSED[name](x.detach() * 1)
        return x * y.sum()

    compiled = diptych.aot_function(function)
    for _ in range(2):
        errors = []
        for call in (function, compiled):
            with pytest.raises(Exception) as caught:
                call(torch.ones(3, dtype=torch.double))
            errors.append((type(caught.value), str(caught.value)))
        assert errors[0] == errors[1]
    x = torch.ones(2)
    assert x.numpy().base is not None and x.tolist() == [1, 1]
    x.numpy()[0] = 5
    assert x[0] == 5


def test_a_forced_array_of_a_conjugate():
    function = lambda x: x * float(torch.complex(x, x).detach().conj().numpy(force=True).imag.sum())  # noqa: E731
    compiled = diptych.aot_function(function)
    for x in (X, X):
        both(function, compiled, x)


def test_a_large_tensor_runs_the_function():
    function = lambda x: x * float(x.numpy().sum())  # noqa: E731
    compiled = diptych.aot_function(function)
    compiled(torch.ones(2**18))
    for value in (1.0, 2.0, 1.0):
        x = torch.full((2**18 + 1,), value)
        torch.testing.assert_close(compiled(x), function(x))
    assert compiled.stats().originals == 3 and "calls numpy() of a tensor of more than 1048576 bytes" in compiled.stats().last_original
    compiled(torch.ones(2**18))
    assert (compiled.stats().originals, compiled.stats().hits) == (3, 1)


def test_where_nobody_knows_the_value_it_is_refused():
    for refused in (
        lambda: diptych.capture(lambda x: x * x.tolist()[0], torch.ones(2)),
        lambda: diptych.aot_function(lambda x: x * x.tolist()[0], path_limit=0)(torch.ones(2)),
        lambda: diptych.aot_function(lambda x: diptych.scan(lambda c, s: (c + s.tolist(), s), x[0], x)[0])(torch.ones(2)),
    ):
        with pytest.raises(diptych.UserError, match="reads the memory of a tensor"):
            refused()


def test_other_threads_and_later_calls_have_torchs():
    inside, seen = threading.Event(), []

    def other():
        inside.wait(60)
        x = torch.ones(2)
        array = x.numpy()
        x.add_(1)
        seen.append((array.tolist(), x.tolist()))

    def function(x):
        inside.set()
        thread.join(60)  # no event, which would be taken back with all that happened in a trace that is made anew
        return x * x.tolist()[0]

    thread = threading.Thread(target=other)
    thread.start()
    torch.testing.assert_close(diptych.aot_function(function)(torch.ones(2)), torch.ones(2))
    thread.join()
    assert seen == [([2, 2], [2, 2])]


class Routed(torch.nn.Module):
    """Sends rows to layers by an array, as mixtures of experts do."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(2))

    def forward(self, x):
        chosen = (x[:, 0] > 0).long()
        counts = torch.bincount(chosen, minlength=2).tolist()
        parts = x[chosen.argsort(stable=True)].split(counts)
        return torch.cat([layer(part) for layer, part in zip(self.layers, parts) if len(part)])


def test_two_modules_of_a_class():
    for _ in range(2):
        module, eager = Routed(), Routed()
        compiled = diptych.aot_module(module, eager_fallback=False)
        for x in (X, X, -X, X):
            for call in (compiled, eager):
                call(x.detach().float()).square().sum().backward()
            torch.testing.assert_close([p.grad for p in module.parameters()], [p.grad for p in eager.parameters()])
        assert (compiled.stats().misses, compiled.stats().hits, compiled.stats().originals) == (2, 2, 0)


def test_under_vmap_it_is_what_torch_says():
    def function(x):
        return x * x.tolist()[0]

    for call in (function, diptych.aot_function(function)):
        with pytest.raises(RuntimeError):
            torch.vmap(call)(torch.ones(2, 2))


def test_dynamo_knows_both_methods_as_ever():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    function = lambda x: x * float(x.detach().numpy().sum())  # noqa: E731
    compiled = torch.compile(function, backend=backend)
    torch.testing.assert_close(compiled(X), function(X))
    assert type(torch.Tensor.tolist) is type(torch.Tensor.numpy) is type(torch.Tensor.sum) and graphs


@pytest.mark.filterwarnings("error")
def test_graphs_of_dynamo():
    def function(x, n):
        return x * n.tolist()[0] + x.detach().numpy().shape[0]

    compiled = torch.compile(function, backend="diptych")
    for values in ([1, 2], [1, 2], [3, 4]):
        torch.testing.assert_close(compiled(X, torch.tensor(values)), function(X, torch.tensor(values)))
