"""What stands between a capture's watch and the keepers of compiled functions, which do not know each other: the capture that runs
on this thread, the call that it belongs to, and what traces have found out about functions."""
import collections
import threading

import torch


class Capture:
    """What the parts of a trace tell the watch of a capture, and what it tells them."""

    def __init__(self):
        self.function = None  # the captured one, once it runs
        self.reasons = []  # what the function did that its graph won't do, in words
        self.bound = {}  # of the reasons, those that are tensors which the function has put into Places
        self.lent = []  # (tensor, number of its value, array of its elements, their bytes)
        self.known = {}  # all objects that were looked at, by id
        self.reached = set()  # the ids of what the function leads to, arguments apart
        self.has_hidden_state = False  # whether the function that fails may have changed objects that are made of trees


class _Present(threading.local):
    """What runs on this thread."""

    capture = None  # of a function that may run itself
    call = None  # the call of a function that takes what its places hold
    names = ()  # of the places that the function that runs has among its arguments and results


present = _Present()
noticed = {}  # the Places and the classes of objects that a trace of a compiled function has found, by its id
_modules = {}  # references to the modules whose forwards compiled functions are, or None, by the ids of all that ask for Places
_likes = {}  # the classes whose objects a compiled function takes apart, by its id
_num_keepers = collections.Counter()  # of a compiled function, by its id


class Anew(Exception):
    """Ends a trace of a function that will be captured anew, with objects taken apart; else a refusal in these words."""

    is_undone = False  # whether the host is as it was before the trace


def is_tracing():
    """Whether operators that are called on this thread are recorded."""
    return torch._C._dispatch_tls_is_dispatch_key_included("CustomRNGKeyId")


def may_do(what, places=()):
    """Tells the capture that runs on this thread what its function did, that it is undone, and in which Places it has put
    tensors, if that is all. Returns whether the function itself may run in its place."""
    capture = present.capture
    if capture is not None:
        capture.reasons.append(what)
        if places:
            capture.bound[what] = places
    return capture is not None


def lend(tensor, array, number):
    """Tells the capture that runs on this thread of an array that shares its memory with a tensor in eager. `number`: that of the
    tensor's value."""
    if present.capture is not None:
        present.capture.lent.append((tensor, number, array, array.tobytes()))


def fails_with_state():
    """Called when the function that is captured raises an exception and may have changed what the watch does not see."""
    if present.capture is not None:
        present.capture.has_hidden_state = True


def known_objects():
    """The objects, by id, that the capture that runs on this thread has found before its function ran."""
    return present.capture.known if present.capture is not None else {}


def captures_anew_for(classes, refusal):
    """Ends the capture that runs on this thread if its function will be captured anew with objects of some classes taken apart:
    `classes` finds them, given the ids of what the function leads to. `refusal`: what its user is told if that cannot be."""
    capture = present.capture
    if capture is not None and capture.function is not None and notice(capture.function, classes=classes(capture.reached)):
        raise Anew(refusal)


def is_kept(registry, name):
    """Whether the function that runs on this thread is captured with a place among its arguments and results."""
    return (id(registry), name) in present.names


def meets_what_is_given(function, reached):
    """Whether one of the objects, lists, dicts and tensors that the present call of a function is given apart from its arguments is
    among those with these ids."""
    return present.call is not None and present.call.function is function and present.call.meets(reached)


def notice(function, places=(), classes=()):
    """Called when all that a trace of a function has done on the host is to put tensors into these places, or to change or to
    return objects of these classes. Returns whether the function will be captured anew for them."""
    classes = set(classes) - _likes.get(id(function), {}).keys()
    if id(function) not in _modules or not (places or classes):
        return False
    noticed[id(function)] = list(places), classes
    return True


def module_of(function):
    """Returns the module whose forward a compiled function is, which is the same one in each call; None for another function."""
    module = _modules.get(id(function))
    return module() if module is not None else None


def classes_of(function):
    """The classes whose objects a compiled function takes apart."""
    return _likes.get(id(function), {}).keys()


def hold(function, module, likes):
    """Called when a Keeper takes a function, given by its id, which takes objects of the classes `likes` apart."""
    _num_keepers[function] += 1
    _modules[function], _likes[function] = module, likes


def let_go(function):
    """Called when a Keeper lets go of a function, given by its id."""
    _num_keepers[function] -= 1
    if not _num_keepers[function]:
        for held in (_num_keepers, _modules, _likes, noticed):
            held.pop(function, None)
