"""Compositions of torch.func's transforms for any function of func_functions.py, which take f and give a function of the same arguments."""
import torch
from torch.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from torch.utils import _pytree

TRANSFORMS = {}


def transform(compose):
    TRANSFORMS[compose.__name__] = compose
    return compose


def all_of(f):
    """f as a function to a number that depends on each element of what f gives."""

    def number(*arguments):
        leaves = [leaf for leaf in _pytree.tree_leaves(f(*arguments)) if leaf.is_floating_point()]
        return sum((leaf * torch.arange(1, leaf.numel() + 1).reshape(leaf.shape)).sin().sum() for leaf in leaves)

    return number


def numbers(arguments):
    return tuple(range(len(arguments)))


def direction(tree, scale=1.0):
    """A tree of the same sizes, whose numbers all differ."""
    return _pytree.tree_map(lambda t: (torch.arange(1, t.numel() + 1, dtype=t.dtype) * scale).cos().reshape(t.shape), tree)


def batch(arguments, dim=0):
    return _pytree.tree_map(lambda t: torch.stack([t, t * 0.7 + 0.1, t * 0.4], dim), arguments)


@transform
def direct(f):
    return f


@transform
def gradient(f):
    return lambda *a: grad(all_of(f), numbers(a))(*a)


@transform
def first_gradient_and_value(f):
    return lambda *a: grad_and_value(lambda *b: (all_of(f)(*b), f(*b)), has_aux=True)(*a)


@transform
def pulled_back(f):
    def call(*a):
        results, pull = vjp(f, *a)
        return results, pull(direction(results)), pull(direction(results, 0.3))

    return call


@transform
def pulled_back_in_a_batch(f):
    def call(*a):
        results, pull = vjp(f, *a)
        return vmap(pull)(batch(direction(results)))

    return call


@transform
def pushed_forward(f):
    return lambda *a: jvp(f, a, direction(a))


@transform
def pushed_forward_with_aux(f):
    return lambda *a: jvp(lambda *b: (all_of(f)(*b), f(*b)), a, direction(a), has_aux=True)


@transform
def pushed_forward_in_a_batch_of_directions(f):
    return lambda *a: vmap(lambda t: jvp(f, a, t)[1])(batch(direction(a)))


@transform
def reverse_jacobian(f):
    return lambda *a: jacrev(f, numbers(a))(*a)


@transform
def reverse_jacobian_in_chunks(f):
    return lambda *a: jacrev(f, chunk_size=2)(*a)


@transform
def forward_jacobian(f):
    return lambda *a: jacfwd(f, numbers(a))(*a)


@transform
def jacobian_with_aux(f):
    return lambda *a: (jacrev(lambda *b: (f(*b), b[0]), has_aux=True)(*a), jacfwd(lambda *b: (f(*b), f(*b)), has_aux=True)(*a))


@transform
def second_derivatives(f):
    return lambda *a: hessian(all_of(f), numbers(a))(*a)


@transform
def reverse_over_forward(f):
    return lambda *a: jacrev(jacfwd(all_of(f)))(*a)


@transform
def forward_over_forward(f):
    return lambda *a: jacfwd(jacfwd(all_of(f)))(*a)


@transform
def reverse_over_reverse(f):
    return lambda *a: jacrev(jacrev(all_of(f)))(*a)


@transform
def gradient_of_the_gradient(f):
    return lambda *a: grad(all_of(gradient(f)), numbers(a))(*a)


@transform
def forward_of_the_gradient(f):
    return lambda *a: jvp(gradient(f), a, direction(a))


@transform
def gradient_of_forward(f):
    return lambda *a: grad(all_of(lambda *b: jvp(f, b, direction(b))[1]), numbers(a))(*a)


@transform
def pulled_back_gradient(f):
    return lambda *a: pulled_back(gradient(f))(*a)


@transform
def in_a_batch(f):
    return lambda *a: vmap(f)(*batch(a))


@transform
def first_argument_in_a_batch(f):
    return lambda *a: vmap(f, (0, *[None] * (len(a) - 1)), out_dims=0)(batch(a[0]), *a[1:])


@transform
def last_dimensions_in_a_batch(f):
    return lambda *a: vmap(f, in_dims=-1, out_dims=-1)(*batch(a, -1))


@transform
def in_a_batch_in_chunks(f):
    return lambda *a: vmap(f, chunk_size=2)(*batch(a))


@transform
def in_batches_of_batches(f):
    return lambda *a: vmap(vmap(f, out_dims=-1), in_dims=1)(*batch(batch(a), 1))


@transform
def gradients_of_elements(f):
    return lambda *a: vmap(gradient(f))(*batch(a))


@transform
def jacobians_of_elements(f):
    return lambda *a: vmap(jacrev(f))(*batch(a))


@transform
def directions_of_elements(f):
    return lambda *a: vmap(lambda *b: jvp(f, b, direction(b)))(*batch(a))


@transform
def hessians_of_elements(f):
    return lambda *a: vmap(hessian(all_of(f)))(*batch(a))


@transform
def gradient_of_a_batch(f):
    return lambda *a: grad(all_of(lambda *b: vmap(f)(*batch(b))), numbers(a))(*a)


@transform
def direction_of_a_batch(f):
    return lambda *a: jvp(lambda *b: vmap(f)(*batch(b)), a, direction(a))


@transform
def gradient_of_gradients_of_elements(f):
    return lambda *a: grad(all_of(lambda *b: vmap(gradient(f))(*batch(b))))(*a)


@transform
def linear_part(f):
    def call(*a):
        results, push = linearize(f, *a)
        return results, push(*direction(a)), vmap(push)(*batch(direction(a)))

    return call
