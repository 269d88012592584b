"""Values of other kinds than numbers and tensors as arguments, in closures and as results, and values without an end."""
import datetime
import decimal
import fractions
import pathlib

import diptych
import pytest
import torch


@pytest.mark.parametrize("number", [1j, 2 + 3j, complex("nan"), 0j])
def test_a_complex_number(number):
    compiled, x = diptych.aot_function(lambda x, c: x * c), torch.randn(3)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, number), x * number, equal_nan=True)
        torch.testing.assert_close(diptych.aot_function(lambda x: x * number)(x), x * number, equal_nan=True)
    torch.testing.assert_close(compiled(x, number.conjugate()), x * number.conjugate(), equal_nan=True)


def test_a_complex_number_as_a_result():
    compiled = diptych.aot_function(lambda x, c: (x * 2, c, {"c": c + 1j}))
    for number in (1j, 2j, 1j):
        _, first, second = compiled(torch.ones(2), number)
        assert (first, second["c"]) == (number, number + 1j)
    assert compiled.stats().misses == 2


VALUES = {
    "Fraction": (fractions.Fraction(1, 3), fractions.Fraction(2, 3), float),
    "Decimal": (decimal.Decimal("0.1"), decimal.Decimal("0.10001"), float),
    "date": (datetime.date(2020, 1, 2), datetime.date(2020, 1, 3), lambda value: float(value.day)),
    "datetime": (datetime.datetime(2020, 1, 2), datetime.datetime(2020, 1, 2, 3), lambda value: float(value.hour + 1)),
    "timedelta": (datetime.timedelta(seconds=1), datetime.timedelta(seconds=2), lambda value: value.total_seconds()),
    "path": (pathlib.Path("a"), pathlib.Path("ab"), lambda value: float(len(str(value)))),
    "frozenset": (frozenset("a"), frozenset("ab"), lambda value: float(len(value))),
    "set": ({1, 2}, {1, 3}, lambda value: float(sum(value))),
    "bytes": (b"a", b"b", lambda value: float(value[0])),
    "tuple": ((1, (2.0, "x")), (1, (3.0, "x")), lambda value: value[1][0]),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_counts_by_what_it_is(name):
    one, other, number = VALUES[name]
    compiled, x = diptych.aot_function(lambda x, value: x * number(value)), torch.ones(2)
    held = [one]
    closed = diptych.aot_function(lambda x: x * number(held[0]))
    for value in (one, other, one):
        held[0] = value
        torch.testing.assert_close(compiled(x, value), x * number(value))
        torch.testing.assert_close(closed(x), x * number(value))
    assert compiled.stats().misses == 2 and closed.stats().misses == 2


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale):
        self.scale = scale


def test_an_object_that_nothing_can_refer_to_weakly():
    compiled, x = diptych.aot_function(lambda x, held: x * held.scale), torch.ones(2)
    for scale in (2.0, 3.0, 2.0):
        torch.testing.assert_close(compiled(x, Slotted(scale)), x * scale)
    assert compiled.stats().misses == 2


def nested(make, depth):
    value = torch.ones(2)
    for _ in range(depth):
        value = make(value)
    return value


def within_itself(value):
    if isinstance(value, dict):
        value["self"] = value
    else:
        value.append(value)
    return value


ENDLESS = {
    "a list that holds itself": lambda: within_itself([torch.ones(2)]),
    "a dict that holds itself": lambda: within_itself({"x": torch.ones(2)}),
    "two lists that hold each other": lambda: (lambda a, b: (a.append(b), b.append(a), a)[2])([torch.ones(2)], []),
    "a list within lists": lambda: nested(lambda value: [value], 20_000),
    "a tuple within tuples": lambda: nested(lambda value: (value,), 20_000),
    "a dict within dicts": lambda: nested(lambda value: {"a": value}, 20_000),
}
REFUSAL = r"\[tree\] '.*\.\.\.' is nested more than 500 levels deep, or contains itself"


@pytest.mark.parametrize("name", ENDLESS)
def test_what_has_no_end_is_refused(name):
    value, x = ENDLESS[name](), torch.ones(2)
    for call in (diptych.aot_function(lambda x, value: x * 2), lambda x, value: diptych.capture(lambda x, value: x * 2, x, value)):
        with pytest.raises(diptych.UserError, match=REFUSAL):
            call(x, value)
    with pytest.raises(diptych.UserError, match=REFUSAL):
        diptych.aot_function(lambda x: (x * 2, value))(x)
    with pytest.raises(diptych.UserError, match=REFUSAL):
        diptych.scan(lambda c, s: (c, s), value, x)


@pytest.mark.parametrize("name", [name for name in ENDLESS if "hold" not in name])
def test_what_is_nested_too_deep_in_a_closure_is_refused(name):
    value = ENDLESS[name]()
    with pytest.raises(diptych.UserError, match=REFUSAL):
        diptych.aot_function(lambda x: x * len(value))(torch.ones(2))


@pytest.mark.parametrize("name", [name for name in ENDLESS if "hold" in name])
def test_what_holds_itself_in_a_closure_is_read_once(name):
    value = ENDLESS[name]()
    compiled, x = diptych.aot_function(lambda x: x * len(value)), torch.ones(2)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), x * len(value))
    assert compiled.stats().misses == 1


def test_a_module_that_holds_itself():
    module = torch.nn.Linear(2, 2)
    module.child = module
    with pytest.raises(diptych.UserError, match=REFUSAL):
        diptych.aot_module(module, eager_fallback=False)(torch.ones(2))
    with pytest.warns(UserWarning, match=REFUSAL):
        torch.testing.assert_close(diptych.aot_module(module)(torch.ones(2)), module(torch.ones(2)))


