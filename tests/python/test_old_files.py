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


def gradient_of(outputs, leaf):
    floats = [output for output in outputs if output.is_floating_point() and output.requires_grad]
    return torch.autograd.grad(sum(output.square().sum() for output in floats), leaf)[0]


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_a_file_of_version_2_computes_what_the_function_does(function, tmp_path):
    pair = diptych.load(FILES / f"{function.__name__}.diptych")
    arguments, leaf = leaves(CASES[function])
    free = [WEIGHT.clone()] if function is scan else []
    outputs = diptych.call_pair(pair, arguments + free)
    expected_arguments, expected_leaf = leaves(CASES[function])
    expected = function(*expected_arguments)
    expected = [expected] if isinstance(expected, torch.Tensor) else list(torch.utils._pytree.tree_leaves(expected))
    assert len(outputs) == len(expected)
    for ours, eager in zip(outputs, expected):
        torch.testing.assert_close(ours, eager)
    torch.testing.assert_close(gradient_of(outputs, leaf), gradient_of(expected, expected_leaf))

    path = tmp_path / "again"
    diptych.save(pair, path)
    assert path.read_bytes().startswith(b"diptych-graphs 3 ")
    again = diptych.load(path)
    assert again.forward.code() == pair.forward.code()
    assert again.backward.code() == pair.backward.code()


def test_a_later_version_is_refused_by_its_number(tmp_path):
    path = tmp_path / "later"
    path.write_bytes((FILES / "cond.diptych").read_bytes().replace(b"diptych-graphs 2", b"diptych-graphs 4", 1))
    with pytest.raises(diptych.UserError, match="has format version 4, but this Diptych reads 1 to 3"):
        diptych.load(path)
