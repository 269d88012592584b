"""Inputs and intermediates that are changed in place, their metadata among it."""
import torch
from cases import case, computed, constant, leaf


@case(lambda n: (computed(n, 4),))
def mutation_simple(a):
    a.mul_(2)
    return a * 3


@case(lambda n: (computed(n, 4),))
def mutation_without_result(a):
    a.add_(1)


@case(lambda n: (computed(n, 4), computed(n, 4), computed(n, 4)))
def mutation_of_several(a, b, c):
    a.mul_(2)
    c.mul_(b)
    return a + b + c


@case(lambda n: (computed(n, 4),))
def mutation_is_the_result(a):
    return a.mul_(2)


@case(lambda n: (computed(n, 4),))
def mutation_then_views(a):
    a.add_(1)
    return a.view(-1), a.t(), a


@case(lambda n: (computed(n, 4),))
def mutation_of_a_view_inside(a):
    a[0].mul_(2)
    a.t()[1:3].add_(1)
    return a.sum(0)


@case(lambda n: (computed(n, 4).t(),))
def mutation_of_odd_strides(a):
    a.mul_(2)
    return a + 1


@case(lambda n: (computed(2 * n, 4)[::2],))
def mutation_of_a_view(a):
    a.mul_(2)
    return a.sin()


@case(lambda n: (leaf(n, 4),))
def mutation_of_a_leaf(a):
    a.mul_(2)
    return a


@case(lambda n: (leaf(n, 4),))
def mutation_of_a_leaf_without_grad(a):
    with torch.no_grad():
        a.mul_(2)
    return a * 3


@case(lambda n: (leaf(n, 4),))
def mutation_of_a_detached_leaf(a):
    a.detach().mul_(2)
    return a * 3


@case(lambda n: (computed(n, 4),))
def mutation_without_and_with_grad(a):
    with torch.no_grad():
        a.mul_(2)
    a.add_(1)
    return a.sin()


@case(lambda n: (leaf(n, 4),))
def mutation_of_data(a):
    a.data.mul_(2)
    return a * 3


@case(lambda n: (computed(n, 4),))
def mutation_after_use(a):
    b = a.sin()
    a.add_(1)
    return b * a


@case(lambda n: (computed(n, 4), constant(n, 4)))
def mutation_of_one_that_needs_no_gradient(a, b):
    b.add_(1)
    return a * b


@case(lambda n: (leaf(n, 4), constant(n, 4)))
def mutation_gives_a_gradient(a, b):
    b.copy_(a * 2)
    return b.sin()


@case(lambda n: (leaf(n, 4), constant(n, 4)))
def mutation_gives_a_gradient_to_a_part(a, b):
    b[0] = a[0] * 2
    return b.sum()


@case(lambda n: (computed(n, 4), torch.arange(n)))
def mutation_of_integers(a, i):
    i.add_(1)
    return a * i.unsqueeze(1)


@case(lambda n: (computed(n, 4),))
def mutation_metadata_transpose(a):
    a.transpose_(0, 1)
    return a + 1


@case(lambda n: (computed(n, 4),))
def mutation_metadata_alone(a):
    a.t_()


@case(lambda n: (computed(n, 1),))
def mutation_metadata_squeeze(a):
    a.squeeze_(1)
    a.unsqueeze_(0)
    return a * 2


@case(lambda n: (computed(n, 4),))
def mutation_metadata_and_data(a):
    a.t_()
    a.mul_(2)
    return a.sum(0)


@case(lambda n: (computed(n, 4), constant(n, 4)), order=1)
def mutation_by_set(a, b):
    b.set_(a.detach().clone())
    return a * b


@case(lambda n: (constant(n, 4),), order=0)
def mutation_by_resize(a):
    a.resize_(2, 2)
    return a + 1


@case(lambda n: (constant(n, 4), constant(2, 2)), order=0)
def mutation_by_data(a, b):
    a.data = b
    return a + 1


@case(lambda n: (constant(n, 4),))
def mutation_of_requires_grad(a):
    a.requires_grad_()
    return a * 2


@case(lambda n: (computed(n, 4), torch.rand(n, 4) > 0.5))
def mutation_by_indices(a, mask):
    a[mask] = 0
    a[:, 1] = 7
    a.masked_fill_(mask, 2)
    a.index_put_((torch.tensor([0, 1]), torch.tensor([1, 1])), torch.tensor([5.0, 6.0], dtype=a.dtype))
    return a.sin()


@case(lambda n: (leaf(n, 4),), pure=True)
def mutation_of_an_intermediate(x):
    y = x * 1
    y[0].mul_(2)
    y.add_(x)
    y.view(-1)[2:5].sin_()
    return y


@case(lambda n: (leaf(n, 4),), pure=True)
def mutation_of_an_intermediate_after_a_view(x):
    y = x.clone()
    v = y.view(-1)
    y.mul_(2)
    return v * 3, y


@case(lambda n: (leaf(n, 4),), pure=True)
def mutation_of_a_fresh_tensor(x):
    out = torch.zeros(x.shape, dtype=x.dtype)
    for row in range(x.shape[0]):
        out[row] = x[row] * row
    return out


@case(lambda n: (leaf(n, 4),))
def mutation_of_what_the_backward_needs(x):
    y = x.exp()
    y.mul_(2)
    return y


@case(lambda n: (leaf(4, n),))
def mutation_of_one_of_several_views(x):
    a, b = (x * 1).split(2)
    a.mul_(2)
    return a, b


@case(lambda n: (computed(n, 4),), then=lambda result, a: (a.detach().zero_(), result)[1])
def mutation_later_of_what_the_backward_needs(a):
    return a * a


@case(lambda n: (leaf(n, 4),), then=lambda result, x: ([result.mul_(2)], result)[1])
def mutation_later_of_a_result_that_is_saved(x):
    return x.exp()


@case(lambda n: (computed(n, 4),))
def mutation_by_out(a):
    with torch.no_grad():
        torch.sin(a.detach().clone(), out=a)
    return a * 2


@case(lambda n: (constant(n), constant(n)), order=0)
def mutation_by_foreach(a, b):
    torch._foreach_add_([a, b], 1)
    torch._foreach_mul_([a, b], [b.clone(), a.clone()])
    return a + b


@case(lambda n: (constant(n, 4),), skip=("constant",))
def mutation_by_normalization(x):
    mean, var = torch.zeros(4, dtype=x.dtype), torch.ones(4, dtype=x.dtype)
    y = torch.nn.functional.batch_norm(x, mean, var, training=True)
    return y, mean, var
