"""What a function reads of its tensors besides their values: class, attributes, layout, memory. A change of it is seen."""
import diptych
import torch
from torch import nn


def ones():
    return torch.ones(2, requires_grad=True)


def agree_while(f, change, *arguments, calls=4):
    """The function beside the compiled one over calls, before each of which change(call) is made; the statistics."""
    compiled = diptych.aot_function(f)
    for call in range(calls):
        change(call)
        torch.testing.assert_close(compiled(*arguments), f(*arguments), rtol=0, atol=0)
    return compiled.stats()


def test_the_dtype_of_a_captured_tensor():
    w = torch.ones(2)

    def change(call):
        w.data = w.data.double() if call == 1 else w.data.half() if call == 2 else w.data

    assert agree_while(lambda x: x.to(w.dtype), change, torch.ones(2)).misses == 3


def test_the_layout_of_a_captured_tensor():
    w = torch.ones(2, 2)

    def change(call):
        w.data = (torch.ones(2, 2), torch.ones(2, 4)[:, ::2], torch.ones(2, 2), torch.ones(2, 2).t())[call]

    agree_while(lambda x: x * 2 if w.is_contiguous() else x * 3, change, torch.ones(2))
    agree_while(lambda x: x * 2 if w.is_contiguous() else x * 3, lambda call: w.t_(), torch.ones(2))


def test_the_offset_and_the_history_of_a_captured_tensor():
    base, w = torch.arange(4.0), torch.arange(4.0)[:2]

    def change(call):
        w.set_(base[call:])

    agree_while(lambda x: x * w.storage_offset(), change, torch.ones(2), calls=3)
    v, leaf = torch.ones(2), ones()
    agree_while(lambda x: x * 2 if v.grad_fn is None else x * 3, lambda call: v.mul_(leaf) if call == 2 else None, torch.ones(2))


def test_the_offset_of_an_argument():
    base, compiled = torch.arange(4.0), diptych.aot_function(lambda x: x * (x.storage_offset() + 1))
    for start in (0, 1, 2):
        x = base[start : start + 2]
        torch.testing.assert_close(compiled(x), x * (start + 1))
    assert "reads where a tensor lies (Tensor.storage_offset)" in compiled.stats().last_original


def test_the_memory_of_a_captured_tensor():
    import numpy

    w = torch.ones(2)
    agree_while(lambda x: x * float(numpy.from_dlpack(w)[0]), lambda call: w.fill_(call), torch.ones(2))
    first = w.data_ptr()

    def change(call):
        w.data = torch.ones(2) if call == 2 else w.data

    agree_while(lambda x: x * 2 if w.data_ptr() == first else x * 3, change, torch.ones(2))


def test_the_class_of_an_argument():
    compiled = diptych.aot_function(lambda p: p * 2 if isinstance(p, torch.nn.Parameter) else p * 3 if isinstance(p, torch.nn.Buffer) else p * 4)
    for _ in range(2):
        torch.testing.assert_close(compiled(torch.nn.Parameter(torch.ones(2))), torch.full((2,), 2.0), check_stride=False)
        torch.testing.assert_close(compiled(torch.nn.Buffer(torch.ones(2))), torch.full((2,), 3.0))
        torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 4.0))
        torch.testing.assert_close(compiled(torch.ones(2, requires_grad=True)), torch.full((2,), 4.0))
    assert compiled.stats().originals == 0 and compiled.stats().entries == 4


def test_a_parameter_comes_back_as_it_is():
    p = torch.nn.Parameter(torch.ones(2))
    compiled = diptych.aot_function(lambda p: (p, type(p) is torch.nn.Parameter, p * 2))
    for _ in range(2):
        same, is_parameter, y = compiled(p)
        assert same is p and is_parameter and type(y) is torch.Tensor
        y.sum().backward()
    torch.testing.assert_close(p.grad, torch.full((2,), 4.0))