def test_what_is_nested_within_reason():
    value, depth = nested(lambda value: [value], 200), 200
    compiled = diptych.aot_function(lambda value: nested_part(value, depth) * 2)
    torch.testing.assert_close(compiled(value), torch.full((2,), 2.0))


def nested_part(value, depth):
    for _ in range(depth):
        value = value[0]
    return value


def loss_and_extras(w, x):
    y = w * x
    return y.square().sum(), {"y": y, "w": w, "x": x}


def test_what_a_loss_computes_besides():
    w, x = torch.randn(3), torch.randn(3)
    for compiled in (diptych.value_and_grad(loss_and_extras, has_aux=True), diptych.value_and_grad(loss_and_extras, has_aux=True, backend="interpreter")):
        for _ in range(2):
            (value, extras), gradient = compiled(w, x)
            expected, (expected_value, expected_extras) = torch.func.grad_and_value(loss_and_extras, has_aux=True)(w, x)
            torch.testing.assert_close((value, extras, gradient), (expected_value, expected_extras, expected))
            assert not any(tensor.requires_grad for tensor in (value, extras["y"], extras["w"], gradient))
    gradient, extras = diptych.grad(loss_and_extras, has_aux=True)(w, x)
    torch.testing.assert_close((gradient, extras), torch.func.grad(loss_and_extras, has_aux=True)(w, x))


def test_extras_of_parameters_that_require_grad():
    w, x = torch.randn(3, requires_grad=True), torch.randn(3)
    (value, extras), gradient = diptych.value_and_grad(loss_and_extras, has_aux=True)(w, x)
    torch.testing.assert_close(gradient, 2 * w * x * x)
    (second,) = torch.autograd.grad(gradient.sum() + extras["y"].sum(), w)
    torch.testing.assert_close(second, 2 * x * x + x)


def test_a_loss_without_extras_is_refused():
    for role, function in (("a tuple of two", lambda w: w.sum()), ("one tensor", lambda w: (2.0, w.sum()))):
        with pytest.raises(diptych.UserError, match=rf"\[value_and_grad\] the function returned a .*expected {role}"):
            diptych.value_and_grad(function, has_aux=True)(torch.ones(2))




@pytest.mark.parametrize("make", [lambda x: x.new_tensor([1.0, 2.0, 3.0]), lambda x: (x * 2).new_tensor([1, 2], dtype=torch.int64), lambda x: x.new(3).fill_(2.0)])
def test_a_tensor_made_by_a_method_of_another(make):
    x = torch.randn(2, 3)
    compiled = diptych.aot_function(lambda x: (make(x), x.sin()))
    for _ in range(2):
        torch.testing.assert_close(compiled(x), (make(x), x.sin()))


@pytest.mark.parametrize("size", [4, 5, 16])
def test_a_transform_and_back(size):
    # The formula of the one reads the sizes of a gradient that the formula of the other has written to.
    def f(x):
        return torch.fft.irfft(torch.fft.rfft(x), n=size)

    for _ in range(3):
        x = torch.arange(float(size), requires_grad=True)
        weights = torch.arange(float(size)).cos()
        torch.testing.assert_close(torch.autograd.grad(diptych.aot_function(f)(x), x, weights), torch.autograd.grad(f(x), x, weights))


@pytest.mark.parametrize("target", [
    lambda: torch.zeros(20, 2)[:, 0], lambda: torch.zeros(40)[::2], lambda: torch.zeros(8, 8)[:, :5], lambda: torch.zeros(3, 4).t()[:2],
    lambda: torch.zeros(30, 40).t()[:20], lambda: torch.zeros(5, 6).t(), lambda: torch.zeros(4, 5, 6).permute(2, 0, 1)[:, 1:]])
@pytest.mark.parametrize("draw", [
    lambda x: x.normal_(), lambda x: x.uniform_(), lambda x: x.exponential_(), lambda x: x.random_(), lambda x: x.cauchy_(),
    lambda x: x.log_normal_(), lambda x: x.geometric_(0.3), lambda x: x.bernoulli_(0.4), lambda x: x.bernoulli_(torch.full(x.shape, 0.4))],
    ids=["normal", "uniform", "exponential", "random", "cauchy", "log_normal", "geometric", "bernoulli", "bernoulli of a tensor"])
def test_draws_into_tensors_with_gaps(draw, target):
    def run(function):
        torch.manual_seed(3)
        seen = []
        for _ in range(2):
            x = target()
            seen += [function(x) * 1, x, torch.rand(1)]
        return seen
    try:
        drawn = run(diptych.aot_function(lambda x: draw(x)))
    except diptych.UserError as error:
        assert "normal_ in scope" in str(error) and "draws into a tensor with gaps" in str(error)
        return
    for got, wanted in zip(drawn, run(draw)):
        assert torch.equal(got, wanted)


LAZY = [
    lambda x: x * 2 if x.conj().is_conj() else x * 3,
    lambda x: (x * 2).is_conj() or x.conj() * 2,
    lambda x: x * 2 if x.conj().imag.is_neg() else x * 3,
    lambda x: x * (2 if torch.is_conj(x.conj()) else 3),
    lambda x: x * (2 if torch.is_neg(x.conj().imag) else 3),
    lambda x: x.resolve_conj() * (2 if x.is_conj() else 3),
]


@pytest.mark.parametrize("number", range(len(LAZY)))
def test_whether_a_tensor_is_conjugated_lazily(number):
    compiled, x = diptych.aot_function(LAZY[number]), torch.tensor([1 + 2j, 3 - 1j])
    for given in (x, x.conj(), x):
        found, expected = compiled(given), LAZY[number](given)
        assert (found == expected) if isinstance(expected, bool) else torch.equal(found, expected)
    assert "asks whether a tensor is conjugated or negated lazily" in compiled.stats().last_original
