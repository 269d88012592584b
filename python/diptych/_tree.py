"""Small helpers that the bindings call."""
import inspect


class _Absent:
    """Stands where a tensor belongs and none is there."""

    __slots__ = ()

    def __repr__(self):
        return "ABSENT"


ABSENT = _Absent()


def parameter_names(function):
    """The names of a callable's positional parameters, in order; none where it does not say."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


def none_for_absent(tree):
    """The tree with None in the place of what is absent."""
    from torch.utils import _pytree

    return _pytree.tree_map(lambda leaf: None if leaf is ABSENT else leaf, tree)


def fill_gradients(gradients, arguments):
    """What bwd returned, as the arguments' tree: None becomes the absence of every gradient that it stands for."""
    import torch
    from torch.utils import _pytree

    if not isinstance(gradients, tuple):
        gradients = (gradients,)
    if len(gradients) != len(arguments):
        from . import UserError

        raise UserError(
            f"[custom_vjp] bwd returned {len(gradients)} gradients, expected one for each of the {len(arguments)} "
            "arguments; return a tuple, with None for an argument that has none"
        )

    def fill(gradient, argument):
        if gradient is None:
            return _pytree.tree_map(lambda leaf: ABSENT if isinstance(leaf, torch.Tensor) else leaf, argument)
        if isinstance(argument, dict):
            return {key: fill(gradient[key], argument[key]) for key in argument}
        if isinstance(argument, (list, tuple)):
            return type(argument)(fill(*pair) for pair in zip(gradient, argument, strict=True))
        return gradient

    return (tuple(fill(*pair) for pair in zip(gradients, arguments)), {})