def test_attributes_of_an_argument():
    x = torch.ones(2)

    def change(call):
        if call:
            x.tag = float(call // 2)

    assert agree_while(lambda x: x * getattr(x, "tag", 3.0), change, x, calls=6).originals == 0


def test_attributes_of_captured_tensors_and_parameters():
    w, module = torch.ones(2), torch.nn.Linear(2, 2)
    w.tag = module.weight.tag = [2.0]

    def change(call):
        w.tag[0] = float(call // 2)

    assert agree_while(lambda x: x * w * w.tag[0], change, torch.ones(2), calls=6).hits == 3
    assert agree_while(lambda x: x * module.weight.tag[0] + module(x), change, torch.ones(2), calls=6).hits == 3
    assert module.weight.tag is w.tag


def test_attributes_that_the_function_sets():
    w = torch.ones(2)

    def f(x):
        x.seen = w.seen = True
        y = x * 2
        y.kind = "product"
        return y

    for call in (f, diptych.aot_function(f)):
        for _ in range(3):
            x = torch.ones(2)
            del_attributes(w)
            y = call(x)
            assert x.seen and w.seen and y.kind == "product"


def del_attributes(tensor):
    vars(tensor).clear()


def test_a_parameter_that_the_function_makes():
    def f(x):
        return x * torch.nn.Parameter(torch.ones(2)) * 2

    agree_while(f, lambda call: None, torch.ones(2))


def test_data_of_a_captured_tensor():
    def of(change):
        w, layer = nn.Parameter(torch.ones(3)), nn.Linear(3, 2)
        nn.init.ones_(layer.weight), nn.init.zeros_(layer.bias)
        return lambda x: change(w, layer, x)

    changes = (
        lambda w, layer, x: (w.data.mul_(2), x * w)[1],
        lambda w, layer, x: (x * w, w.data.add_(1))[0],
        lambda w, layer, x: (layer.weight.data.clamp_(-0.1, 0.1), layer(x))[1],
        lambda w, layer, x: (w.data.mul_(0.9).add_(layer.weight.data.sum(), alpha=0.1), layer(x) + w.sum())[1],
        lambda w, layer, x: x * w.data + w,
        lambda w, layer, x: (w.data[1:].zero_(), x * w)[1],
    )
    for change in changes:
        eager, compiled = of(change), diptych.aot_function(of(change))
        for _ in range(3):
            expected, got = eager(torch.ones(3)), compiled(torch.ones(3))
            torch.testing.assert_close(got, expected)
            assert got.requires_grad == expected.requires_grad
        assert compiled.stats().misses == 1 and compiled.stats().originals == 0


def test_data_of_what_is_never_met_itself():
    w, layer = torch.ones(3), nn.Linear(3, 2)
    outside = w.data
    functions = (
        lambda x: x * w.data,
        lambda x: (layer.weight.data.clamp_(-0.1, 0.1), x * 2 + layer.weight.detach().sum())[1],
        lambda x: w.data * 1,
        lambda x: diptych.scan(lambda c, i: (c * w.data, c), x, None, length=2)[0],
        lambda x: x * w.detach() + x.data,
        lambda x: (outside.mul_(2), x * w)[1],
    )
    for function in functions:
        compiled = diptych.aot_function(function)
        for value in (3, 5):
            results = []
            for each in (function, compiled):
                w.fill_(value), layer.weight.data.fill_(value)
                results += [each(torch.ones(3)), w.clone(), layer.weight.detach().clone()]
            torch.testing.assert_close(results[:3], results[3:])
    w.data = torch.full((3,), 7.0)
    torch.testing.assert_close(diptych.aot_function(functions[0])(torch.ones(3)), w)


def test_an_argument_that_is_captured_as_well():
    """In another call it is another tensor, and the captured one is what it was."""
    w = torch.ones(3, requires_grad=True)
    held = {"w": w}
    for function in (lambda a: (a * w).sum(), lambda a: (a * held["w"] + a).sin().sum(), lambda a: (a * 2, w * 1)[1].sum() + a.sum()):
        compiled = diptych.aot_function(function)
        for value in (None, 2.0, 3.0, None, 2.0):
            a = w if value is None else torch.full((3,), value, requires_grad=True)
            assert torch.equal(compiled(a), function(a))
            torch.testing.assert_close(torch.autograd.grad(compiled(a), [a, w]), torch.autograd.grad(function(a), [a, w]))
        assert compiled.stats().entries == 2


def test_an_argument_that_is_captured_and_written_to():
    w = torch.ones(3)

    def function(a):
        a.add_(1)
        return w * a

    compiled = diptych.aot_function(function)
    for own in (True, False, True, False):
        results = []
        for each in (function, compiled):
            w.fill_(1)
            a = w if own else torch.ones(3)
            results.append((each(a), a.clone(), w.clone()))
        torch.testing.assert_close(results[0], results[1])
