"""How a program of other people's libraries is run: in eager and in three ways to compile it, and what is seen of each."""
import os
import signal
import tempfile
import time
import traceback
import warnings
from functools import partial

import judge
import torch
from children import Died, in_child

import diptych
from diptych._dynamo import backend

PROGRAMS = {}  # by name, in the order of the table: (what is imported, the function)
BAD = ("WRONG", "exc", "broken", "crashed", "slow")
STEPS = 4


def program(*imports):
    """Registers a function of a Way that gives what is seen of a few steps; `imports` are the modules that it takes most time to import."""

    def register(run):
        PROGRAMS[run.__name__] = (imports, run)
        return run

    return register


class Way:
    """How a program is compiled: its model (M, C, or by Dynamo alone), or the function that it calls of it (F); eager where neither is."""

    def __init__(self, name="eager"):
        self.name, self._compiled = name, []

    def module(self, module):
        """The model as the program calls it."""
        if self.name == "M":
            self._compiled.append(partial(diptych.AotModule.stats, compiled := diptych.aot_module(module)))
            return compiled
        if self.name == "Dynamo":
            return torch.compile(module, backend="eager")
        return torch.compile(module, backend=self._of_dynamo) if self.name == "C" else module

    def function(self, function):
        """The function that the program calls, which takes the model and what it computes with."""
        if self.name != "F":
            return function
        compiled = diptych.aot_function(function)
        self._compiled.append(compiled.stats)
        return compiled

    def _of_dynamo(self, *args, **keywords):
        compiled = backend(*args, **keywords)
        self._compiled.append(compiled.stats)
        return compiled

    def outcome(self, before):
        """A word for what became of the calls, and numbers; before: eager_calls() at the beginning."""
        stats = [read() for read in self._compiled]
        hits, misses, originals = (sum(getattr(of, name) for of in stats) for name in ("hits", "misses", "originals"))
        reasons = [of.last_original for of in stats if of.originals]
        reasons += [why for why, count in diptych.eager_calls().items() if count != before.get(why, 0)]
        why = " ".join(reasons[0].split())[:200] if reasons else next((of.last_miss[:120] for of in stats if of.last_miss), "")
        word = "original" if reasons else "each" if misses > hits + len(stats) else "ok"
        return word if stats else "not called", f"{hits} hits, {misses} captures, {originals} originals: {why}"


def train(way, model, batches, loss=lambda model, *batch: model(*batch), rate=0.05):
    """Steps of SGD over batches, each a tuple: the losses, gradients after the first, and at the end parameters, buffers and the generator."""
    seen = judge.Seen()
    called, step = way.module(model), way.function(loss)
    optimizer = torch.optim.SGD(model.parameters(), rate)
    for number, batch in enumerate(batches):
        judge.seed(20 + number)
        value = step(called, *batch)
        optimizer.zero_grad()
        value.backward()
        if number == 0:
            seen.note_all("gradient", (parameter.grad for parameter in model.parameters()))
        optimizer.step()
        seen.note("loss", value)
    return note_state(seen, model)


def note_state(seen, model=None):
    """What is left of a program: parameters and buffers by name, and the generator."""
    if model is not None:
        for name, value in (*model.named_parameters(), *model.named_buffers()):
            seen.note(name, value)
    seen.note("the generator", torch.get_rng_state())
    return seen


def _run(run, way):
    judge.seed(3)
    return run(way)


def _observe(run, path):
    torch.save([(label, value) for label, value in _run(run, Way())], path)
    yield None


def _is_of_dynamo(run, error):
    """Whether Dynamo raises the same with a backend that does nothing."""
    torch._dynamo.reset()
    try:
        _run(run, Way("Dynamo"))
    except Exception as other:
        return type(other) is type(error)
    return False


def _judge(run, name, path):
    """Yields the word for a cell, and words. Eager runs once more afterwards: a library that a trace has broken is broken there too."""
    expected, way, before = torch.load(path, weights_only=False), Way(name), diptych.eager_calls()
    try:
        got = _run(run, way)
    except diptych.UserError as error:
        return (yield "refused", judge.words(error))
    except Exception as error:
        places = " < ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in reversed(traceback.extract_tb(error.__traceback__)[-3:]))
        word = "Dynamo's" if name == "C" and _is_of_dynamo(run, error) else "exc"
        return (yield word, f"{judge.words(error)} | {places}")
    if wrong := judge.difference(expected, got):
        return (yield "WRONG", wrong)
    try:
        broken = judge.difference(expected, _run(run, Way()))
    except Exception as error:
        broken = judge.words(error)
    yield ("broken", f"in eager, afterwards: {broken}") if broken else way.outcome(before)


def _quiet(work, seconds):
    """The work with no words on the standard streams, and an end."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    if "DIPTYCH_LOG" not in os.environ:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    torch.set_default_dtype(torch.float64)
    yield from work()


def cells(run, ways, seconds=240):
    """Yields (way, word, words, seconds) of a program, or of eager alone where that fails. Each runs in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path, began = os.path.join(folder, "seen"), time.time()
        try:
            list(in_child(partial(_quiet, partial(_observe, run, path), seconds)))
        except Died as died:
            yield "eager", "exc", f"eager ended with {died}", time.time() - began
            return
        for way in ways:
            began = time.time()
            try:
                (word, said), = in_child(partial(_quiet, partial(_judge, run, way, path), seconds))
            except Died as died:
                word, said = "slow" if died.signal == "SIGALRM" else "crashed", str(died)
            yield way, word, said, time.time() - began
