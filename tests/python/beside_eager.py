"""A function beside eager: what tests of other people's cases share."""
import diptych
import torch


def agree(look, *functions):
    """look(function), a list of tensors and plain values, is the same for each of the functions."""
    seen = []
    for function in functions:
        torch.manual_seed(0)
        seen.append(look(function))
    for other in seen[1:]:
        torch.testing.assert_close(other, seen[0])


def both(function, **options):
    """The function in eager and compiled."""
    return function, diptych.aot_function(function, **options)


def same_as_eager(f, look=None, **options):
    """By default looks at the result of f on a tensor of 4, its requires_grad and the gradient of its sum."""

    def by_default(f):
        x = torch.randn(4, requires_grad=True)
        y = f(x)
        y.sum().backward()
        return [y, y.requires_grad, x.grad]

    agree(look or by_default, *both(f, **options))


def loop(step, carry, xs):
    """What diptych.scan(step, carry, xs) gives, by a loop of Python."""
    ys = []
    for x in xs:
        carry, y = step(carry, x)
        ys.append(y)
    return carry, torch.stack(ys)


class Cases(dict):
    """Makers of cases by their names; stands over each of them as a decorator."""

    def __call__(self, make):
        self[make.__name__] = make
        return make
