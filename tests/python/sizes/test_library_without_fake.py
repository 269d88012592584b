"""Operators of libraries whose results have sizes that no fake kernel tells."""
import diptych
import pytest
import torch
from torch import library

CALLS = {"doubled": 0}


@library.custom_op("diptych_unshaped::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * 2)


def _setup(ctx, inputs, output):
    ctx.rows = inputs[0].shape


@library.custom_op("diptych_unshaped::doubled_backward", mutates_args=())
def doubled_backward(g: torch.Tensor) -> torch.Tensor:
    return g * 2


@doubled_backward.register_fake
def _(g):
    return torch.empty_like(g)


doubled.register_autograd(lambda ctx, g: doubled_backward(g), setup_context=_setup)


@library.custom_op("diptych_unshaped::positive", mutates_args=())
def positive(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x[x > 0], (x > 0).nonzero()


@library.custom_op("diptych_unshaped::parts", mutates_args=())
def parts(x: torch.Tensor) -> list[torch.Tensor]:
    return [x[: int(n)].clone() for n in x[:2].abs()]


@library.custom_op("diptych_unshaped::drop_", mutates_args={"count"})
def drop_(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    count.add_(1)
    return x[x > 0]


@library.custom_op("diptych_unshaped::noisy", mutates_args=())
def noisy(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(x.shape)


@library.custom_op("diptych_unshaped::dynamic", mutates_args=())
def dynamic(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@dynamic.register_fake
def _(x):
    return x.new_empty(library.get_ctx().new_dynamic_size())


LIBRARY = library.Library("diptych_unshaped", "FRAGMENT")
LIBRARY.define("rows(Tensor x) -> Tensor")
LIBRARY.impl("rows", lambda x: x[x > 0] * 3, "CPU")


def counting(x):
    count = torch.zeros(())
    return drop_(x, count) * 2 + count


FUNCTIONS = {
    "gradient": lambda x: doubled(x.sin()) * x,
    "two results": lambda x: positive(x)[0].exp() + positive(x)[1].sum(),
    "list": lambda x: torch.cat(parts(x)) * 2,
    "writes": counting,
    "dynamic": lambda x: dynamic(x * 2).cos(),
    "of the CPU": lambda x: torch.ops.diptych_unshaped.rows(x.detach()) + 1,
    "after a draw": lambda x: dynamic(x + torch.rand(3)) * 2 + torch.rand(()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager_and_a_miss_for_other_sizes(name):
    function = FUNCTIONS[name]
    compiled = diptych.aot_function(function)
    for values in ([1.0, 2, 3], [1.5, 2.5, 4], [1, -2, 3], [-1, 2, -3], [1, 2, 3], [3, 1, -2]):
        found = []
        for call in (function, compiled):
            torch.manual_seed(1)
            x = torch.tensor(values, dtype=torch.float, requires_grad=name == "gradient")
            y = call(x)
            gradient = ()
            if y.requires_grad and name == "gradient":
                gradient = torch.autograd.grad(y.sum(), x)
            found.append((y.detach(), torch.get_rng_state(), *gradient))
        torch.testing.assert_close(found[1], found[0])
    stats = compiled.stats()
    assert stats.originals == 0 and stats.hits >= 2
    assert stats.misses == (1 if name == "gradient" else stats.misses)
    if name != "gradient":
        assert "of sizes" in stats.last_miss or stats.misses > 1


def test_where_values_are_not_known():
    with pytest.raises(diptych.UserError, match=r"diptych_unshaped::doubled.*has no fake kernel.*register_fake"):
        diptych.capture(lambda x: doubled(x), torch.ones(3))


def test_one_that_draws_is_refused():
    with pytest.raises(diptych.UserError, match=r"diptych_unshaped::noisy.*draws random numbers"):
        diptych.aot_function(lambda x: noisy(x))(torch.ones(3))
    compiled = diptych.aot_function(lambda x: noisy(x) * 2, eager_fallback=True)
    for _ in range(2):
        torch.manual_seed(0)
        expected = noisy(torch.ones(3)) * 2
        torch.manual_seed(0)
        assert torch.equal(compiled(torch.ones(3)), expected)


def test_a_backward_without_a_fake_kernel_names_it():
    @library.custom_op("diptych_unshaped::cubed", mutates_args=())
    def cubed(x: torch.Tensor) -> torch.Tensor:
        return x**3

    cubed.register_autograd(lambda ctx, g: doubled(g))
    with pytest.raises(diptych.UserError, match=r"diptych_unshaped::doubled.*has no fake kernel"):
        diptych.aot_function(lambda x: cubed(x))(torch.ones(3, requires_grad=True))
