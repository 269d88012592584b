"""dynamic=True for functions that ask for values: few captures serve many sizes, each for one way that the values lead."""
import random

import diptych
import pytest
import torch

W1, W2 = (torch.randn(5, dtype=torch.float64, requires_grad=True) for _ in range(2))


class Keys:
    def __init__(self):
        self.held = torch.ones(2, 3)


def two_ways(x, k):
    y = (x @ torch.diag(W1)).sin() if k.sum() > 0 else (x * W2).cos()  # each way reads a tensor of its own
    return y * y.shape[0] + x.mean()


def hands_on(x, k):
    product = (x @ x.t()).tanh() * k.sum()
    return product * 2 if product.sum() > 0 else product - 1


def asks_twice(x, k):
    if k.sum() > 0:
        return x * 2 if (x * 0 + k[0]).mean() < 2 else x * 3
    return x.flip(0)


def branches_by_size(x, k):
    if k.sum() > 0:
        return x * 3 if x.shape[0] % 3 else x * 5
    return x * 7


def writes(x, k):
    y = x * 1
    if k.sum() > 0:
        y.add_(x.shape[0])
    return y.cumsum(0)


def numbers(x, k):
    return x * int(k.sum() > 0) + k.sum().item() / x.shape[0]


def outcome(function, x, k):
    x = x.clone().requires_grad_()
    for leaf in (W1, W2):
        leaf.grad = None
    result = function(x, k)
    result.square().sum().backward()
    return [result.detach(), x.grad, W1.grad, W2.grad]


@pytest.mark.parametrize("options", [{}, {"check_sizes": False}, {"backend": "interpreter"}], ids=str)
@pytest.mark.parametrize("function", [two_ways, hands_on, asks_twice, branches_by_size, writes, numbers])
def test_each_way_serves_all_sizes(function, options):
    if function is branches_by_size and options.get("check_sizes") is False:
        pytest.skip("a branch by other sizes than those that were tried is not seen then")
    compiled, draws = diptych.aot_function(function, dynamic=True, **options), random.Random(0)
    for _ in range(50):
        x = torch.randn(draws.randint(2, 20), 5, dtype=torch.float64)
        k = torch.full((3,), draws.choice((-1.0, 1.0, 2.5)), dtype=torch.float64)
        for expected, got in zip(outcome(function, x, k), outcome(compiled, x, k)):
            assert (expected is None) == (got is None)
            if expected is not None:
                torch.testing.assert_close(got, expected)
    stats = compiled.stats()
    assert stats.originals == 0 and stats.misses <= 8 and stats.hits >= 42


def test_second_derivatives():
    def function(x, k):
        return (x.sin() * x.shape[0] if k.sum() > 0 else x.cos()).sum()

    compiled = diptych.aot_function(function, dynamic=True)
    for size in (3, 4, 5, 6, 4):
        for sign in (1.0, -1.0):
            x, k = torch.randn(size, dtype=torch.float64, requires_grad=True), torch.full((2,), sign)
            assert torch.autograd.gradgradcheck(lambda x, k=k: compiled(x, k), x)
    assert compiled.stats().misses <= 4


def test_a_mask_as_an_index_has_a_capture_for_each_size():
    compiled = diptych.aot_function(lambda x: x[x > 0] * 2, dynamic=True)
    for size in range(3, 9):
        x = torch.randn(size)
        assert torch.equal(compiled(x), x[x > 0] * 2)
    assert compiled.stats().originals == 0


def test_elements_that_change_with_sizes():
    def function(x):
        return x * len([element for element in x.tolist() if element > 0])

    compiled = diptych.aot_function(function, dynamic=True, path_limit=50)
    for size in (3, 4, 5, 6, 5):
        x = torch.linspace(-1, 1, size)
        assert torch.equal(compiled(x), function(x))


def test_the_limit_of_paths():
    compiled = diptych.aot_function(lambda x: x * int(x.sum().round()), dynamic=True, path_limit=3)
    with pytest.warns(UserWarning, match="path_limit"):
        for i in range(30):
            x = torch.full((2 + i % 4,), float(i))
            assert torch.equal(compiled(x), x * int(x.sum().round()))


def test_a_cache_that_grows_under_a_mask():
    def step(x, keys, mask):
        keys.held = torch.cat([keys.held, x], 1)
        if not mask.all():
            return keys.held.masked_fill(mask == 0, -1.0).sum(1), keys
        return keys.held.sum(1), keys

    compiled = diptych.aot_function(step, dynamic=True)
    eager, ours = Keys(), Keys()
    for i in range(10):
        x, mask = torch.randn(2, 1), torch.ones(2, 4 + i, dtype=torch.long)
        torch.testing.assert_close(compiled(x, ours, mask)[0], step(x, eager, mask)[0])
        assert torch.equal(ours.held, eager.held)
    assert compiled.stats().misses <= 4
