"""What a function reads and sets of its tensors besides their values: .grad, .data, versions, the state of an optimizer."""
import diptych
import pytest
import torch

from beside_eager import Cases

# make() gives a function of the tensor X, what changes before each call of it, and what else to look at.
case = Cases()


def ones():
    return torch.ones(2, requires_grad=True)


@case
def gradient_of_a_captured_tensor_is_read():
    w = ones()

    def change(call):
        w.grad = None if call == 0 else torch.full((2,), float(call))

    return lambda x: x * 2 if w.grad is None else x * w.grad, change, lambda: w.grad


@case
def gradient_of_an_argument_is_read():
    def change(call):
        X.grad = None if call == 0 else torch.full((2,), float(call))

    return lambda x: x * 2 if x.grad is None else x * x.grad, change, lambda: X.grad


@case
def an_argument_is_updated_by_its_gradient():
    def f(x):
        with torch.no_grad():
            x.sub_(x.grad)
        return x * 2

    def change(call):
        X.grad = torch.full((2,), float(call + 1))

    return f, change, lambda: X.detach().clone()


@case
def a_captured_tensor_is_updated_by_its_gradient():
    w = ones()

    def f(x):
        with torch.no_grad():
            w.sub_(w.grad * 0.1)
        return x * w

    def change(call):
        w.grad = torch.full((2,), float(call + 1))

    return f, change, lambda: w.detach().clone()


@case
def gradients_of_a_module_are_dropped():
    module = torch.nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        module.weight.fill_(0.5)

    def f(x):
        module.zero_grad()
        return module(x)

    def change(call):
        module.weight.grad = torch.ones(2, 2)

    return f, change, lambda: module.weight.grad


@case
def a_gradient_is_set_to_none():
    w = ones()

    def f(x):
        w.grad = None
        return x * w

    def change(call):
        w.grad = torch.ones(2)

    return f, change, lambda: w.grad


@case
def a_gradient_is_set_to_a_result():
    w = ones()

    def f(x):
        w.grad = (x * 2).detach()
        return x * w

    return f, lambda call: None, lambda: w.grad.clone()


@case
def a_gradient_of_an_argument_is_set():
    def f(x):
        x.grad = torch.full((2,), 3.0)
        return x * 2

    def change(call):
        X.grad = None

    return f, change, lambda: X.grad


@case
def a_gradient_is_zeroed():
    def f(x):
        x.grad.zero_()
        return x * 2

    def change(call):
        X.grad = torch.ones(2)

    return f, change, lambda: X.grad


@case
def a_step_of_an_optimizer():
    w = ones()
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)

    def f(x):
        optimizer.step()
        return x * w

    def change(call):
        w.grad = torch.full((2,), float(call + 1))

    return f, change, lambda: (w.detach().clone(), [dict(state) for state in optimizer.state.values()])


@case
def a_whole_step_of_training():
    w = ones()
    optimizer = torch.optim.Adam([w], lr=0.1)

    def f(x):
        optimizer.zero_grad()
        loss = (x.detach() * w).sum()
        loss.backward()
        optimizer.step()
        return x * loss.detach()

    return f, lambda call: None, lambda: w.detach().clone()


@case
def data_is_set():
    w = ones()

    def f(x):
        w.data = x.detach() * 2
        return x * w

    return f, lambda call: None, lambda: w.detach().clone()


@case
def the_version_is_read():
    w = torch.ones(2)
    return lambda x: x * w._version, lambda call: w.add_(1), lambda: None


X = None


def seen_by(call_of, make):
    """Results of four calls, the gradients to X, and what else is there to see."""
    global X
    X = ones()
    f, change, look = make()
    call, found = call_of(f), []
    for number in range(4):
        change(number)
        y = call(X)
        (gradient,) = torch.autograd.grad(y.sum(), X, allow_unused=True)
        found.append((y.detach().clone(), gradient, look()))
    return found, call


@pytest.mark.parametrize("name", case)
def test_the_function_itself_runs(name):
    expected, _ = seen_by(lambda f: f, case[name])
    found, compiled = seen_by(diptych.aot_function, case[name])
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert compiled.stats().originals == 4
    assert "of a tensor that it is given or captures, at test_gradients_and_data.py" in compiled.stats().last_original


def test_data_of_a_captured_tensor_is_written_and_read():
    def make(w):
        def f(x):
            w.data.mul_(2)
            return x * w + w.data.sum()

        return f

    seen = []
    for call_of in (lambda f: f, diptych.aot_function):
        w, x = ones(), torch.tensor([1.0, 2.0])
        call, found = call_of(make(w)), []
        for _ in range(3):
            y = call(x)
            y.sum().backward()
            found.append((y.detach(), w.detach().clone(), w.grad.clone()))
        seen.append(found)
    torch.testing.assert_close(seen[1], seen[0])
    assert call.stats().originals == 0


