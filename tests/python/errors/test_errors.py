"""What is refused, in which words, and where it points."""
import pickle
import traceback

import diptych
import pytest
import torch


def refusal(function, *args):
    with pytest.raises(diptych.UserError) as caught:
        function(*args)
    return caught


def test_a_branch_on_data_names_the_line():
    def f(x):
        if x.sum() > 0:
            return x
        return -x

    caught = refusal(diptych.aot_function(f, path_limit=0), torch.randn(3))
    assert "aten::_local_scalar_dense" in str(caught.value) or "aten::is_nonzero" in str(caught.value)
    assert "test_errors.py" in str(caught.value)
    assert "cond" in str(caught.value)
    assert any("if x.sum() > 0" in (frame.line or "") for frame in traceback.extract_tb(caught.tb))


def test_numpy_is_refused():
    for function in (lambda x: torch.from_numpy(x.numpy()), lambda x: x * x.tolist()[0], lambda x: x.tensor_split(x.long())[0]):
        caught = refusal(diptych.aot_function(function, path_limit=0), torch.randn(3))
        assert "test_errors.py:" in str(caught.value)
        assert "reads the memory of a tensor" in str(caught.value) or "needs the values of a tensor" in str(caught.value)


def test_seeds_inside_run_the_function_itself():
    """A bare pair has no function to run, and refuses."""
    def seeds(x):
        torch.manual_seed(0)
        return x + torch.rand(3)

    def makes(x):
        return x + torch.rand(3, generator=torch.Generator().manual_seed(0))

    def repeats(x):
        with torch.random.fork_rng():
            first = torch.rand(3)
        return x + first + torch.rand(3)

    passed = torch.Generator()
    anew = "draws from a generator that the function makes anew at each call, while a graph"
    for function, words in ((seeds, "seeds the default generator"), (repeats, "seeds the default generator"), (makes, anew), (lambda x: x + torch.rand(3, generator=passed.manual_seed(1)), "")):
        if words:
            assert words in str(refusal(lambda x, function=function: diptych.capture(function, x), torch.randn(3)).value)
        compiled, x = diptych.aot_function(function), torch.randn(3)
        for number in range(3):
            torch.manual_seed(number)
            expected, after = function(x), torch.rand(1)
            torch.manual_seed(number)
            torch.testing.assert_close(compiled(x), expected)
            torch.testing.assert_close(torch.rand(1), after)
        assert compiled.stats().originals == 3 and "seeds a generator of torch's or sets its state" in compiled.stats().last_original


def test_a_refusal_in_the_backward_is_ours():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, tangent):
            return tangent * 2

    x = torch.randn(3, requires_grad=True)
    _, result = diptych.aot_function(lambda x: (y := Doubled.apply(x), Doubled.apply(y).square().sum() / 4))(x)
    with pytest.raises(diptych.UserError, match="depends on the result of a torch.autograd.Function, and a graph does"):
        torch.autograd.grad(result, x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(result, x)[0], 8 * x.detach())


def test_dict_keys_of_other_kinds():
    caught = refusal(diptych.aot_function(lambda d: d[(1, 2)]), {(1, 2): torch.randn(3)})
    assert "'d' is a dict with keys such as (1, 2), expected only strings or only integers" in str(caught.value)


def test_what_the_function_raises_comes_through():
    class Mine(Exception):
        pass

    def f(x):
        raise Mine("here")

    with pytest.raises(Mine, match="here"):
        diptych.aot_function(f)(torch.randn(3))
    with pytest.raises(RuntimeError, match="must match"):
        diptych.aot_function(lambda x, y: x + y)(torch.randn(3), torch.randn(4))
    torch.testing.assert_close(torch.ones(2) + 1, torch.full((2,), 2.0))  # nothing is traced any more


def test_options_are_checked():
    with pytest.raises(TypeError, match="cache_limit"):
        diptych.aot_function(lambda x: x, cache_size=3)
    caught = refusal(lambda: diptych.Options(partition="best"))
    assert "min_cut" in str(caught.value)


def test_a_module_that_binds_its_buffer_anew_is_refused():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(()))

        def forward(self, x):
            self.total = self.total + x.sum()
            self.seen = x * 2
            return x * self.total

    module = Counting()
    before = module.total
    compiled = diptych.aot_module(module)
    caught = refusal(lambda: diptych.capture(lambda x: compiled(x), torch.ones(3)))
    assert "the forward of Counting binds 'total' to another tensor" in str(caught.value)
    assert module.total is before and not hasattr(module, "seen")
    torch.testing.assert_close(module(torch.ones(3)), torch.full((3,), 3.0))


def test_what_a_hook_binds_before_each_forward_is_no_fault():
    module = torch.nn.utils.weight_norm(torch.nn.Linear(3, 2))
    compiled, x = diptych.aot_module(module), torch.randn(4, 3)
    for scale in (1.0, 2.0):
        with torch.no_grad():
            module.weight_g.fill_(scale)
        torch.testing.assert_close(compiled(x), module(x))
    assert compiled.stats().entries <= 2


@pytest.mark.parametrize(("function", "bad", "good", "kind"), [
    (lambda x: torch.arange(5.0)[x], torch.tensor([9]), torch.tensor([1]), IndexError),
    (lambda x: torch.nn.functional.embedding(x, torch.ones(5, 2)) * 2, torch.tensor([9]), torch.tensor([1]), IndexError),
    (lambda x: torch.arange(5.0).gather(0, x), torch.tensor([9]), torch.tensor([1]), RuntimeError),
    (lambda x: torch.linalg.cholesky(x) + 1, -torch.eye(3), torch.eye(3), torch.linalg.LinAlgError),
    (lambda x: torch.linalg.inv(x.sin()), torch.zeros(3, 3), torch.eye(3), torch.linalg.LinAlgError),
    (lambda x: torch.multinomial(x, 1), -torch.ones(3), torch.ones(3), RuntimeError),
])
@pytest.mark.parametrize("backend", ["interpreter", "native"])
def test_a_node_that_fails_raises_what_eager_raises(function, bad, good, kind, backend):
    """And a UserError, which says which node it was."""
    compiled = diptych.aot_function(function, backend=backend)
    torch.testing.assert_close(function(good).shape, compiled(good).shape)
    with pytest.raises(kind) as expected:
        function(bad)
    with pytest.raises(kind) as got:
        compiled(bad)
    assert isinstance(got.value, diptych.UserError) and isinstance(got.value, type(expected.value))
    kept = pickle.loads(pickle.dumps(got.value))
    assert type(kept) is type(got.value) and str(kept) == str(got.value)
    assert "[interpreter] node" in str(got.value) and str(expected.value).splitlines()[0] in str(got.value)
    torch.testing.assert_close(function(good).shape, compiled(good).shape)
