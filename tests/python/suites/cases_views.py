"""Results that are views: of inputs, of intermediates, of one another; and what callers do with them."""
import torch
from cases import case, computed, constant, leaf


def doubled(result, *_):
    """What is returned is changed in place, so that all that share its storage see it."""
    result.mul_(2)
    return result


def first_doubled(result, *_):
    result[0].mul_(2)
    return result


@case(lambda n: (leaf(n, 4),))
def views_of_an_input(x):
    return x.view(-1), x.t(), x[0], x[:, 1:3], x.unsqueeze(0), x.flatten(), x.movedim(0, 1), x[None, ..., 2]


@case(lambda n: (computed(n, 4),), then=doubled)
def views_of_an_input_changed_later(x):
    return x.view(-1)


@case(lambda n: (computed(n, 4),), then=doubled)
def views_of_views_changed_later(x):
    return x.t()[1:3].unsqueeze(0)


@case(lambda n: (leaf(n, 4),))
def views_more_of_an_input(x):
    return x.expand(2, *x.shape), x.diagonal(), x.unfold(1, 2, 1), x.narrow(1, 1, 2), x.swapaxes(0, 1), x.as_strided((2, 2), (1, 2)), x.detach()


@case(lambda n: (torch.randn(n, 2, dtype=torch.complex128).requires_grad_(),), order=1, skip=("constant", "inference"))
def views_of_complex_numbers(x):
    return x.real, torch.view_as_real(x), x.imag


@case(lambda n: (constant(n, 4),))
def views_as_another_dtype(x):
    return x.view(torch.int64), x.view(torch.float32)


@case(lambda n: (leaf(n, 4),))
def views_several_of_one_operator(x):
    return x.unbind(1), x.split(2, 1), x.chunk(2, 1), torch.tensor_split(x, 2, 1)


@case(lambda n: (computed(4, n),), then=first_doubled)
def views_of_unbind_changed_later(x):
    return list(x.unbind(0))


@case(lambda n: (leaf(n, 4),))
def views_input_as_it_is(x):
    return x, x.sin(), x


@case(lambda n: (computed(n, 4),), then=lambda result, *_: (result[0].mul_(2), result))
def views_input_as_it_is_changed_later(x):
    return x, x * 3


@case(lambda n: (leaf(n, 4),))
def views_of_an_intermediate(x):
    y = x * 2
    return y.view(-1), y.t(), y


@case(lambda n: (leaf(n, 4),), then=first_doubled)
def views_of_an_intermediate_changed_later(x):
    y = x * 2
    return [y.view(-1), y.t(), y]


@case(lambda n: (leaf(n, 4),), then=lambda result, *_: (result[1].mul_(2), result))
def views_without_their_base_changed_later(x):
    y = x * 2
    return [y.view(-1), y.t()]


@case(lambda n: (leaf(n, 4),))
def views_several_of_an_intermediate(x):
    y = x * 2
    return y.unbind(1), y.split(2, 1)


@case(lambda n: (leaf(n, 4),))
def views_detached(x):
    y = x * 2
    return y, y.detach(), x.detach(), y.view(-1).detach()


@case(lambda n: (leaf(n, 4),), then=doubled)
def views_metadata_of_an_intermediate(x):
    y = x * 2
    y.unsqueeze_(0)
    y.transpose_(0, 1)
    return y


@case(lambda n: (leaf(n, 4),))
def views_made_without_grad(x):
    with torch.no_grad():
        y = x.view(-1)
    return y, x * 2


@case(lambda n: (leaf(n, 4),), skip=("inference",))
def views_of_an_intermediate_made_without_grad(x):
    a = x * 2
    with torch.no_grad():
        y = a.view(-1)
    return a.mean(), y


@case(lambda n: (leaf(n, 4),))
def views_no_views_after_all(x):
    return x.contiguous(), x.reshape(-1), x.to(torch.float64), x.t().contiguous(), x.clone()


@case(lambda n: (leaf(1, n),))
def views_squeezed(x):
    return x.squeeze(), x.squeeze(1), x.expand_as(x)


def two_views(n):
    base = computed(2 * n)
    return base[:n], base[n:]


def overlapping(n):
    base = computed(2 * n)
    return base[: n + 1], base[n - 1 :]


def base_and_view(n):
    base = computed(n, 4)
    return base, base.view(-1)


@case(two_views)
def synthetic_views_that_do_not_overlap(a, b):
    a.mul_(2)
    return a.sum() + b


@case(overlapping)
def synthetic_views_that_overlap(a, b):
    a.mul_(2)
    return a.sum() + b


@case(overlapping)
def synthetic_both_changed(a, b):
    a.mul_(2)
    b.add_(a.sum())
    return a + 1, b.sin()


@case(base_and_view)
def synthetic_base_changed(a, b):
    a.mul_(2)
    return b * 3


@case(base_and_view)
def synthetic_view_changed(a, b):
    b.mul_(2)
    return a * 3, b


@case(base_and_view)
def synthetic_view_as_result(a, b):
    a.mul_(2)
    return b.t(), a.view(-1)


@case(lambda n: ((x := computed(n)), x))
def synthetic_same_tensor_twice(a, b):
    a.mul_(2)
    return a + b


@case(lambda n: ((x := leaf(n)), x), pure=True)
def synthetic_same_leaf_twice(a, b):
    return a * b.sin()


@case(overlapping)
def synthetic_nothing_changed(a, b):
    return a.sum() * b


@case(lambda n: (constant(2 * n)[::2], constant(n)))
def synthetic_view_of_a_constant(a, b):
    a.copy_(b)
    return a + b


@case(base_and_view)
def synthetic_metadata_of_one(a, b):
    a.t_()
    b.mul_(2)
    return a + 1


def alternating(n, step):
    base = computed(8)
    return (base[:4], base[2:6]) if step % 2 else (base[:4], base[4:])


@case(alternating, by_step=True, skip=("dynamic",))
def synthetic_overlap_in_the_second_call_alone(a, b):
    a.mul_(2)
    return a + b


def alternating_storages(n, step):
    if step % 2 == 0:
        return computed(4), computed(4)
    base = computed(8)
    return base[:4], base[2:6]


@case(alternating_storages, by_step=True, skip=("dynamic",))
def synthetic_storage_shared_in_the_second_call_alone(a, b):
    a.mul_(2)
    return a + b


def identical_in_the_second(n, step):
    a = computed(n)
    return (a, a) if step % 2 else (a, computed(n))


@case(identical_in_the_second, by_step=True)
def synthetic_same_tensor_in_the_second_call_alone(a, b):
    a.add_(b)
    return a * b
