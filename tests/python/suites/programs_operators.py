"""Programs with torch's own higher-order operators, what torch.compile() made, custom operators, sparse embeddings, subclasses."""
import torch
import torch.nn.attention.flex_attention
import torch.nn.functional as F
from programs import add, add_functions, integers, leaf, program, signed
from torch import library, nn
from torch._higher_order_ops import associative_scan, map, scan, while_loop

add_functions("loops", {
    "cond": ((signed(3),), lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))),
    "cond_of_bool": ((leaf(3),), lambda x: torch.cond(x.shape[0] > 2, torch.sin, torch.cos, (x,))),
    "scan": ((leaf(3), leaf(2, 3)), lambda c, xs: scan(lambda c, x: (c * x, c + x), c, xs)),
    "while_loop": ((lambda step: torch.ones(3),), lambda x: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))),
    "map": ((leaf(3, 2),), lambda xs: map(lambda x: x.sin(), xs)),
    "associative_scan": ((leaf(4, 2),), lambda xs: associative_scan(lambda a, b: a * b, xs, 0, combine_mode="generic")),
    "flex_attention": ((lambda step: torch.randn(1, 2, 4, 8),), lambda q: nn.attention.flex_attention.flex_attention(q, q, q)),
})  # fmt: skip


@torch.compile(backend="aot_eager")
def compiled_by_torch(x):
    return x.sin() * 2


@torch.compiler.disable
def disabled(x):
    return x.cos()


@torch._dynamo.allow_in_graph
def allowed(x):
    return x.cos()


add_functions("torch_compile", {
    "inside": ((leaf(3),), lambda x: compiled_by_torch(x) + 1),
    "itself": ((leaf(3),), compiled_by_torch),
    "disabled": ((leaf(3),), lambda x: disabled(x) * 2),
    "allowed": ((leaf(3),), lambda x: allowed(x) * 2),
    "is_compiling": ((leaf(3),), lambda x: x.sin() if torch.compiler.is_compiling() else x.sin() * 1),
    "graph_break": ((leaf(3),), lambda x: (torch._dynamo.graph_break(), x.sin())[1]),
})  # fmt: skip


@library.custom_op("programs::add_in_place", mutates_args={"x"})
def add_in_place(x: torch.Tensor, by: float) -> None:
    x.add_(by)


@library.custom_op("programs::without_fake", mutates_args=())
def without_fake(x: torch.Tensor) -> torch.Tensor:
    return x.abs() + 1


@library.custom_op("programs::count_positive", mutates_args=())
def count_positive(x: torch.Tensor) -> int:
    return int((x > 0).sum())


@count_positive.register_fake
def _(x):
    return library.get_ctx().new_dynamic_size()


@library.custom_op("programs::number_without_fake", mutates_args=())
def number_without_fake(x: torch.Tensor) -> float:
    return float(x.abs().max())


@library.custom_op("programs::with_gradient", mutates_args=())
def with_gradient(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@with_gradient.register_fake
def _(x):
    return torch.empty_like(x)


with_gradient.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos(), setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))


@library.custom_op("programs::positives", mutates_args=())
def positives(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].clone()


@positives.register_fake
def _(x):
    return x.new_empty(library.get_ctx().new_dynamic_size())


def added(x):
    y = x * 2
    add_in_place(y, 1.5)
    return y.sin()


add_functions("library", {
    "mutates": ((lambda step: torch.randn(3),), added),
    "without_fake_kernel": ((lambda step: torch.randn(3),), lambda x: without_fake(x) * 2),
    "returns_an_integer": ((lambda step: torch.randn(3),), lambda x: x * count_positive(x), 4),
    "returns_a_float": ((lambda step: torch.randn(3),), lambda x: x * number_without_fake(x), 4),
    "with_gradient": ((leaf(3),), lambda x: with_gradient(x) * 2),
    "sizes_by_values": ((lambda step: torch.randn(3),), lambda x: positives(x).sin(), 4),
})  # fmt: skip


@program(integers(5, 4))
def sparse_embedding(wrap):
    table = wrap(nn.Embedding(5, 3, sparse=True))
    optimizer = torch.optim.SGD(table.parameters(), 0.1)

    def call(indices):
        optimizer.zero_grad()
        table(indices).sin().sum().backward()
        gradient = table.weight.grad
        optimizer.step()
        optimizer.zero_grad()
        return gradient.to_dense(), gradient.is_sparse, table.weight.detach().clone()

    return call


add("sparse_matrix", (leaf(3, 2),), lambda wrap: wrap(lambda x: torch.eye(3).to_sparse() @ x))


class Tagged(torch.Tensor):
    """Carries no more than its class."""


class Watched(torch.Tensor):
    """Doubles what sin gives."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        return out * 2 if func is torch.sin else out


class Meters(torch.Tensor):
    """Carries an attribute along."""

    @staticmethod
    def __new__(cls, x, unit="m"):
        made = x.as_subclass(cls)
        made.unit = unit
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(out, cls):
            out.unit = next((a.unit for a in args if isinstance(a, cls) and hasattr(a, "unit")), "?")
        return out


def of_class(kind, *sizes):
    return lambda step: torch.randn(sizes).as_subclass(kind)


def plain(result):
    return type(result).__name__, result.as_subclass(torch.Tensor)


@program(lambda step: torch.randn(3))
def subclasses_argument(wrap):
    f = wrap(lambda x: x.sin() + 1)
    return lambda x: plain(f(x.as_subclass(Tagged)))


@program(lambda step: torch.randn(3))
def subclasses_that_act(wrap):
    f = wrap(lambda x: torch.sin(x) + 1)
    return lambda x: plain(f(x.as_subclass(Watched)))


@program(lambda step: torch.randn(3))
def subclasses_with_attributes(wrap):
    f = wrap(lambda x: x.sin() * x)

    def call(x):
        result = f(Meters(x, "cm"))
        return (*plain(result), result.unit)

    return call


@program(leaf(2, 3))
def subclasses_parameter(wrap):
    model = nn.Linear(3, 3)
    model.weight = nn.Parameter(model.weight.detach().as_subclass(Tagged))
    f = wrap(model)
    return lambda x: plain(f(x))


class TaggedParameter(nn.Parameter):
    pass


@program(leaf(2, 3))
def subclasses_of_parameter(wrap):
    model = nn.Linear(3, 3)
    model.weight = TaggedParameter(model.weight.detach())
    f = wrap(model)
    return lambda x: plain(f(x))


@program(leaf(3))
def subclasses_made_inside(wrap):
    f = wrap(lambda x: torch.sin(x.as_subclass(Watched)).as_subclass(torch.Tensor) * 2)
    return f


add("quantized", (lambda step: torch.rand(4),), lambda wrap: wrap(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)))
add("scaled_dot_product", (leaf(1, 2, 4, 8),), lambda wrap: wrap(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True)))
