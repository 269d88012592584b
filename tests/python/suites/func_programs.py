"""What torch.func's own tests ask that is no composition of any transform with any function: argnums, has_aux, dimensions, draws, errors, levels that
meet, modes, whole examples.

A program takes `wrap`, which compiles a function or makes it the body of an operator, and gives a function of tensors of the sizes it is registered with.
"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, stack_module_state, vjp, vmap

PROGRAMS = {}
ERRORS = {}


def program(*arguments, order=2, operators=True):
    """order: how often the result is differentiated. operators: whether the function may be the body of an operator, too, as far as these take it."""

    def register(make):
        assert make.__name__ not in PROGRAMS, make.__name__
        PROGRAMS[make.__name__] = (make, arguments, order, operators)
        return make

    return register


def add_all(**programs):
    """Programs of one line: name=(sizes, make)."""
    for name, (sizes, make) in programs.items():
        PROGRAMS[name] = (make, sizes, 2, True)


def without_grad(thunk):
    with torch.no_grad():
        return thunk()


S3, S23 = (3,), (2, 3)
f1 = lambda x: x.sin().prod()  # noqa: E731
f2 = lambda x, y: (x.sin() * y).sum()  # noqa: E731
pair = lambda x, y: (x * 2 + y * 3, (x * y, y.cos()))  # noqa: E731

# argnums
add_all(
    argnums_one=((S3, S3), lambda wrap: lambda x, y: grad(wrap(f2), argnums=1)(x, y)),
    argnums_negative=((S3, S3), lambda wrap: lambda x, y: grad(wrap(f2), argnums=-1)(x, y)),
    argnums_tuple_of_one=((S3, S3), lambda wrap: lambda x, y: grad(wrap(f2), argnums=(0,))(x, y)),
    argnums_out_of_order=((S3, S3), lambda wrap: lambda x, y: grad(wrap(f2), argnums=(1, 0))(x, y)),
    argnums_of_trees=(({"a": S3}, [S3, S3]), lambda wrap: lambda d, s: grad(wrap(lambda d, s: (d["a"] * s[0] * s[1]).sum()), argnums=(1, 0))(d, s)),
    argnums_of_jacobians=((S3, S3), lambda wrap: lambda x, y: [api(wrap(pair), n)(x, y) for api in (jacrev, jacfwd) for n in (0, 1, -1, (0,), (1, 0), (0, -1))]),
    argnums_of_hessians=((S3, S3), lambda wrap: lambda x, y: [hessian(wrap(f2), n)(x, y) for n in (0, 1, (1,), (0, 1))]),
    argnums_of_value=((S3, S3), lambda wrap: lambda x, y: grad_and_value(wrap(f2), argnums=(0, 1))(x, y)),
    keyword_of_the_function=((S3, S3), lambda wrap: lambda x, y: grad(lambda x, y: wrap(f2)(x, y))(x, y=y)),
)


@program(S3, S3, operators=False)
def keywords_and_constants(wrap):
    f = wrap(lambda x, y, *, scale=1.0, name=None: (x * y * scale).sum() if name == "sum" else (x + y).prod())
    return lambda x, y: (grad(f)(x, y=y, scale=2.0, name="sum"), grad(f)(x, y, name="other"), vmap(lambda x: f(x, y[0], scale=3.0))(x))


# has_aux
add_all(
    aux_of_grad=((S3,), lambda wrap: lambda x: grad(wrap(lambda x: (f1(x), x.cos())), has_aux=True)(x)),
    aux_tree=((S3,), lambda wrap: lambda x: grad_and_value(wrap(lambda x: (f1(x), {"a": x.cos(), "b": [x, x * 2]})), has_aux=True)(x)),
    aux_of_the_gradient_of_the_gradient=((S3,), lambda wrap: lambda x: grad(lambda x: (lambda g, a: (g.sum() * a.sum(), a))(*grad(wrap(lambda x: (f1(x), x.cos())), has_aux=True)(x)), has_aux=True)(x)),
    aux_of_vjp=((S3,), lambda wrap: lambda x: (lambda y, pull, aux: (y, pull(y), aux))(*vjp(wrap(lambda x: ((x.sin(), x.exp()), x.cos())), x, has_aux=True))),
    aux_of_jvp=((S3,), lambda wrap: lambda x: jvp(wrap(lambda x: (x.sin(), [x.cos()])), (x,), (x,), has_aux=True)),
    aux_of_jacobians=((S3,), lambda wrap: lambda x: [api(wrap(lambda x: (x.sin(), {"a": x.cos()})), has_aux=True)(x) for api in (jacrev, jacfwd)]),
    aux_of_jacobians_in_a_batch=((S23,), lambda wrap: lambda x: [vmap(api(wrap(lambda x: (x.sin(), x.cos())), has_aux=True))(x) for api in (jacrev, jacfwd)]),
)


@program(S3, operators=False)
def aux_of_both_modes(wrap):
    return lambda x: jvp(wrap(lambda x: (f1(x), x.cos())), (x,), (x,), has_aux=True) + vjp(wrap(lambda x: (x.sin(), [x])), x, has_aux=True)[2:]


# in_dims and out_dims
add_all(
    dims_of_each_argument=((S23, (3, 2)), lambda wrap: lambda x, y: vmap(wrap(lambda x, y: x * y), in_dims=(0, 1))(x, y)),
    dims_of_none=((S23, S3), lambda wrap: lambda x, y: vmap(wrap(lambda x, y: x * y), in_dims=(0, None))(x, y)),
    dims_of_trees=(({"a": S23, "b": [(3, 2), S3]},), lambda wrap: lambda d: vmap(wrap(lambda d: d["a"] * d["b"][0] * d["b"][1]), in_dims=({"a": 0, "b": [1, None]},))(d)),
    dims_of_results=((S23,), lambda wrap: lambda x: vmap(wrap(lambda x: (x.sin(), x.cos(), x)), out_dims=(0, 1, -1))(x)),
    dims_of_results_in_a_tree=((S23,), lambda wrap: lambda x: vmap(wrap(lambda x: {"a": x, "b": [x.sin()]}), out_dims={"a": 1, "b": [0]})(x)),
    result_that_is_not_batched=((S23,), lambda wrap: lambda x: vmap(wrap(lambda x: (torch.ones(2), x)), out_dims=(1, 0))(x)),
    argument_that_is_no_tensor=((S23,), lambda wrap: lambda x: vmap(lambda x, k: wrap(lambda x: x * k)(x), in_dims=(0, None))(x, 3)),
    three_levels=(((2, 3, 2, 2),), lambda wrap: lambda x: vmap(vmap(vmap(wrap(lambda x: x * x.sum())), in_dims=1, out_dims=1), in_dims=2, out_dims=-1)(x)),
    outer_product_of_batches=((S3, (2,)), lambda wrap: lambda x, y: vmap(vmap(wrap(lambda x, y: x * y), (None, 0)), (0, None))(x, y)),
    chunks=(((5, 3),), lambda wrap: lambda x: [vmap(wrap(lambda x: x.sin() * x.sum()), chunk_size=n)(x) for n in (1, 2, 4, 5, 7)]),
    chunks_of_jacobians=(((5,),), lambda wrap: lambda x: [jacrev(wrap(lambda x: x.sin() * x.sum()), chunk_size=n)(x) for n in (1, 2, 5, 9)]),
    chunks_composed=(((4,),), lambda wrap: lambda x: vmap(jacrev(jacrev(wrap(lambda x: x.sin() * x.sum()), chunk_size=3), chunk_size=2), chunk_size=1)(torch.stack([x, x * 2]))),
    one_element=(((1, 3),), lambda wrap: lambda x: vmap(grad(wrap(f1)))(x)),
    captured_by_one_level=((S23, S3), lambda wrap: lambda x, y: vmap(lambda x: vmap(wrap(lambda z: z * x))(y))(x)),
)

# draws: seeds are the same on both sides, so that which element gets which number is compared
DRAWS = {
    "rand": lambda x: x + torch.rand(3, dtype=x.dtype), "randn_like": lambda x: x * torch.randn_like(x), "dropout": lambda x: F.dropout(x, 0.5),
    "bernoulli": lambda x: x * torch.bernoulli(x.detach().clamp(0, 1)), "normal_": lambda x: x + torch.empty_like(x).normal_(),
    "randperm": lambda x: x[torch.randperm(3)], "randint": lambda x: x * torch.randint(5, (3,)), "multinomial": lambda x: x * torch.multinomial(x.detach(), 3),
    "feature_dropout": lambda x: F.feature_alpha_dropout(x.reshape(1, 3, 1), 0.5), "two draws": lambda x: F.dropout(x, 0.3) + torch.rand(()) * x,
    "gaussian": lambda x: torch.normal(x.detach(), 1.0) * x, "exponential_": lambda x: x * torch.empty_like(x).exponential_(), "of an element": lambda x: x * torch.rand(()),
    "of the attention": lambda x: F.scaled_dot_product_attention(x.view(1, 3, 1), x.view(1, 3, 1), x.view(1, 3, 1), dropout_p=0.5),
}  # fmt: skip


def draw_program(draw, mode):
    def make(wrap):
        f = wrap(draw)
        return lambda x: (vmap(f, randomness=mode)(x), torch.rand(2), vmap(grad(lambda x: f(x).sum()), randomness=mode)(x), torch.rand(2))

    return make


for _name, _draw in DRAWS.items():
    for _mode in ("same", "different"):
        PROGRAMS[f"draws, {_mode}: {_name}"] = (draw_program(_draw, _mode), (S23,), 1, _name not in ("randperm",))
    ERRORS[f"draws, error: {_name}"] = (lambda wrap, draw=_draw: lambda x: vmap(wrap(draw))(x), (S23,))

add_all(
    draw_that_is_not_batched_different=((S23,), lambda wrap: lambda x: vmap(lambda x: (wrap(lambda y: y * torch.rand(3))(torch.ones(3)), x), randomness="different")(x)),
    draw_that_is_not_batched_same=((S23,), lambda wrap: lambda x: vmap(lambda x: (wrap(lambda y: y * torch.rand(3))(torch.ones(3)), x), randomness="same")(x)),
    draws_in_chunks=(((4, 3),), lambda wrap: lambda x: vmap(wrap(lambda x: x * torch.rand(3)), randomness="different", chunk_size=3)(x)),
    draws_of_two_levels=(((2, 2, 3),), lambda wrap: lambda x: vmap(vmap(wrap(lambda x: x * torch.rand(3)), randomness="same"), randomness="different")(x)),
    draws_under_grad=((S3,), lambda wrap: lambda x: (grad(wrap(lambda x: F.dropout(x, 0.5).sum()))(x), torch.rand(2))),
    draws_under_jvp=((S3,), lambda wrap: lambda x: (jvp(wrap(lambda x: F.dropout(x.sin(), 0.5)), (x,), (x,)), torch.rand(2))),
    draws_of_a_jacobian=((S3,), lambda wrap: lambda x: (jacfwd(wrap(lambda x: F.dropout(x.sin(), 0.5)), randomness="same")(x), torch.rand(2))),
)

# levels that meet: closures, autograd around and inside, modes
add_all(
    closure_over_an_outer_level=((S3, S3), lambda wrap: lambda x, y: grad(lambda y: wrap(lambda x: grad(lambda z: (z * y * x).sin().sum())(x))(x).sum())(y)),
    closure_over_a_batch=((S23, S3), lambda wrap: lambda x, y: vmap(lambda x: grad(wrap(lambda y: (x * y).sin().sum()))(y))(x)),
    vjp_whose_cotangent_is_differentiated=((S3, S3), lambda wrap: lambda x, y: grad(lambda y: vjp(wrap(torch.sin), x)[1](y)[0].sum())(y)),
    pulled_back_twice=((S3, S3), lambda wrap: lambda x, y: (lambda pull: [pull(y), pull(y * 2), vmap(pull)(torch.stack([y, y]))])(vjp(wrap(lambda x: x.sin() * x.sum()), x)[1])),
    vjp_of_a_pull=((S3, S3), lambda wrap: lambda x, y: vjp(vjp(wrap(lambda x: x.sin() * x), x)[1], y)[1]((y,))),
    grad_of_vjp_of_grad=((S3, S3), lambda wrap: lambda x, y: grad(lambda y: vjp(grad(wrap(f1)), x)[1](y)[0].sum())(y)),
    autograd_inside=((S3,), lambda wrap: lambda x: grad(wrap(lambda x: torch.autograd.grad(x.sin().sum(), x, create_graph=True)[0].pow(2).sum()))(x)),
    no_grad_around=((S3,), lambda wrap: lambda x: without_grad(lambda: (grad(wrap(f1))(x), jvp(wrap(f1), (x,), (x,))))),
    no_grad_between=((S3,), lambda wrap: lambda x: grad(lambda x: without_grad(lambda: grad(wrap(f1))(x)).sum() + x.sum())(x)),
    no_grad_inside=((S3,), lambda wrap: lambda x: grad(lambda x: (without_grad(lambda: wrap(torch.sin)(x)) * x).sum())(x)),
    grad_of_a_number_that_does_not_depend=((S3, S3), lambda wrap: lambda x, y: (grad(wrap(f1))(y * 0 + 1) * 2, grad(lambda x: wrap(lambda y: y.sum())(y) + x.sum() * 0)(x))),
    nested_wraps=((S3,), lambda wrap: lambda x: grad(lambda x: wrap(lambda x: grad(wrap(f1))(x).sin())(x).sum())(x)),
    nested_wraps_and_batches=((S23,), lambda wrap: lambda x: wrap(lambda x: vmap(lambda x: wrap(grad(wrap(f1)))(x))(x))(x)),
    levels_seven_deep=(((),), lambda wrap: lambda x: (lambda f: [f := grad(f) for _ in range(5)][-1](x))(wrap(lambda x: x.sin().exp()))),
    linearize_in_a_batch=((S3, S23), lambda wrap: lambda x, t: vmap(linearize(wrap(lambda x: x.sin() * x.sum()), x)[1])(t)),
    linearize_of_trees=(({"a": S3}, S3), lambda wrap: lambda d, y: (lambda result, push: [result, push({"a": y}, y)])(*linearize(wrap(lambda d, y: {"u": d["a"] * y, "v": (y.sin(),)}), d, y))),
    forward_of_a_view=((S23,), lambda wrap: lambda x: jvp(wrap(lambda x: x.t()[1:]), (x,), (x * 2,))),
    forward_with_a_tangent_of_zeros=((S3,), lambda wrap: lambda x: vmap(lambda t: jvp(wrap(torch.sin), (x,), (t * 0,))[1])(torch.stack([x, x]))),
    forward_of_an_unused_argument=((S3, S3), lambda wrap: lambda x, y: (jvp(wrap(lambda x, y: x.sin()), (x, y), (x, y)), jvp(wrap(lambda x: torch.ones(3)), (x,), (x,)))),
    jacobians_of_a_number=(((),), lambda wrap: lambda x: [api(wrap(torch.sin))(x) for api in (jacrev, jacfwd, hessian)]),
    jacobians_that_do_not_depend=((S3, S3), lambda wrap: lambda x, y: [api(wrap(lambda x: y.sin()))(x) for api in (jacrev, jacfwd)]),
    jacobians_of_an_integer_result=((S3,), lambda wrap: lambda x: vmap(wrap(lambda x: (x.argmax(), x > 0.5, x.sort())))(torch.stack([x, x.flip(0)]))),
    complex_argument=((S3,), lambda wrap: lambda x: (lambda z: torch.view_as_real(grad(wrap(lambda z: (z * z.conj()).real.sum()))(z)))(torch.complex(x, x * 2))),
    strides_of_directions=((S23,), lambda wrap: lambda x: vjp(wrap(lambda x: x.t() * 2), x)[1](x.t())),
)  # fmt: skip


@program(S3)
def duals_around(wrap):
    import torch.autograd.forward_ad as forward_ad

    def call(x):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, x * 2)
            return [tuple(forward_ad.unpack_dual(t)) for t in (wrap(torch.sin)(dual), grad(wrap(f1))(dual), vmap(wrap(torch.cos))(dual))]

    return call


@program(S3)
def a_leaf_of_a_closure(wrap):
    weight = torch.ones(3, dtype=torch.float64, requires_grad=True)
    f = wrap(lambda x: (x * weight).sin().sum())
    return lambda x: (torch.autograd.grad(f(x) + grad(f)(x).sum() + vmap(f)(torch.stack([x, x])).sum(), weight, create_graph=True), f(x))


@program(S3)
def batched_gradients_of_autograd(wrap):
    f = wrap(lambda x: x.sin() * x.sum())

    def call(x):
        y = f(x)
        return [] if not y.requires_grad else vmap(lambda t: torch.autograd.grad(y, x, t, retain_graph=True, create_graph=True)[0])(torch.eye(3, dtype=x.dtype))

    return call


# examples


@program(S23, (2,), order=1)
def gradients_of_samples(wrap):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4, elementwise_affine=False), nn.Linear(4, 1)).double()  # see func_functions.PLAIN
    loss = lambda parameters, x, y: F.mse_loss(functional_call(model, parameters, (x[None],))[0, 0], y)  # noqa: E731
    detached = {name: value.detach() for name, value in model.named_parameters()}
    return lambda x, y: vmap(grad(wrap(loss)), (None, 0, 0))(detached, x, y)


@program((2, 1, 6, 6), order=1)
def gradients_of_samples_of_a_convolution(wrap):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)).double()
    detached = {name: value.detach() for name, value in model.named_parameters()}
    loss = lambda parameters, x: F.cross_entropy(functional_call(model, parameters, (x[None],)), torch.tensor([1]))  # noqa: E731
    return lambda x: vmap(grad(wrap(loss)), (None, 0))(detached, x)


@program((4, 2), order=1)
def ensemble(wrap):
    torch.manual_seed(1)
    models = [nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, affine=False, track_running_stats=False), nn.Linear(3, 2)).double() for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    parameters = {name: value.detach() for name, value in parameters.items()}
    forward = wrap(lambda p, b, x: functional_call(models[0], (p, b), (x,)))
    return lambda x: (vmap(forward, (0, 0, None))(parameters, buffers, x), vmap(grad(lambda p, b, x: forward(p, b, x).sin().sum()), (0, 0, None))(parameters, buffers, x))


@program((4, 1), (4, 1), order=1)
def maml(wrap):
    torch.manual_seed(1)
    weights = [torch.randn(1, 5).double(), torch.randn(5).double(), torch.randn(5, 1).double()]
    net = lambda w, x: torch.tanh(x @ w[0] + w[1]) @ w[2]  # noqa: E731
    loss = wrap(lambda w, x, y: F.mse_loss(net(w, x), y))

    def of_a_task(w, x, y):
        inner = grad(loss)(w, x, y)
        return loss([p - 0.1 * g for p, g in zip(w, inner)], x, y)

    tasks = lambda w, x, y: vmap(of_a_task, (None, 0, 0))(w, torch.stack([x, x * 2]), torch.stack([y, y.cos()])).mean()  # noqa: E731
    return lambda x, y: grad_and_value(tasks)(weights, x, y)


@program((5,), order=1)
def lennard_jones(wrap):
    energy = wrap(lambda r: 0.2 * ((0.5 / r) ** 12 - (0.5 / r) ** 6).sum())
    position = lambda r: torch.stack([r, r * 0, r * 0])  # noqa: E731
    return lambda r: (vmap(jacrev(lambda p: energy(p.norm())))(vmap(position)(r)), vmap(jacfwd(lambda p: energy(p.norm())))(vmap(position)(r)))


@program((2, 3), (3, 3), order=1)
def newton_steps(wrap):
    objective = wrap(lambda x, a: (x @ (a @ a.t()) @ x).exp().sum() + (x * x).sum())
    step = lambda x, a: x - torch.linalg.solve(hessian(objective)(x, a), grad(objective)(x, a))  # noqa: E731
    return lambda x, a: vmap(step, (0, None))(x * 0.1, a * 0.1)


# errors


def add_errors(**programs):
    ERRORS.update({name: (make, sizes) for name, (sizes, make) in programs.items()})


class NoRule(torch.autograd.Function):
    """Nothing says how it is batched."""

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, tangent):
        return tangent * 2


add_errors(
    gradient_of_no_number=((S3,), lambda wrap: lambda x: grad(wrap(torch.sin))(x)),
    gradient_of_a_tuple=((S3,), lambda wrap: lambda x: grad(wrap(lambda x: (f1(x), f1(x))))(x)),
    aux_that_is_a_string=((S3,), lambda wrap: lambda x: grad(wrap(lambda x: (f1(x), "name")), has_aux=True)(x)),
    argnums_of_none=((S3,), lambda wrap: lambda x: grad(wrap(f1), argnums=())(x)),
    argnums_outside=((S3,), lambda wrap: lambda x: grad(wrap(f1), argnums=1)(x)),
    argnums_negative_outside=((S3,), lambda wrap: lambda x: jacrev(wrap(f1), argnums=-2)(x)),
    argnums_of_a_float=((S3,), lambda wrap: lambda x: grad(wrap(f1), argnums=0.0)(x)),
    argnums_twice=((S3, S3), lambda wrap: lambda x, y: jacfwd(wrap(f2), argnums=(0, 0))(x, y)),
    aux_missing=((S3,), lambda wrap: lambda x: grad(wrap(f1), has_aux=True)(x)),
    aux_missing_in_vjp=((S3,), lambda wrap: lambda x: vjp(wrap(lambda x: [x, x]), x, has_aux=True)),
    cotangent_of_another_tree=((S3,), lambda wrap: lambda x: vjp(wrap(lambda x: (x, x)), x)[1](x)),
    cotangent_of_another_size=((S3,), lambda wrap: lambda x: vjp(wrap(torch.sin), x)[1](x[:2])),
    tangent_of_another_tree=((S3,), lambda wrap: lambda x: jvp(wrap(torch.sin), (x,), (x, x))),
    tangent_of_another_size=((S3,), lambda wrap: lambda x: jvp(wrap(torch.sin), (x,), (x[:2],))),
    jvp_of_no_tensor=((S3,), lambda wrap: lambda x: jvp(wrap(lambda x: 3), (x,), (x,))),
    batches_of_two_sizes=((S3, S23), lambda wrap: lambda x, y: vmap(wrap(lambda x, y: x))(x, y)),
    batch_of_a_number=(((),), lambda wrap: lambda x: vmap(wrap(torch.sin))(x)),
    batch_of_nothing=((S3,), lambda wrap: lambda x: vmap(wrap(torch.sin), in_dims=None)(x)),
    dims_outside=((S3,), lambda wrap: lambda x: vmap(wrap(torch.sin), in_dims=1)(x)),
    dims_of_another_tree=((S3,), lambda wrap: lambda x: vmap(wrap(torch.sin), in_dims=(0, 0))(x)),
    out_dims_of_another_tree=((S23,), lambda wrap: lambda x: vmap(wrap(torch.sin), out_dims=(0, 0))(x)),
    out_dims_outside=((S23,), lambda wrap: lambda x: vmap(wrap(torch.sin), out_dims=3)(x)),
    result_that_is_no_tensor=((S23,), lambda wrap: lambda x: vmap(wrap(lambda x: 3))(x)),
    decision_on_an_element=((S23,), lambda wrap: lambda x: vmap(wrap(lambda x: x.sin() if x.sum() > 1 else x.cos()))(x)),
    number_of_an_element=((S23,), lambda wrap: lambda x: vmap(wrap(lambda x: x * x.sum().item()))(x)),
    places_of_an_element=((S23,), lambda wrap: lambda x: vmap(wrap(lambda x: x[x > 0.5].sum()))(x)),
    write_of_an_element_to_a_closure=((S23, S3), lambda wrap: lambda x, y: vmap(wrap(lambda x: y.detach().add_(x)))(x)),
    write_to_a_closure_under_grad=((S3,), lambda wrap: lambda x: (lambda kept: grad(wrap(lambda x: (kept.copy_(x) * x).sum()))(x))(torch.ones(3, dtype=x.dtype))),
    chunks_of_none=((S23,), lambda wrap: lambda x: vmap(wrap(torch.sin), chunk_size=0)(x)),
    randomness_of_another_word=((S23,), lambda wrap: lambda x: vmap(wrap(torch.sin), randomness="any")(x)),
    requires_grad_inside=((S3,), lambda wrap: lambda x: vmap(wrap(lambda x: x.requires_grad_()))(x)),
    exception_of_the_function=((S3,), lambda wrap: lambda x: grad(wrap(lambda x: x @ torch.ones(4, dtype=x.dtype)))(x)),
    complex_jacobian=((S3,), lambda wrap: lambda x: jacfwd(wrap(lambda x: x.sum() * 1j + x))(torch.complex(x, x).resolve_conj())),
    backward_inside=((S3,), lambda wrap: lambda x: grad(wrap(lambda x: (x.sin().sum().backward(), x.sum())[1]))(x)),
    numpy_of_an_element=((S23,), lambda wrap: lambda x: vmap(wrap(lambda x: x * float(x.numpy()[0])))(x)),
    function_without_a_vmap_rule=((S23,), lambda wrap: lambda x: vmap(wrap(lambda x: NoRule.apply(x)))(x)),
)  # fmt: skip
