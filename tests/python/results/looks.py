"""A look at a function in eager and compiled."""
import diptych
import torch

TWICE = "Trying to backward through the graph a second time"
RAISED = "raised"


def leaf(size=3, start=0.1):
    return torch.linspace(start, start + 1, size, dtype=torch.float64).requires_grad_()


def twice(look, function, **options):
    """What `look` sees of the function in eager, and compiled in a first and a second call."""
    expected = look(function)
    compiled = diptych.aot_function(function, **options)
    for _ in range(2):
        torch.testing.assert_close(look(compiled), expected)
    return expected


def or_raised(run):
    """What run() gives, or that it refused a second backward."""
    try:
        return run()
    except RuntimeError as error:
        assert TWICE in str(error), error
        return RAISED
