"""Suites: lists of entries that judge.py judges.

Entries are judged in child processes, so that a crash is a row of the table and not the end of the run. What may be refused
is in expected.json: a refusal that is not there fails the suite, as does one that is there and no longer happens.

Every group of an entry draws the same numbers in each run, whichever groups the run takes of it (rotation.py).
"""
import argparse
import collections
import gc
import json
import pathlib
import re
import signal
import sys
import warnings
from functools import partial

import torch
import torch._dynamo  # noqa: F401: each child would import it for itself when it first compiles or batches

import judge
import repeating
import rotation
from children import Died, in_child
from device import DEVICE

OLDEST = (2, 13)  # of the versions of torch that expected.json tells apart
EXPECTED = pathlib.Path(__file__).with_name("expected.json")
BATCH = 60  # entries that a process judges


def is_bad(row):
    return judge.OUTCOMES.index(row[2]) > judge.OUTCOMES.index("refused")


def groups_of(entry):
    """The (group, thunk) of an entry that this run takes. It is gone through twice, since a thunk may hold what the next turn of its loop changes."""
    places = set(rotation.rotating(range(sum(1 for _ in entry()))))
    return (pair for place, pair in enumerate(entry()) if place in places)


def _judge_entries(entries, done, seconds):
    """Judges entries but for the (name, group) that are done. Yields what begins, (name, group), and what ends, (name, group, outcome, words).
    The process dies of an alarm where an entry takes longer."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for name, entry in entries:
        signal.alarm(seconds)
        yield name, "suite"
        try:
            for group, thunk in groups_of(entry):
                if (name, group) not in done:
                    judge.seed(5)
                    yield name, group
                    yield name, group, *thunk()
        except Exception as error:
            yield name, "suite", "error", "of the suite or its samples: " + judge.words(error)


def run_entries(entries, seconds, batch=BATCH):
    """Yields the rows (name, group, outcome, words) of entries (name, thunk that yields (group, thunk giving outcome and words)). A child process judges
    a batch of them, one after the other, so that each meets what others left in caches; where one crashes, another child goes on from there."""
    waiting, done = list(entries), set()
    while waiting:
        name, group = waiting[0][0], "suite"
        try:
            for name, group, *ended in in_child(partial(_judge_entries, waiting[:batch], done, seconds)):
                if ended:
                    yield name, group, *ended
                    done.add((name, group))
                    group = "suite"
            waiting = waiting[batch:]
        except Died as died:
            slow = died.signal == "SIGALRM"
            yield name, group, *(("slow", f"not done after {seconds} s") if slow else ("crashed", str(died)))
            done.add((name, group))
            at = next(index for index, entry in enumerate(waiting) if entry[0] == name)
            waiting = waiting[at + 1 if slow or group == "suite" else at:]


def torch_version():
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def _since(key):
    """The version of torch that a key such as "hop_db since 2.14" names."""
    return tuple(int(part) for part in key.split(" since ")[1].split("."))


def known_of(suite):
    """What expected.json says of a suite with the torch that is there: of the oldest, and of later ones what differs, such as "hop_db since 2.14"."""
    everything = json.loads(EXPECTED.read_text())
    known = dict(everything.get(suite, {}))
    for key in sorted((key for key in everything if key.startswith(f"{suite} since ") and _since(key) <= torch_version()), key=_since):
        known.update({kind: {**known.get(kind, {}), **more} if isinstance(more, dict) else more for kind, more in everything[key].items()})
    return known


def unexpected(suite, rows, complete, every_sample=True):
    """What differs from expected.json, in words. Its refusals are {"entry group": part of the words}, "entry *" for all groups of an entry; likewise what ran
    the function itself, if the suite tells it apart. Whether each is still so, and how many passed, is asked only if the suite ran as far as that takes."""
    known = known_of(suite)
    complaints = []
    for kind in ("refused", *(("original",) if "original" in known else ())):
        listed, used = known.get(kind, {}), set()
        for name, group, outcome, said in rows:
            key = next((key for key in (f"{name} {group}", f"{name} *") if listed.get(key, "\0") in said), None)
            if outcome == kind and key is None:
                complaints.append(f"{kind}, and expected.json does not say so: {name} {group}: {said[:160]}")
            elif outcome == kind:
                used.add(key)
        if complete and every_sample:
            complaints += [f"expected.json says that {key} is {kind} with '{listed[key]}', and it is not" for key in listed if key not in used]
    passed = sum(row[2] == "passed" for row in rows)
    if complete and passed < known.get("passed", 0):
        complaints.append(f"{passed} passed, expected at least {known['passed']}")
    return complaints


def gist(said):
    """The part of a refusal's words that stays the same when lines of files move."""
    parts = re.split(r" in scope '|\S+\.py:\d+:? ?", said.split(": ", 1)[-1])
    return next((part for part in parts if len(part) >= 16), parts[0])[:80]


def listing(rows, kind):
    """The rows of an outcome as expected.json lists them."""
    by_entry = collections.defaultdict(dict)
    for name, group, outcome, said in rows:
        by_entry[name][group] = gist(said) if outcome == kind else None
    found = {}
    for name, groups in by_entry.items():
        if None not in groups.values() and len(set(groups.values())) == 1:
            found[f"{name} *"] = next(iter(groups.values()))
        else:
            found.update({f"{name} {group}": words for group, words in groups.items() if words})
    return found


