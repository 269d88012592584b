"""The table of cases, and what makes their arguments. Names start with their group: mutation_, views_, synthetic_, function_ ..."""
import dataclasses
import types

import torch

CASES = {}
settings = types.SimpleNamespace(grad=True)  # whether leaf() makes tensors that require grad


def leaf(*sizes):
    return torch.randn(sizes, dtype=torch.float64).requires_grad_(settings.grad)


def computed(*sizes):
    """A tensor that may be changed in place: it is computed from a leaf, if leaves require grad."""
    return leaf(*sizes) * 1


def constant(*sizes):
    return torch.randn(sizes, dtype=torch.float64)


@dataclasses.dataclass
class Case:
    function: object
    arguments: object
    pure: bool = False
    then: object = None
    order: int = 2
    skip: tuple = ()
    by_step: bool = False
    makes_state: bool = False
    narrow: bool = False


def case(arguments, *, pure=False, then=None, order=2, skip=(), by_step=False, makes_state=False, narrow=False):
    """Registers a function. arguments: a function of a size that makes them; by_step, of the number of the call, too.

    pure: it changes nothing, so that its arguments may be used again. then(result, *arguments): what the caller does with the result before it is looked
    at; gives what is. order: how often it is differentiated. skip: modes that do not apply. makes_state: the function makes the function, and the tensors
    that it holds. narrow: it computes float64 results in a narrower dtype, so that another backend's are not eager's to the last digit of float64.
    """

    def register(function):
        name = function.__name__
        assert name not in CASES, name
        CASES[name] = Case(function, arguments, pure, then, order, skip, by_step, makes_state, narrow)
        return function

    return register


import cases_functions  # noqa: E402, F401  # they fill the table
import cases_guards  # noqa: E402, F401
import cases_mutation  # noqa: E402, F401
import cases_plain  # noqa: E402, F401
import cases_state  # noqa: E402, F401
import cases_views  # noqa: E402, F401
