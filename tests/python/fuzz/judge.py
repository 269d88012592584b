"""Runs a program in eager and compiled, and says how the two compare; and the same in processes of their own."""
import os
import pathlib
import re
import signal
import sys
import warnings

sys.path.append(str(pathlib.Path(__file__).parents[1]))

import children  # noqa: E402
import watch
from programs import Program, simpler
from watch import Refused, difference, is_of_versions

AGREED, ERROR_IN_BOTH, REFUSED, ONLY_EAGER_REFUSES = "equal to eager", "an error in both", "refused by UserError", "only eager refuses"
WRONG, FOREIGN, CRASHED, UNSTABLE, CAUGHT = "wrong", "error in foreign words", "crash", "eager differs from run to run", "found by the check"
FAULTS = (WRONG, FOREIGN, CRASHED)
SECONDS_OF_A_PROGRAM = 60


def message_class(text):
    """The first line of a message, without what varies from program to program."""
    line = re.sub(r"'[^']*'", "'_'", text.strip().split("\n")[0])
    line = re.sub(r"\[[-0-9, ]*\]", "[..]", line)
    line = re.sub(r"\w+\.py:\d+( \w+)?", "LINE", re.sub(r"<string>:\d+( \w+)?", "LINE", line))
    return re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "N", line)[:150]


def observe(program, wrap):
    """(what was seen, the error that ended it or None)."""
    log, names = [], {"__name__": "program"}
    exec(compile(program.text(), "<string>", "exec"), names)
    try:
        names["program"](wrap, log)
    except Exception as error:  # noqa: BLE001: what it is, is the question
        return log, error
    return log, None


def refused_by_one(expected, got):
    """Which of the two refuses a backward that the other runs, if all before it is equal: "eager", "compiled" or None."""
    for one, other in zip(expected, got):
        if Refused.MARK in (one, other) and one != other:
            return "eager" if one == Refused.MARK else "compiled"
        if difference(one, other):
            return None
    return None


def judge(program, how):
    """(outcome, key, details): equal keys fail in the same way. how: options of aot_function() besides the program's own."""
    import diptych

    def compiled(function, options):
        return diptych.aot_function(function, **options, **how)

    warnings.simplefilter("ignore")
    watch.tolerance[0] = 1e-2 if "float16" in program.text() else 2e-5
    expected, eager_error = observe(program, lambda function, options: function)
    again, error_again = observe(program, lambda function, options: function)
    if difference(expected, again) or type(eager_error) is not type(error_again):
        return UNSTABLE, "", ""
    got, error = observe(program, compiled)
    text = str(error)
    if isinstance(error, diptych.UserError):
        if text.startswith("[check"):
            return CAUGHT, message_class(text), text
        if eager_error is not None:
            return ERROR_IN_BOTH, message_class(text), text
        if where := difference(expected[: len(got)], got):
            return WRONG, f"before a refusal: {message_class(where.split(':', 1)[1])}", f"eager and compiled, in what is seen{where}"
        outcome = FOREIGN if text.startswith("[interpreter]") else REFUSED
        return outcome, message_class(text), text
    refuses = refused_by_one(expected, got)
    if refuses is not None:
        return (ONLY_EAGER_REFUSES if refuses == "eager" else WRONG), f"{Refused.MARK}, by {refuses} only", ""
    where = difference(expected, got)
    if error is not None and eager_error is not None:
        return ERROR_IN_BOTH, message_class(str(eager_error)), ""
    if error is not None:
        words = f"{type(error).__name__}: {text}"
        return FOREIGN, message_class(words), words
    if eager_error is not None:
        return ONLY_EAGER_REFUSES if is_of_versions(eager_error) else WRONG, "error in eager only: " + message_class(str(eager_error)), str(eager_error)
    if where is None:
        return AGREED, "", ""
    return WRONG, f"{'+'.join(sorted(set(program.kinds) - {'arithmetic'}))}: {message_class(where.split(':', 1)[1])}", f"eager and compiled, in what is seen{where}"


def in_child(programs, how):
    """The verdicts of programs, judged in a child; fewer than programs if the child dies, the last one of which says so."""

    def work():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for program in programs:
            signal.alarm(SECONDS_OF_A_PROGRAM)
            yield judge(program, how)

    verdicts = []
    try:
        for verdict in children.in_child(work):
            verdicts.append(tuple(verdict))
    except children.Died as died:
        verdicts.append((CRASHED, str(died), ""))
    return verdicts


def judge_all(programs, how, batch=40):
    """Yields (program, verdict)."""
    waiting = list(programs)
    while waiting:
        verdicts = in_child(waiting[:batch], how)
        yield from zip(waiting, verdicts)
        waiting = waiting[len(verdicts):]


def shrink(program, verdict, how):
    """The smallest program found that fails in the same way."""
    fails = lambda candidate: in_child([candidate], how)[0][0] == verdict[0]
    progress = True
    while progress:
        progress = False
        for candidate in simpler(program):
            if fails(candidate):
                program, progress = candidate, True
                break
    return program