def accept(suite, rows):
    """Writes the refusals and the number of passed rows to expected.json, and what ran the function itself if the suite tells it apart. With a newer torch
    than the oldest: what differs."""
    everything, known = json.loads(EXPECTED.read_text()), known_of(suite)
    kinds = ("refused", *(("original",) if "original" in known else ()))
    found = {"passed": sum(row[2] == "passed" for row in rows), **{kind: listing(rows, kind) for kind in kinds}}
    if torch_version() == OLDEST:
        everything[suite] = found
    else:
        news = {kind: {key: words for key, words in found[kind].items() if known.get(kind, {}).get(key) != words} for kind in kinds}
        everything["{} since {}.{}".format(suite, *torch_version())] = {"passed": found["passed"], **news}
    EXPECTED.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")


def print_table(rows):
    counts = collections.defaultdict(collections.Counter)
    for _, group, outcome, _ in rows:
        counts[group.split(" ")[0]][outcome] += 1
        counts["all"][outcome] += 1
    print("| group | " + " | ".join(judge.OUTCOMES) + " |")
    print("| --- |" + " ---: |" * len(judge.OUTCOMES))
    for group in sorted(counts, key=lambda group: (group == "all", group)):
        print(f"| {group} | " + " | ".join(str(counts[group][outcome]) for outcome in judge.OUTCOMES) + " |")


class Run:
    """A suite with the options of a command line, and the rows that came of it."""

    def __init__(self, program, arguments, name, doc, make_entries, add_arguments=None):
        """program: what the suite is started by. The others: see main()."""
        import diptych

        parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--only", help="names, set apart by commas; of each, what starts with it")
        parser.add_argument("--samples", type=int, help="at most so many samples of each entry")
        parser.add_argument("--seconds", type=int, default=300, help="for one entry")
        parser.add_argument("--list", action="store_true", help="prints every row that did not pass, refusals as well")
        parser.add_argument("--accept", action="store_true", help="writes what was refused to expected.json")
        parser.add_argument("--backend", help="what the compiled side runs by; the default backend if left out")
        parser.add_argument("--out", help="writes the rows as JSON")
        parser.add_argument("--dry-run", action="store_true", help="prints what would be judged, a line each, and judges nothing")
        if add_arguments is not None:
            add_arguments(parser)
        self.command, self.name, self.options, self.rows = [program, *arguments], name, parser.parse_args(arguments), []
        self.backend = self.options.backend or diptych.default_backend()
        self.title = name + (f" by {self.options.backend}" if self.options.backend else "")
        self.wanted = tuple(self.options.only.split(",")) if self.options.only else ()
        self.entries = [(name, partial(self._groups, entry)) for name, entry in make_entries(self.options) if not self.wanted or name.startswith(self.wanted)]

    def _groups(self, entry):
        judge.settings.backend = self.backend
        yield from entry()

    def take(self, row):
        self.rows.append(row)
        if is_bad(row) or (self.options.list and row[2] != "passed"):
            print(f"{row[2]:8} {self.title}: {row[0]} {row[1]}: {row[3]}", flush=True)

    def report(self):
        """Prints what came of it; whether it failed."""
        print(self.title)
        print_table(self.rows)
        if self.options.accept:
            accept(self.name, self.rows)
        print(rotation.words())
        complaints = unexpected(self.name, self.rows, complete=not self.wanted and rotation.is_whole() and DEVICE == "cpu", every_sample=not self.options.samples)
        print("\n".join(complaints))
        if self.options.out:
            pathlib.Path(self.options.out).write_text(json.dumps(self.rows, indent=1))
        bad = dict.fromkeys(row[0] for row in self.rows if is_bad(row))
        for name in bad:
            print(f"repeat: {repeating.of_python([*self.command, '--only', name])}")
        return bool(bad or complaints or not self.rows)


def judge_together(runs):
    """Judges suites entry by entry: after one of them, what the others have of its name, to which its samples are there (samples.py)."""
    by_name = collections.defaultdict(list)
    for place, run in enumerate(runs):
        for name, entry in run.entries:
            by_name[name].append((f"{place} {name}", entry))
    entries = [entry for alike in by_name.values() for entry in alike]
    for key, *row in run_entries(entries, max(run.options.seconds for run in runs), BATCH * len(runs)):
        place, name = key.split(" ", 1)
        runs[int(place)].take((name, *row))


def carry_out(runs):
    """Whether one of some suites failed. A dry run judges nothing."""
    if any(run.options.dry_run for run in runs):
        print(*(f"{run.name}: {name} {group}" for run in runs for name, entry in run.entries for group, _ in groups_of(entry)), sep="\n")
        return False
    gc.freeze()  # what was imported is not looked through in each child
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    judge_together(runs)
    return any([run.report() for run in runs])


def main(name, doc, make_entries, add_arguments=None):
    """Runs a suite from the command line. make_entries(options) gives (name, entry); see run_entries() for entries. add_arguments(parser): those of the suite."""
    sys.exit(carry_out([Run(sys.argv[0], sys.argv[1:], name, doc, make_entries, add_arguments)]))
