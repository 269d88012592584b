"""What compilers are tempted to change: programs beside eager on each backend, to the sign of zeros, the dtype and the strides."""
import diptych
import pytest
import torch
from beside_eager import Cases

BACKENDS = ["interpreter", "native", "xla"]
ZEROS = torch.tensor([0.0, -0.0, 0.0, -0.0, 1.0, -1.0]), torch.tensor([-0.0, 0.0, 0.0, -0.0, 0.0, -0.0])
GRID = torch.arange(8.0).reshape(4, 2)
row = Cases()


def described(tensor):
    """All that is compared of a result: NaN is like NaN, and 0.0 is not like -0.0."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    parts = torch.view_as_real(plain) if plain.is_complex() else plain
    signs = parts.signbit() & ~parts.isnan() if parts.is_floating_point() else None
    return tensor.dtype, tensor.size(), tensor.stride(), parts.nan_to_num(12345.0).tolist(), signs is not None and signs.tolist()


def looked_at(function, make_arguments):
    arguments = make_arguments()
    torch.manual_seed(0)
    results = function(*arguments)
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    with_gradient = [result for result in results if result.requires_grad]
    leaves = [argument for argument in arguments if argument.requires_grad]
    if leaves and with_gradient:
        results += torch.autograd.grad(sum(result.sum() for result in with_gradient), leaves)
    return [described(result) for result in results]


def leaf(tensor):
    return lambda: tensor.clone().requires_grad_()


# Lazy conjugates and negatives.


@row
def conjugate_of_a_constant():
    return lambda x: (torch.complex(x, x) * torch.tensor([1j, 1j]) * torch.tensor([1j, 1j]).conj()).real, leaf(torch.tensor([1.0, 2.0]))


@row
def imaginary_part_of_a_conjugate():
    r = torch.tensor([1j, 2j])
    return lambda x: x * r.imag + x * 3 * r.conj().imag, leaf(torch.tensor([1.0, 2.0]))


@row
def adjoint_of_a_constant():
    def function(x):
        r = torch.tensor([[1j, 2], [3, 4j]])
        return ((x + 0j) @ r @ r.mH).real

    return function, leaf(torch.eye(2))


@row
def second_derivative_through_a_complex_number():
    def function(x):
        (g,) = torch.autograd.grad((2j * torch.complex(x, x)).exp().real.sum(), x, create_graph=True)
        return (g * g).round(decimals=2)

    return function, leaf(torch.tensor([1.0, 2.0]))


# The sign of zero.


@row
def negative_zeros_of_constants():
    def function(x):
        zeros = torch.zeros_like(x)
        return x / -zeros, x / -x.new_full((2,), 0), x / -(torch.ones_like(x) - torch.ones_like(x)), x / (zeros * -1)

    return function, lambda: torch.tensor([-1.0, 1.0])


@row
def extremes_of_zeros():
    operators = torch.maximum, torch.minimum, torch.fmax, torch.fmin, torch.clamp, lambda x, y: x.clamp(max=y)
    return lambda x, y: [operator(*pair) for operator in operators for pair in ((x, y), (y, x))], *(lambda zeros=zeros: zeros.clone() for zeros in ZEROS)


@row
def bounds_of_zeros():
    bounds = (0.0, None), (-0.0, None), (None, 0.0), (None, -0.0), (0.0, 1.0), (-1.0, -0.0), (0.0, -0.0)
    return lambda x: [x.clamp(*ends) for ends in bounds] + [x.relu(), torch.nn.functional.relu6(x), torch.nn.functional.hardtanh(x, -1.0, 0.0)], lambda: ZEROS[0].clone()


@row
def extremes_of_zeros_in_bf16():
    return lambda x, y: [torch.fmax(x, y), torch.fmin(y, x), torch.maximum(x, y), x.relu()], *(lambda zeros=zeros: zeros.bfloat16() for zeros in ZEROS)


# Writes that read what they write.


@row
def a_shift_in_place():
    def function(x):
        y, z = x.clone(), x * 2
        y[1:] = y[:-1].clone()
        z[:-1] = z[1:].clone()
        return y, z

    return function, lambda: GRID.clone()


@row
def a_slice_scattered_into_its_own_tensor():
    return lambda x: (torch.slice_scatter(x, x[:-1], 0, 1), torch.slice_scatter(x * 2, (x * 2)[:, :1] + x[0, 0], 1, 1), torch.select_scatter(x, x[0] + x[3], 0, 2)), lambda: GRID.clone()


@row
def a_slice_of_another_shape_of_the_tensor():
    def function(x):
        y = x * 2
        return torch.slice_scatter(y.reshape(8), y.reshape(2, 4)[:, 1:].reshape(6), 0, 2), torch.slice_scatter(y.t().contiguous(), y.t()[:, 1:], 1, 0, 3)

    return function, lambda: GRID.clone()


@row
def shifts_in_a_loop():
    def function(x):
        x = x * 1
        for _ in range(3):
            x[1:] = x[:-1] * 2
        return x

    return function, lambda: torch.arange(6.0)


@pytest.mark.parametrize("name", row)
def test_as_eager(name):
    function, *arguments = row[name]()
    make_arguments = lambda: [make() for make in arguments]  # noqa: E731
    expected = looked_at(function, make_arguments)
    for backend in BACKENDS:
        assert looked_at(diptych.aot_function(function, backend=backend), make_arguments) == expected, backend
