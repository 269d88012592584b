"""Functions that torch.func's own tests differentiate and batch, and what turns one into the body of an operator.

A function takes trees of float64 tensors and gives a tree of tensors; it writes to nothing that it is given and draws nothing.
"""
import diptych
import judge
import torch
import torch.nn.functional as F
from torch.utils import _pytree

FUNCTIONS = {}
HELD = torch.linspace(0.5, 1.5, 3, dtype=torch.float64)


def function(*arguments):
    """Registers a function with the sizes of its arguments, trees of them."""

    def register(f):
        FUNCTIONS[f.__name__] = (f, arguments)
        return f

    return register


def make(sizes):
    """A tree of tensors between 0.3 and 1.3 in the place of a tree of sizes, which are tuples of numbers."""
    if isinstance(sizes, tuple) and all(isinstance(size, int) for size in sizes):
        return torch.rand(sizes, dtype=torch.float64) + 0.3
    return {key: make(value) for key, value in sizes.items()} if isinstance(sizes, dict) else type(sizes)(make(value) for value in sizes)


@function(())
def of_a_number(x):
    return x.sin()


@function((3,))
def simple(x):
    return x.sin()


@function((3, 2))
def of_a_matrix(x):
    return (x * x).t().exp()


@function((3,), (3, 2))
def product(x, y):
    return x @ y


@function((2, 3), (3, 4), (4,))
def log_softmax_of_a_layer(x, w, b):
    return F.log_softmax(x @ w + b, 1)[:, 1].mean()


@function((3,), (3,))
def two_results(x, y):
    return x.sin() * y, y.cos()


@function({"a": (3,), "b": [(2,), ((), (3,))]})
def trees(inputs):
    first, (second, (number, third)) = inputs["a"], inputs["b"]
    return {"u": first * number, "v": [second.sin(), (third.exp() * first,)]}


@function((3,), (2,))
def argument_that_is_not_used(x, y):
    return x * 2


@function((3,))
def result_that_does_not_depend(x):
    return x.sin(), torch.ones(2, dtype=torch.float64)


@function((3,))
def nothing_depends(x):
    return torch.ones_like(x)


@function((3,))
def argument_itself(x):
    return x, x * 2


@function((3,))
def one_result_twice(x):
    y = x.cos()
    return y, y


@function((3,))
def in_place(x):
    return x.clone().cos_().mul_(x)


@function((3, 2))
def in_place_on_a_view(x):
    y = x.sin()
    y[0].sin_()
    y.t()[1].mul_(x[:, 0])
    return y


@function((3, 2))
def in_place_on_the_base_of_a_view(x):
    y = x * 1
    view = y[1]
    y.sin_()
    return view * view


@function((2, 3))
def in_place_through_a_chain_of_views(x):
    y = x * 2
    y.view(-1)[1:5].view(2, 2)[1].zero_()
    return y.diagonal() * x.sum()


@function((3,))
def copied_into_zeros(x):
    y = x.new_zeros(3)
    y.copy_(x)
    return y.sin_()


@function((3,))
def put_by_an_index(x):
    y = x.new_ones(5)
    y[torch.tensor([4, 0, 2])] = x
    return y.cumprod(0)


@function((4,))
def added_by_an_index(x):
    index = torch.tensor([0, 2, 2, 1])
    return torch.zeros(3, dtype=x.dtype).index_add(0, index, x).sin() + x.gather(0, index[1:])


@function((5, 2))
def embedding(w):
    return F.embedding(torch.tensor([[0, 3], [3, 1]]), w).sin()


@function((2, 3, 2))
def views(x):
    return x.movedim(0, 2).reshape(6, 2)[::2].unsqueeze(0).expand(2, 3, 2), x.select(1, 2).unfold(1, 1, 1)


@function((3,))
def tensor_made_inside(x):
    return x * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64) + torch.arange(3)


@function((3,))
def tensor_of_a_closure(x):
    return (x * HELD).tanh()


@function((3,))
def without_grad_inside(x):
    with torch.no_grad():
        kept = x.sin()
    return x * kept + x.detach()


@function((3,))
def by_conjugates(x):
    z = torch.complex(x, x.exp()).conj()
    return (z * z).real + z.abs() + torch.view_as_real(z.conj().resolve_conj())[:, 1]


@function((3, 2), (2,))
def decisions_by_where(x, y):
    return torch.where(x > y, x * y, x.log()).clamp(max=0.8), torch.maximum(x, y)


@function((4,))
def sorted_and_reduced(x):
    return x.sort().values * torch.arange(4), x.amax(), x.topk(2).values.prod(), x.logsumexp(0), x.std()


@function((3, 3))
def linear_algebra(x):
    a = x @ x.t() + torch.eye(3, dtype=x.dtype)
    return torch.linalg.inv(a), torch.linalg.cholesky(a), torch.linalg.solve(a, x)


@function((1, 2, 6), (2, 2, 3))
def convolution(x, w):
    return F.avg_pool1d(F.conv1d(x, w, padding=1).tanh(), 2)


@function((1, 1, 4, 4))
def pooling(x):
    return F.max_pool2d(x, 2), F.interpolate(x, scale_factor=0.5, mode="bilinear")


