"""Objects that hold tensors and are reached, shared, derived or looked at in other ways: each call beside eager."""
import weakref

import diptych
import pytest
import torch
from beside_eager import Cases
from kinds_of_objects import KINDS, Box, Derived
from places_cases import CALLS, alike, told

CASES = Cases()  # makers of (function of x and an object, maker of the object, what the caller does before a call)


def nothing(number, box):
    pass


def steps(x, box):
    return box.step(x) * 2


for _kind in KINDS:
    CASES[_kind.__name__] = lambda kind=_kind: (steps, lambda: kind(h=torch.zeros(3)), nothing)


@CASES
def class_attribute_changes():
    class Mine(Box):
        pass

    def before(number, box):
        Mine.scale = 2.0 + number // 3

    return steps, lambda: Mine(h=torch.zeros(3)), before


@CASES
def method_changes():
    class Mine(Box):
        pass

    def before(number, box):
        if number == 4:
            Mine.step = lambda self, x: setattr(self, "h", x * 5) or self.h

    return steps, lambda: Mine(h=torch.zeros(3)), before


@CASES
def property_changes_state():
    class Mine(Box):
        @property
        def next(self):
            self.h = self.h + 1
            return self.h

    return (lambda x, box: box.next * x + box.next), lambda: Mine(h=torch.zeros(3)), nothing


@CASES
def in_a_set_of_the_closure():
    known = set()

    def f(x, box):
        box.h = box.h + x
        return box.h * (2 if box in known else 3)

    def before(number, box):
        if number in (2, 5):
            known.symmetric_difference_update({box})

    return f, lambda: Box(h=torch.zeros(3)), before


@CASES
def key_of_a_dict_of_the_closure():
    known = {}

    def f(x, box):
        box.h = box.h + x
        return box.h * known.get(box, 3)

    def before(number, box):
        if number == 3:
            known[box] = 7

    return f, lambda: Box(h=torch.zeros(3)), before


@CASES
def weak_key_of_the_closure():
    known = weakref.WeakKeyDictionary()

    def f(x, box):
        box.h = box.h + x
        return box.h * known.get(box, 3)

    def before(number, box):
        if number == 3:
            known[box] = 7

    return f, lambda: Box(h=torch.zeros(3)), before


@CASES
def also_a_variable():
    held = [None]

    def f(x, box):
        box.n = x * 2
        return x * (3 if held[0] is None else held[0].n)

    def before(number, box):
        held[0] = box if number in (3, 4) else None

    return f, lambda: Box(n=None), before


@CASES
def list_of_the_object_is_a_variable():
    held = [torch.ones(3)]

    def f(x, box):
        box.all[0] = box.all[0] + x
        return held[0] * x

    return f, lambda: Box(all=held), nothing


@CASES
def list_that_the_caller_keeps():
    held = []

    def f(x, box):
        box.all.append(x * 2)
        if len(box.all) > 2:
            del box.all[0]
        return sum(box.all)

    def before(number, box):
        held[:] = [box.all] if number < 4 else []

    return f, lambda: Box(all=[]), before


@CASES
def cycles():
    def make():
        box = Box(h=torch.zeros(3), child=Box(h=torch.ones(3)))
        box.child.parent = box
        box.me = box
        return box

    def f(x, box):
        box.child.parent.me.h = box.child.h + x
        box.child.h = box.me.h * 0.5
        return box.h * 2

    return f, make, nothing


@CASES
def tensor_in_two_attributes():
    def f(x, box):
        box.a = box.a + x.detach()
        box.b.mul_(0.5)
        box.c = box.a
        return x * box.b + box.c

    def make():
        one = torch.ones(3)
        return Box(a=one, b=one, c=one)

    return f, make, nothing


@CASES
def other_things_inside():
    def f(x, box):
        box.seen.add(len(box.seen))
        box.h = box.h + x
        return box.h * len(box.seen)

    return f, lambda: Box(h=torch.zeros(3), seen=set(), ordered={1: 2, "a": 3}), nothing


@CASES
def dict_of_numbers():
    def f(x, box):
        box.flags[box.n % 2] = True
        box.h = box.h + x
        return box.h * len(box.flags)

    return f, lambda: Box(h=torch.zeros(3), flags={}, n=0), nothing


@CASES
def class_of_the_object_changes():
    def f(x, box):
        box.h = box.h + x
        box.__class__ = Derived if type(box) is Box else Box
        return box.step(x)

    return f, lambda: Box(h=torch.zeros(3)), nothing


@CASES
def order_of_attributes():
    def f(x, box):
        h = box.h
        del box.h
        box.h = h + x
        return box.h * 2

    return f, lambda: Box(h=torch.zeros(3), z=1), nothing


@CASES
def objects_in_a_list():
    def f(x, boxes):
        for index, box in enumerate(boxes["all"]):
            box.h = box.h * 0.5 + x * index
        return sum(box.h for box in boxes["all"])

    def make():
        one = Box(h=torch.zeros(3))
        return {"all": [one, Box(h=torch.ones(3)), one]}

    return f, make, nothing


@CASES
def list_of_arguments_is_changed():
    def f(x, boxes):
        boxes[0].h = boxes[0].h + x
        boxes[1] = x * 2
        return boxes[0].h

    return f, lambda: [Box(h=torch.zeros(3)), None], nothing


@CASES
def exception_in_the_middle():
    def f(x, box):
        box.h = box.h + x
        if box.fails:
            raise ValueError("in the middle")
        box.g = box.h * 2
        return box.g

    def before(number, box):
        box.fails = number in (3, 4)

    return f, lambda: Box(h=torch.zeros(3), g=None, fails=False), before


@CASES
def branches_on_what_it_holds():
    def f(x, box):
        if box.h.sum() > 1:
            box.h = box.h * 0.1
        box.h = box.h + x.abs()
        return box.h * box.h.sum().item()

    return f, lambda: Box(h=torch.zeros(3)), nothing


@CASES
def grows_without_end():
    def f(x, box):
        box.all.append(x * 2)
        return box.all[-1] + len(box.all)

    return f, lambda: Box(all=[]), nothing


@CASES
def another_object_and_nothing_in_between():
    def f(x, box):
        other = Box(h=x * 2)
        box.last, box.h = box.h, other.h
        return box.h + 1

    def before(number, box):
        if number == 3:
            box.h = None
        if number == 4:
            box.h = torch.zeros(3, dtype=torch.float64)

    return f, lambda: Box(h=torch.zeros(3), last=None), before


RUN_THEMSELVES = (
    "Written OfModule OfNamespace in_a_set_of_the_closure list_that_the_caller_keeps other_things_inside class_of_the_object_changes "
    "list_of_arguments_is_changed".split()
)


def called(function, make, before, call):
    torch.manual_seed(0)
    box, found = make(), []
    for number in range(CALLS):
        before(number, box)
        x = torch.randn(3)
        try:
            result = call(x, box)
        except (ValueError, TypeError, AttributeError) as error:
            result = repr(error)
        found.append(told((x, result, box), {}))
        if number == 4 and make.__code__.co_freevars != ("held",):
            box = make()
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_beside_eager(name):
    function, make, before = CASES[name]()
    expected = called(function, make, before, function)
    function, make, before = CASES[name]()
    compiled = diptych.aot_function(function)
    found = called(function, make, before, compiled)
    for number, (ours, theirs) in enumerate(zip(found, expected)):
        assert alike(ours, theirs), f"call {number}: {ours} is not {theirs}"
    assert (compiled.stats().hits == 0) == (name in RUN_THEMSELVES), compiled.stats()