def _written_by_data(x):
    x.data[0] = 3.0


def _written_by_data_and_seen(x):
    x.data.mul_(2)
    with torch.no_grad():
        x.add_(1)


def _written_behind(x):
    with torch.no_grad():
        x.detach().mul_(2)


@pytest.mark.parametrize("write", (_written_by_data, _written_by_data_and_seen, _written_behind))
@pytest.mark.parametrize("compile", (diptych.aot_function, lambda f: torch.compile(f, backend="diptych")), ids=("aot_function", "torch.compile"))
def test_autograd_counts_the_changes_that_it_counts_in_eager(write, compile):
    """A solver writes rows of what earlier steps have saved, by .data so that autograd takes it for unchanged."""
    seen = []
    for call in (write, compile(write)):
        for kind in (lambda x: x, lambda x: x.clone(), lambda x: x.detach(), lambda x: x.detach().repeat(2)[::2]):
            for _ in range(2):
                x = kind(ones())
                saved = (x * x).sum()
                call(x)
                seen.append((x._version, x.detach().clone(), x.requires_grad))
                if x.requires_grad and write is _written_by_data:
                    saved.backward()
    half = len(seen) // 2
    torch.testing.assert_close(seen[half:], seen[:half])


def test_gradients_of_what_the_function_makes_are_its_own():
    def f(x):
        inner = x.detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad((inner**3).sum(), inner)
        return x * gradient if inner.grad is None else x

    compiled, x = diptych.aot_function(f), torch.tensor([1.0, 2.0])
    for _ in range(3):
        torch.testing.assert_close(compiled(x), f(x))
    assert compiled.stats().originals == 0


def test_gradients_that_nobody_asks_for_cost_no_graph():
    module = torch.nn.Linear(2, 2)
    compiled, x = diptych.aot_function(module), torch.ones(3, 2)
    for _ in range(3):
        compiled(x).sum().backward()
        module.zero_grad()
    assert compiled.stats().originals == 0 and compiled.stats().hits == 2


def test_it_is_not_captured_for_ever():
    w = ones()
    traces = []

    def f(x):
        traces.append(1)
        return x if w.grad is None else x * w.grad

    compiled = diptych.aot_function(f)
    for _ in range(40):
        compiled(torch.ones(2))
    assert compiled.stats().originals == 40 and len(traces) == 40 and compiled.stats().misses <= 16


def test_a_pair_refuses_it():
    w = ones()
    with pytest.raises(diptych.UserError, match=r"\[capture\] the function reads .grad of a tensor .*, at test_gradients_and_data.py:\d+ <lambda>, which a graph can't represent"):
        diptych.capture(lambda x: x if w.grad is None else x * w.grad, torch.ones(2))
    with pytest.raises(diptych.UserError, match=r"\[capture\] the function sets .grad of a tensor"):
        diptych.capture(lambda x: setattr(x, "grad", None) or x, torch.ones(2))


def test_bodies_and_gradients_do_it_themselves():
    w = ones()
    xs = torch.arange(6.0).view(3, 2)

    def step(carry, x):
        return carry + x * (1 if w.grad is None else w.grad), carry

    gradient = diptych.value_and_grad(lambda x: (x * (1 if w.grad is None else w.grad)).sum())
    for number in (None, torch.full((2,), 3.0)):
        w.grad = number
        factor = 1 if number is None else number
        torch.testing.assert_close(diptych.scan(step, torch.zeros(2), xs)[0], (xs * factor).sum(0))
        torch.testing.assert_close(gradient(xs[1])[0], (xs[1] * factor).sum())


@pytest.mark.parametrize("write", [lambda x: x.detach().mul_(2), lambda x: x.data.mul_(2)], ids=["detach", "data"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_second_derivatives_start_from_a_tensor_that_is_given_twice_as_it_was(write, times):
    def seen(compile):
        x = torch.tensor([0.3, 0.7, -0.4], dtype=torch.float64, requires_grad=True)
        compiled = compile(lambda *given: (write(given[-1]), given[0].sin())[1])
        (first,) = torch.autograd.grad(compiled(*[x] * times).sum(), x, create_graph=True)
        return first.detach(), *torch.autograd.grad(first.square().sum(), x)

    torch.testing.assert_close(seen(diptych.aot_function), seen(lambda function: function))