@function((2, 4), (4,), (4,))
def normalizations(x, w, b):
    return F.layer_norm(x, (4,), w, b), F.batch_norm(x, None, None, w, b, training=True)


@function((1, 3, 2), (1, 3, 2))
def attention(q, k):
    return F.scaled_dot_product_attention(q, k, q * k)


@function((3, 2), (2, 2))
def recurrence(x, w):
    state = torch.zeros(2, dtype=x.dtype)
    for row in x:
        state = torch.tanh(state @ w + row)
    return state


@function((2, 3), (3, 2))
def einstein_sums(x, y):
    return torch.einsum("ij,jk->ki", x, y), torch.einsum("ij,ij->i", x, y.t())


@function((3,))
def narrower_inside(x):
    return (x.float() * 2).double()


@function((3, 2))
def by_its_sizes(x):
    return x.reshape(x.numel()) * x.shape[0] + x.stride(0) * 0


class Cubed(torch.autograd.Function):
    """With derivatives that are not those of what it computes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, tangent):
        return tangent * 5 * ctx.saved_tensors[0] ** 2

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 7 * ctx.saved_tensors[0] ** 2


class Scaled(torch.autograd.Function):
    """With a vmap rule of its own, two results and a number."""

    @staticmethod
    def forward(x, y, scale):
        return x * y * scale, (x > y).double()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])
        ctx.scale = inputs[2]

    @staticmethod
    def backward(ctx, tangent, _):
        x, y = ctx.saved_tensors
        return tangent * y * ctx.scale, tangent * x * ctx.scale, None

    @staticmethod
    def jvp(ctx, of_x, of_y, _):
        x, y = ctx.saved_tensors
        return (of_x * y + of_y * x) * ctx.scale, None

    @staticmethod
    def vmap(info, in_dims, x, y, scale):
        x, y = (torch.movedim(t, d, 0) if d is not None else t.expand(info.batch_size, *t.shape) for t, d in zip((x, y), in_dims))
        return Scaled.apply(x, y, scale), (0, 0)


@function((3,))
def custom_function(x):
    return Cubed.apply(x) * x


@function((3,), (3,))
def custom_function_with_a_vmap_rule(x, y):
    product, larger = Scaled.apply(x, y, 2.0)
    return product.sin() + larger


@function((3,))
def gradient_inside(x):
    return torch.func.grad(lambda y: (y.sin() * x).sum())(x) * x


@function((3, 2))
def batch_inside(x):
    return torch.func.vmap(lambda row, other: row * other.sum(), (0, None))(x, x)


@function((3,))
def forward_mode_inside(x):
    return torch.func.jvp(lambda y: (y * x).sin(), (x,), (x.cos(),))


@function((2,))
def jacobian_inside(x):
    return torch.func.jacrev(lambda y: torch.outer(y.sin(), x))(x), torch.func.hessian(lambda y: (y.sin() * x).prod())(x)


# What a function becomes. Each of them calls it once, with the same result.


def plain_linear_algebra(x):
    a = x @ x.t() + torch.eye(3, dtype=x.dtype)
    return torch.linalg.inv(a), torch.linalg.cholesky(a), torch.linalg.inv(a) @ x


def plain_normalizations(x, w, b):
    def normalized(dim):
        return (x - x.mean(dim, True)) / (x.var(dim, unbiased=False, keepdim=True) + 1e-5).sqrt() * w + b

    return normalized(1), normalized(0)


#: Functions written otherwise, where torch.func's own results are wrong: LibTorch's linalg_lu_solve takes the factors of another element of a batch where they are
#: broadcast, and the gradients of what it makes of a batch of normalizations are wrong. Ours may be torch's, or right.
PLAIN = {"linear_algebra": plain_linear_algebra, "normalizations": plain_normalizations}


def by_scan(f):
    def call(*arguments):
        _, results = diptych.scan(lambda carry, slices: (carry + 1, f(*slices)), torch.zeros(()), _pytree.tree_map(lambda t: t[None], arguments))
        return _pytree.tree_map(lambda t: t[0], results)

    return call


def by_map(f):
    def call(*arguments):
        results = diptych.map(lambda slices: f(*slices), _pytree.tree_map(lambda t: t[None], arguments))
        return _pytree.tree_map(lambda t: t[0], results)

    return call


def by_cond(f):
    """Its predicate depends on the arguments, so that under vmap both branches run."""

    def call(*arguments):
        predicate = _pytree.tree_leaves(arguments)[0].detach().abs().sum() > -100
        return diptych.cond(predicate, f, lambda *inner: _pytree.tree_map(lambda t: t * 2, f(*inner)), *arguments)

    return call


def by_while_loop(f):
    """Its body reads the arguments as free variables."""

    def call(*arguments):
        with torch.random.fork_rng(devices=()):
            start = _pytree.tree_map(torch.zeros_like, f(*arguments))
        return diptych.while_loop(lambda carry: carry[0] < 1, lambda carry: (carry[0] + 1, f(*arguments)), (torch.tensor(0), start))[1]

    return call


FORMS = {
    "compiled": judge.compiled,
    "scan": by_scan,
    "map": by_map,
    "cond": by_cond,
    "while_loop": by_while_loop,
    "checkpoint": diptych.checkpoint,
}
