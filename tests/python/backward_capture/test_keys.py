"""What a captured backward is known by: modes round it, hooks and how many there are, and the object that counts it."""
import threading

import diptych
import torch

from passes import Fan, beside_eager, capture, same


def test_what_surrounds_a_pass_is_a_part_of_its_key():
    def look(dtype):
        torch.manual_seed(5)
        x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
        loss = (x @ w).square().sum()
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss.backward()
        return x.grad, w.grad

    kinds = [None, torch.bfloat16, None, torch.float16, torch.bfloat16]
    expected = [look(dtype) for dtype in kinds]
    with capture() as captured:
        same([look(dtype) for dtype in kinds], expected)
    assert captured.stats().captures == 3 and captured.stats().hits == 2
    assert captured.stats().misses_by_reason["other state"] == 2


def grow(leaf):
    leaf.grad.mul_(1.5)


def test_numbers_of_hooks_may_change():
    def look(count, kind):
        x = torch.ones(2, requires_grad=True)
        y = x * 2
        for _ in range(count):
            if kind == "tensor":
                y.register_hook(lambda gradient: gradient * 1.5)
            elif kind == "pre":
                y.grad_fn.register_prehook(lambda gradients: tuple(gradient * 1.5 for gradient in gradients))
            elif kind == "post":
                y.grad_fn.register_hook(lambda inputs, outputs: tuple(None if i is None else i * 1.5 for i in inputs))
            else:
                x.register_post_accumulate_grad_hook(grow)
        y.sum().backward()
        return x.grad

    counts = (0, 1, 256, 3, 0, 257)
    for kind in ("tensor", "pre", "post", "accumulated"):
        expected = [look(min(count, 8), kind) for count in counts]
        with capture():
            same([look(min(count, 8), kind) for count in counts], expected)
    silent = [look_silently(count) for count in counts]
    with capture():
        assert [look_silently(count) for count in counts] == silent


def look_silently(count):
    seen = []
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    for i in range(count):
        y.register_hook(lambda gradient, i=i: seen.append(i))
    y.sum().backward()
    return seen


def test_hooks_of_a_functions_node_run_once():
    def look():
        order = []
        x = torch.ones(2, requires_grad=True)
        y = Fan.apply(x, 1)
        y.grad_fn.register_prehook(lambda gradients: order.append("pre"))
        y.grad_fn.register_hook(lambda inputs, outputs: order.append("post"))
        y.register_hook(lambda gradient: order.append("tensor"))
        y.sum().backward()
        return x.grad, order

    beside_eager(look)


def test_statistics_belong_to_the_object():
    def step(size):
        x = torch.ones(size, requires_grad=True)
        (x.cos() * x).sum().backward()

    diptych.backward_capture.reset()
    outer, inner = capture(), capture()
    with outer:
        step(2)
        with inner:
            step(2)
            thread = threading.Thread(target=lambda: step(2))
            thread.start()
            thread.join()
        step(2)
    step(2)
    assert (outer.stats().captures, outer.stats().hits) == (1, 2)
    assert (inner.stats().captures, inner.stats().hits) == (0, 1)
    with inner:
        assert inner.stats().hits == 0
    assert diptych.backward_capture.statistics().hits == 2
    assert capture().stats().misses == []
