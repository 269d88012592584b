"""A compiled function beside eager on several calls: results, gradients and arguments."""
import diptych
import torch


def agree(function, *make_args, calls=2):
    """Calls `function` in eager and compiled on equal arguments; compares results and the leaves' gradients."""
    compiled = diptych.aot_function(function)
    for _ in range(calls):
        torch.manual_seed(0)
        eager_args = [make() for make in make_args]
        torch.manual_seed(0)
        our_args = [make() for make in make_args]
        torch.manual_seed(1)
        expected = function(*eager_args)
        torch.manual_seed(1)
        got = compiled(*our_args)
        compare(expected, got)
        losses = [sum(t.sum() for t in tensors(result) if t.requires_grad) for result in (expected, got)]
        if isinstance(losses[0], torch.Tensor):
            for loss in losses:
                loss.backward()
        for a, b in zip(tensors(eager_args), tensors(our_args), strict=True):
            torch.testing.assert_close(a, b)
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:
                torch.testing.assert_close(a.grad, b.grad)
    assert compiled.stats().misses == 1 and compiled.stats().hits == calls - 1, compiled.stats().last_miss


def tensors(tree):
    from torch.utils import _pytree

    leaves, _ = _pytree.tree_flatten(tree)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def compare(expected, got):
    assert type(expected) is type(got)
    a, b = tensors(expected), tensors(got)
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert x.requires_grad == y.requires_grad
        assert x.stride() == y.stride()
        torch.testing.assert_close(x, y)


def leaf(*sizes):
    return lambda: torch.randn(*sizes, requires_grad=True)
