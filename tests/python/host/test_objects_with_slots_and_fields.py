"""Objects with slots, dataclasses and objects that compare by what they hold, given to functions that change them: each call beside eager."""
import copy
import dataclasses
import types

import diptych
import pytest
import torch
from beside_eager import Cases
from places_cases import alike
from test_objects_hazards import called, nothing

CASES = Cases()  # makers of (function of x and an object, maker of the object, what the caller does before a call)


class Slots:
    __slots__ = ("h", "new", "__own")
    scale = 2.0

    def __init__(self):
        self.h, self.__own = torch.zeros(3), torch.ones(3)

    def step(self, x):
        self.h, self.__own = self.h * 0.5 + x * self.__own, self.h + self.scale
        return self.h


class MoreSlots(Slots):
    __slots__ = ("keys", "__dict__", "__weakref__")

    def step(self, x):
        self.keys = [*getattr(self, "keys", [])[-1:], x]
        self.other = super().step(x)
        return self.other + len(self.keys)


class Hidden(Slots):
    h = property(lambda self: torch.ones(3), lambda self, value: None)


class Unset(Slots):
    __slots__ = ()

    def __getattr__(self, name):
        if name == "new":
            return torch.full((3,), 4.0)
        raise AttributeError(name)

    def step(self, x):
        return super().step(x) + self.new


@dataclasses.dataclass
class Fields:
    h: torch.Tensor = dataclasses.field(default_factory=lambda: torch.zeros(3))
    keys: list = dataclasses.field(default_factory=list)
    scale: float = 2.0

    def step(self, x):
        self.h = self.h * 0.5 + x * self.scale
        self.keys[:] = [*self.keys[-1:], self.h]
        return self.h


@dataclasses.dataclass(slots=True)
class SlotsOfFields:
    h: torch.Tensor = dataclasses.field(default_factory=lambda: torch.zeros(3))
    scale: float = 0.5

    def step(self, x):
        self.h = self.h * self.scale + x
        return self.h


@dataclasses.dataclass(frozen=True)
class Frozen:
    scale: float
    inner: Fields

    def step(self, x):
        return self.inner.step(x) * self.scale


@dataclasses.dataclass
class Outer:
    a: Fields = dataclasses.field(default_factory=Fields)
    b: SlotsOfFields = dataclasses.field(default_factory=SlotsOfFields)
    c: Slots = dataclasses.field(default_factory=Slots)

    def step(self, x):
        return self.a.step(x) + self.b.step(x) * self.c.step(x)


class Named:
    def __init__(self, name="mine"):
        self.name, self.h = name, torch.zeros(3)

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)

    def step(self, x):
        self.h = self.h + x
        return self.h


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    sizes: list = dataclasses.field(default_factory=lambda: [3])


def steps(x, box):
    return box.step(x) * 2


TAKEN_APART = (Slots, MoreSlots, Fields, SlotsOfFields, Outer, Named)
for _kind in (*TAKEN_APART, Hidden, Unset):
    CASES[_kind.__name__] = lambda kind=_kind: (steps, kind, nothing)
CASES["Frozen"] = lambda: (steps, lambda: Frozen(3.0, Fields()), nothing)


@CASES
def returned_as_well():
    return (lambda x, box: (box.step(x), box, {"again": [box]})), Slots, nothing


@CASES
def fields_returned_as_well():
    return (lambda x, box: (box.step(x), box, box.keys)), Fields, nothing


@CASES
def equal_to_its_name():
    """By a method of its own, which the object has in the graph, too."""
    return (lambda x, box: box.step(x) * (2 if box == types.SimpleNamespace(name="mine") else 3)), Named, lambda number, box: setattr(box, "name", "mine" if number % 2 else "other")


@CASES
def made_and_returned():
    def f(x, box):
        made = Slots()
        made.h, made.new = x * 2, box.step(x)
        return made, SlotsOfFields(x + 1)

    return f, Fields, nothing


@CASES
def slots_set_and_deleted():
    def f(x, box):
        if hasattr(box, "new"):
            box.h = box.h * box.new
            del box.new
        else:
            box.new = x + 1
        return box.h + x

    return f, Slots, nothing


@CASES
def compared_with_another():
    other = Named("other")

    def f(x, box):
        return box.step(x) * (2 if box == other else 3)

    def before(number, box):
        other.name = "mine" if number in (3, 6) else "other"

    return f, Named, before


@CASES
def key_by_its_name():
    known = {Named("other"): 5}

    def f(x, box):
        return box.step(x) * known.get(box, 3)

    def before(number, box):
        box.name = "other" if number in (2, 4) else "mine"

    return f, Named, before


@CASES
def fields_compared():
    def f(x, box):
        box.h = x * 2
        return box.h * (2 if box == Fields(box.h, box.keys, 2.0) else 3)

    def before(number, box):
        box.scale = 2.0 if number % 2 else 3.0

    return f, Fields, before


@CASES
def list_that_the_caller_keeps():
    kept = []

    def f(x, box):
        return box.step(x) * 2

    def before(number, box):
        kept[:] = [box.keys] if number in (3, 4) else []

    return f, Fields, before


@CASES
def class_of_slots_changes():
    class Mine(Slots):
        __slots__ = ()

    def before(number, box):
        Mine.scale = 2.0 + number // 3
        if number == 5:
            Mine.step = lambda self, x: setattr(self, "h", x * 5) or self.h

    return steps, Mine, before


@CASES
def class_of_fields_changes():
    @dataclasses.dataclass
    class Mine(Fields):
        factor = 1.0

        def step(self, x):
            return super().step(x) * self.factor

    def before(number, box):
        Mine.factor = 2.0 + number // 3

    return steps, Mine, before


@CASES
def raises_after_a_write():
    def f(x, box):
        box.step(x)
        if box.scale > 2:
            raise ValueError("mine")
        return box.h

    def before(number, box):
        box.scale = 3.0 if number in (2, 5) else 2.0

    return f, Fields, before


@CASES
def fields_that_the_function_also_reads():
    config = Config()

    def f(x, box):
        box["of"].step(x)
        return box["of"].h * box["config"].scale * config.scale

    def before(number, box):
        config.scale = 2.0 if number < 4 else 3.0

    return f, lambda: {"of": Fields(), "config": copy.copy(config)}, before


# A frozen one is a tree, which holds an object. The list of an object is returned, and so somebody else's. The function has another
# object of the class at hand.
RUN_THEMSELVES = ("Hidden", "Frozen", "fields_returned_as_well", "compared_with_another", "key_by_its_name")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_beside_eager(name):
    function, make, before = CASES[name]()
    expected = called(function, lambda: make(), before, function)
    function, make, before = CASES[name]()
    compiled = diptych.aot_function(function)
    found = called(function, lambda: make(), before, compiled)
    for number, (ours, theirs) in enumerate(zip(found, expected)):
        assert alike(ours, theirs), f"call {number}: {ours} is not {theirs}"
    assert (compiled.stats().hits == 0) == (name in RUN_THEMSELVES), compiled.stats()


@pytest.mark.parametrize("kind", TAKEN_APART)
def test_gradients_go_from_call_to_call(kind):
    def observed(call):
        torch.manual_seed(0)
        box, found = kind(), []
        for _ in range(4):
            x = torch.randn(3, requires_grad=True)
            y = call(x, box)
            found.append((y, y.requires_grad, *torch.autograd.grad(y.square().sum(), x, retain_graph=True)))
        return found

    compiled = diptych.aot_function(steps)
    torch.testing.assert_close(observed(compiled), observed(steps))
    assert compiled.stats().originals <= 1 or kind is not Slots, compiled.stats()
