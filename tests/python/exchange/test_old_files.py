"""Pairs in files of version 2, written before operands of higher-order operators had names, still compute what the
functions that they were captured from compute."""
from pathlib import Path

import pytest
import torch

import diptych

FILES = Path(__file__).parent / "graph_files_v2"
torch.manual_seed(0)
WEIGHT = torch.randn(3, 3)  # the free variable of scan, which its file holds


def scan(init, xs):
    return diptych.scan(lambda c, x: ((c @ WEIGHT + x).tanh(), c * x), init, xs)


def scan_unrolled(init, xs):
    return diptych.scan(lambda c, x: ((c + x).tanh(), c * x), init, xs, reverse=True, unroll=2)


def checkpointed(init, xs):
    return diptych.scan(lambda c, x: ((c * x).sin(), c + x), init, xs, max_saved_carries=2)


def cond(p, x, y):
    return diptych.cond(p, lambda a: (a * 2 + y).sin(), lambda a: a.cos(), x)


def while_loop(x):
    return diptych.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1].sin() * x), (torch.zeros((), dtype=torch.int64), x))


def custom(x):
    return diptych.custom_vjp(torch.sin, lambda a: (a.sin(), (a,)), lambda res, t: (t * res[0].cos(),))(x)


X = torch.tensor([0.3, -0.7, 1.1])
XS = torch.linspace(-1, 1, 12).reshape(4, 3)
CASES = {
    scan: [torch.zeros(3), XS],
    scan_unrolled: [torch.zeros(3), XS],
    checkpointed: [torch.ones(3), XS],
    cond: [torch.tensor(True), X, torch.ones(3)],
    while_loop: [X],
    custom: [X],
}


def leaves(arguments):
    """Copies that require grad where they did when the file was written: all but the first carry and what is not of a float."""
    copies = [argument.clone() for argument in arguments]
    wanted = 1 if len(copies) > 1 else 0
    copies[wanted].requires_grad_()
    return copies, copies[wanted]


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_a_file_of_version_2_computes_what_the_function_does(function, tmp_path):
    pair = diptych.load(FILES / f"{function.__name__}.diptych")
    arguments, leaf = leaves(CASES[function])
    expected = list(torch.utils._pytree.tree_leaves(function(*arguments)))
    outputs, residuals = pair.forward_call([argument.detach() for argument in arguments])
    torch.testing.assert_close(outputs, [tensor.detach() for tensor in expected])
    differentiable = [tensor for tensor in expected if tensor.requires_grad]
    tangents = [torch.linspace(1, 2, tensor.numel()).reshape(tensor.shape) for tensor in differentiable]
    (gradient,) = torch.autograd.grad(differentiable, leaf, tangents)
    place = next(i for i, argument in enumerate(arguments) if argument is leaf)
    torch.testing.assert_close(pair.backward_call(residuals, tangents)[place], gradient)

    path = tmp_path / "again"
    diptych.save(pair, path)
    assert path.read_bytes().startswith(b"diptych-graphs 4 ")
    again = diptych.load(path)
    assert again.forward.code() == pair.forward.code()
    assert again.backward.code() == pair.backward.code()


def test_a_later_version_is_refused_by_its_number(tmp_path):
    path = tmp_path / "later"
    path.write_bytes((FILES / "cond.diptych").read_bytes().replace(b"diptych-graphs 2", b"diptych-graphs 5", 1))
    with pytest.raises(diptych.UserError, match="has format version 5, but this Diptych reads 1 to 4"):
        diptych.load(path)
