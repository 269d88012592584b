"""What is assumed of CPython beyond its documentation, a test each: one that fails with a new Python says what there is to port."""
import itertools
import operator
import sys
import types

import pytest
import torch

import diptych
from diptych._host import contents, places


class Place:
    """Holds a value as places of objects do."""

    def __init__(self, value):
        self.held = [value]

    def read(self):
        return self.held[0]


def test_assumes_that_getrefcount_tells_who_else_holds_a_part():
    shared = [torch.ones(1)]
    assert places._parts_are_owned([[torch.ones(1)], {"a": [1]}]) and places._parts_are_owned(({"a": {}},))
    assert not places._parts_are_owned([shared]) and not places._parts_are_owned({"a": shared})
    owned, not_owned = places.can_be_given(Place([torch.ones(1)])), places.can_be_given(Place(shared))  # an assert would hold the list
    assert owned and not not_owned


ITERATORS = {
    "accumulate": lambda: itertools.accumulate([1, 2, 4]),
    "chain": lambda: itertools.chain([1, 2], [3]),
    "combinations": lambda: itertools.combinations([1, 2, 3], 2),
    "compress": lambda: itertools.compress([1, 2, 3], [1, 1, 1]),
    "count": lambda: itertools.count(3),
    "cycle": lambda: itertools.cycle([1, 2]),
    "dropwhile": lambda: itertools.dropwhile(operator.not_, [1, 2]),
    "islice": lambda: itertools.islice([1, 2, 3], 3),
    "permutations": lambda: itertools.permutations([1, 2, 3]),
    "product": lambda: itertools.product([1, 2], [3, 4]),
    "repeat": lambda: itertools.repeat(1, 3),
    "takewhile": lambda: itertools.takewhile(operator.pos, [1, 2]),
    "zip_longest": lambda: itertools.zip_longest([1, 2], [3]),
    "enumerate": lambda: enumerate([1, 2]),
    "filter": lambda: filter(None, [1, 2]),
    "list": lambda: iter([1, 2]),
    "map": lambda: map(abs, [1, 2]),
    "range": lambda: iter(range(3)),
    "reversed": lambda: reversed([1, 2]),
    "zip": lambda: zip([1, 2], [3, 4]),
}


@pytest.mark.parametrize("make", ITERATORS.values(), ids=ITERATORS)
def test_assumes_that_reduce_tells_what_an_iterator_has_left(make):
    iterator = make()
    before, again = contents._state_of_iterator(iterator), contents._state_of_iterator(iterator)
    next(iterator)
    assert before == again != contents._state_of_iterator(iterator)


def test_assumes_that_a_generator_frame_tells_where_it_is():
    def generator():
        yield 1
        yield 2

    iterator = generator()
    before = contents._state_of_iterator(iterator)
    next(iterator)
    assert before != contents._state_of_iterator(iterator)


def test_assumes_that_classes_have_numbers_that_change_with_them():
    class Base:
        factor = 2

    class Derived(Base):
        pass

    valid_version_tag = 1 << 19
    Derived.factor
    assert Derived.__flags__ & valid_version_tag
    Base.factor = 3
    assert not Derived.__flags__ & valid_version_tag
    function = diptych.aot_function(lambda x: x * Derived.factor)
    assert function(torch.ones(1)).item() == 3
    Base.factor = 5
    assert function(torch.ones(1)).item() == 5


def test_assumes_that_a_profiler_is_put_back_by_the_threads_own_fields():
    seen = []
    profiler = lambda frame, event, argument: seen.append(event)  # noqa: E731
    sys.setprofile(profiler)
    try:
        diptych.aot_function(lambda x: x * 2)(torch.ones(1))
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert "call" in seen


@pytest.mark.parametrize("name", ["grad", "_grad", "_version", "data"])
def test_assumes_that_attributes_of_tensors_are_descriptors_with_functions(name):
    assert type(vars(torch._C.TensorBase)[name]) is types.GetSetDescriptorType
    x = torch.ones(2, requires_grad=True)
    x.sum().backward()
    assert x.grad.tolist() == [1, 1] and x.data.tolist() == [1, 1] and x._version == 0


def test_assumes_that_hooks_of_all_modules_are_found_in_torchs_dict():
    model = diptych.aot_module(torch.nn.Linear(2, 2))
    model(torch.ones(1, 2))
    seen = []
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *args: seen.append(1))
    try:
        model(torch.ones(1, 2))
    finally:
        handle.remove()
    assert seen
