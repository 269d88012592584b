#!/usr/bin/env python3
"""Asks the tests about small faults in the library's source: `make mutants`. Prints a table of which test finds which.

mutants.py --tree CLONE --state FOLDER [--count 60] [--seed 1] [--also-in CLONE] [--mutants LIST] [--part 3/10] [--before RESULTS]

CLONE is a clean clone, whose sources are changed: one build holds all mutants, and the variable DIPTYCH_MUTANT tells a
process which of them is on. A first run of all tests finds what each test reaches; then each mutant meets the tests that
reach it, shortest first, until one fails. FOLDER holds what was found so far, and a run that was stopped goes on there:
mutants.json (what --mutants takes, to try the same ones in another clone), reach.json, results.json (what --before takes:
only what was killed there is tried, first by what killed it) and report.txt.

A draw reads sources with the packages of tools/mutants.txt, which `make mutants` installs into out/.
"""
import argparse
import ast
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mutant_sites import KINDS, Mutant, all_mutants, drawn, key_of, place_in

HANGS = "took more than"
MOST_MEMORY = 12 << 30  # bytes that a test may allocate
#: Tests that run no code of the library that could be on trial, or build it anew, and the reason.
LEFT_OUT = (
    (r"tools\.", "test scripts"),
    (r"docs\.(errors_page|links|tests_that|namespace|umbrella|site)", "read sources and pages"),
    (r"(package|python\.package)", "build or install the library elsewhere"),
    (r"\w+_compile_fail", "only compile"),
    (r"examples\.users_build", "counts what a compiler reads"),
    (r"python\.models", "needs packages that are not installed"),
)

# ---- One build of all mutants ---------------------------------------------------------------------------------------

DEFINITION = r"""
extern "C" bool diptych_mutant(int number) {
  static const char* const chosen = std::getenv("DIPTYCH_MUTANT");
  static const char* const folder = std::getenv("DIPTYCH_MUTANT_REACHED");
  static const int on = chosen ? std::atoi(chosen) : 0;
  static std::atomic<bool> reached[1000];
  if (folder && !reached[number].exchange(true)) {
    if (std::FILE* const file = std::fopen((std::string(folder) + "/" + std::to_string(number)).c_str(), "w")) std::fclose(file);
  }
  return number == on;
}
"""
#: It neither opens a file nor reads the environment when it is called: captures watch who does.
PYTHON_DEFINITION = """\
def _diptych_mutant(number, reached=set(), os=__import__("os"), variables=dict(__import__("os").environ)):
    folder = variables.get("DIPTYCH_MUTANT_REACHED")
    if folder and number not in reached:
        reached.add(number)
        try: os.mknod(f"{folder}/{number}")
        except FileExistsError: pass
    return variables.get("DIPTYCH_MUTANT") == str(number)
"""
FILE_OF_DEFINITION = "src/diptych/base/environment.cpp"


def switch(mutant: Mutant, suffix: str) -> str:
    """Returns an expression that is a mutant where it is on, and else what was there."""
    if suffix == ".py":
        return f"(({mutant.new}) if _diptych_mutant({mutant.number}) else ({mutant.old}))"
    to_bool = "bool" if mutant.kind == "guard" else ""
    return f"(diptych_mutant({mutant.number}) ? {to_bool}({mutant.new}) : {to_bool}({mutant.old}))"


def with_switches(source: str, suffix: str, placed: list[tuple[int, Mutant]]) -> str:
    """Returns a source with mutants in it, each on the row that it comes with; the lines keep their numbers in C++."""
    lines = source.splitlines()
    for row, mutant in placed:
        begin = len(lines[row]) - len(lines[row].lstrip()) + mutant.column
        assert lines[row][begin:].startswith(mutant.old), mutant
        lines[row] = lines[row][:begin] + switch(mutant, suffix) + lines[row][begin + len(mutant.old):]
    if suffix == ".py":
        first = next(one for one in ast.parse(source).body if not isinstance(one, ast.Expr) and getattr(one, "module", "") != "__future__")
        start = min([first.lineno, *(decorator.lineno for decorator in getattr(first, "decorator_list", []))]) - 1
        return "\n".join([*lines[:start], PYTHON_DEFINITION, *lines[start:], ""])
    return "\n".join(['extern "C" bool diptych_mutant(int);', "#line 1", *lines, ""])


def restore(tree: Path) -> None:
    subprocess.run(["git", "-C", tree, "checkout", "-q", "--", "src", "python"], check=True)


def put(tree: Path, mutants: list[Mutant]) -> dict[int, tuple[str, int]]:
    """Puts mutants into the sources of a clone as they were committed; returns the file and the row of each."""
    places = {mutant.number: place_in(tree, mutant) for mutant in mutants}
    for file in {file for file, _ in places.values()}:
        placed = [(places[mutant.number][1], mutant) for mutant in mutants if places[mutant.number][0] == file]
        (tree / file).write_text(with_switches((tree / file).read_text(), Path(file).suffix, placed))
    definition = tree / FILE_OF_DEFINITION
    headers = "".join(f"#include <{name}>\n" for name in ("atomic", "cstdio", "cstdlib", "string"))
    definition.write_text(headers + "#line 1\n" + definition.read_text() + DEFINITION)
    return places


def blamed(output: str, mutants: list[Mutant], places: dict[int, tuple[str, int]]) -> list[Mutant]:
    """Returns the mutants that a compiler's errors are about: those of the line, or else those of the file."""
    found = {}
    for name, line in re.findall(r"^(\S+?):(\d+):\d+: error: ", output, re.M):
        in_file = [one for one in mutants if name.endswith("/" + places[one.number][0])]
        on_line = [one for one in in_file if places[one.number][1] + 1 == int(line)]
        found |= {one.number: one for one in on_line or in_file}
    return list(found.values())


def built(tree: Path, jobs: int, choose, note) -> list[Mutant]:
    """Builds a clone with the mutants that choose(rejected) names, again until none of them is in the compiler's way."""
    rejected = set()
    while True:
        restore(tree)
        mutants = choose(rejected)
        places = put(tree, mutants)
        done = subprocess.run(["tools/build.sh", "ci", str(jobs), "all", "--", "-k", "0"], cwd=tree, capture_output=True, text=True)
        if done.returncode == 0:
            return mutants
        faulty = blamed(done.stdout + done.stderr, mutants, places)
        if not faulty:
            sys.exit(f"mutants: {tree} does not build, and no mutant is in the way:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        rejected |= {key_of(one) for one in faulty}
        named = "; ".join(f"{one.files[0]}:{one.line} {one.new}" for one in faulty)
        note(f"{len(faulty)} of {len(mutants)} mutants do not compile: {named}")


# ---- The tests ------------------------------------------------------------------------------------------------------


@dataclass
class Test:
    name: str
    command: list[str]
    folder: str
    environment: dict[str, str]
    passes: list[str] = field(default_factory=list)  # expressions, of which one is in what it prints
    fails: list[str] = field(default_factory=list)
    skips: int | None = None  # the status that says so


def tests_of(listed: dict) -> list[Test]:
    """Returns the tests that ctest lists, but for those in LEFT_OUT."""
    found = []
    for one in listed["tests"]:
        properties = {row["name"]: row["value"] for row in one["properties"]}
        if "command" in one and not properties.get("DISABLED") and not any(re.match(names, one["name"]) for names, _ in LEFT_OUT):
            environment = dict(row.split("=", 1) for row in properties.get("ENVIRONMENT", []))
            found.append(Test(one["name"], one["command"], properties["WORKING_DIRECTORY"], environment,
                              properties.get("PASS_REGULAR_EXPRESSION", []), properties.get("FAIL_REGULAR_EXPRESSION", []),
                              properties.get("SKIP_RETURN_CODE")))
    return found


def fault(test: Test, status: int, output: str) -> str:
    """Returns why ctest would say that a test failed; nothing if it passed."""
    said = [words for words in test.fails if re.search(words, output)]
    if said:
        return f"prints {said[0]}"
    if test.passes:
        return "" if any(re.search(words, output) for words in test.passes) else f"does not print {test.passes[0]}"
    return "" if status in (0, test.skips) else f"signal {-status}" if status < 0 else f"status {status}"


def failed_cases(output: str) -> set[str]:
    """Returns the cases that GoogleTest or pytest says have failed."""
    return {google or pytest for google, pytest in re.findall(r"^(?:\[  FAILED  \] (\S+\.\S+)|FAILED (\S+::\S+))", output, re.M)}


def run(test: Test, environment: dict[str, str], limit: float, known: set[str]) -> tuple[str, set[str]]:
    """Runs a test in a process group and with temporary folders of its own; returns what is wrong, and the cases that failed.

    Nothing is wrong where the cases that failed are among those known to.
    """
    with tempfile.TemporaryDirectory(prefix="m", ignore_cleanup_errors=True) as folder, tempfile.TemporaryFile() as output:
        own = {"OMP_NUM_THREADS": "1", "TMPDIR": folder, "XDG_CACHE_HOME": f"{folder}/cache"}
        process = subprocess.Popen(test.command, cwd=test.folder, env={**os.environ, **own, **test.environment, **environment},
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return f"{HANGS} {limit:.0f} s", set()
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # also what it started and left behind
            except ProcessLookupError:
                pass
            process.wait()
        output.seek(0)
        text = output.read().decode(errors="replace")
    cases = failed_cases(text)
    return "" if status > 0 and cases and cases <= known else fault(test, status, text), cases


class Runs:
    """Runs tests on mutants, and keeps what came of it in a folder. No two runs of one test go on at a time."""

    def __init__(self, tests: list[Test], state: Path, jobs: int, note):
        self.tests = {test.name: test for test in tests}
        self.state, self.note, self.pool = state, note, ThreadPoolExecutor(jobs)
        self.busy = {test.name: threading.Lock() for test in tests}
        self.reach, self.results = read(state / "reach.json", {}), read(state / "results.json", {})
        self.writing = threading.Lock()

    def keep(self, name: str, table: dict, key: str, value: dict) -> None:
        with self.writing:
            table[key] = value
            write(self.state / name, table)

    def reach_of(self, name: str) -> None:
        """Runs a test without a mutant, and notes its time, whether it fails anyway, and the mutants that it reaches."""
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            wrong, cases = run(self.tests[name], {"DIPTYCH_MUTANT_REACHED": folder, "DIPTYCH_TEST_PART": "all"}, 1800, set())
            seconds = round(time.monotonic() - begin, 2)
            reached = sorted(int(number) for number in os.listdir(folder))
        self.keep("reach.json", self.reach, name, {"seconds": seconds, "wrong": wrong, "cases": sorted(cases), "reached": reached})
        self.note(f"{name} reaches {len(reached)} mutants in {seconds:.1f} s{': fails anyway, ' + wrong if wrong else ''}")

    def tests_on(self, number: int, first: str) -> list[str]:
        """Returns the tests that are known to reach a mutant, the shortest first, but before all the one named.

        A test that fails anyway is one of them if it names the cases that do.
        """
        names = [name for name, found in self.reach.items() if number in found["reached"] and (found["cases"] or not found["wrong"])]
        return sorted(names, key=lambda name: (name != first, self.reach[name]["seconds"]))

    def wrong_with(self, name: str, environment: dict[str, str]) -> str:
        """Returns what is wrong with a test on a mutant. It hangs only if it does so twice: the machine may be busy with other things."""
        found, wrong = self.reach[name], ""
        for patience in (1, 4):
            with self.busy[name]:
                wrong, _ = run(self.tests[name], environment, patience * (30 + 5 * found["seconds"]), set(found["cases"]))
            if not wrong.startswith(HANGS):
                break
        return wrong

    def try_mutant(self, number: int, parts: list[str], first: str, most: float) -> dict:
        """Runs the tests that reach a mutant until one fails, with each of these parts of the samples, for so many seconds."""
        names = self.tests_on(number, first)
        runs = [(part, name) for part in parts for name in names]
        found = {"part": "", "killer": "", "why": "", "runs": self.results.get(str(number), {"runs": 0})["runs"], "of": len(runs)}
        for part, name in runs[found["runs"]:]:
            most -= self.reach[name]["seconds"]
            if most < 0:
                break
            wrong = self.wrong_with(name, {"DIPTYCH_MUTANT": str(number), "DIPTYCH_TEST_PART": part})
            found["runs"] += 1
            if wrong:
                return {**found, "part": part, "killer": name, "why": wrong}
        return found

    def try_mutants(self, numbers: list[int], parts: list[str], killers: dict[int, str], most: float, may_survive: bool) -> None:
        """Tries mutants and keeps how they ended; those that survive only where that is known."""
        def one(number):
            found = self.try_mutant(number, parts, killers[number], most)
            if found["killer"] or may_survive:
                self.keep("results.json", self.results, str(number), found)
                self.note(f"mutant {number}: {', '.join(ending(found))}")
        list(self.pool.map(one, numbers))

    def everything(self, mutants: list[Mutant], parts: list[str], before: dict, most: float) -> None:
        """Tries each mutant: what was killed before first on the tests that did so, since they are few and short."""
        killers = {one.number: before.get(str(one.number), {"killer": "any"})["killer"] for one in mutants}
        stages = ((set(killers.values()), parts[:1], math.inf), (self.tests, parts, most))
        for names, its_parts, its_most in stages if before else stages[1:]:
            ended = {int(number) for number, found in self.results.items() if found["killer"] or found["runs"] == found["of"]}
            left = [number for number, killer in killers.items() if killer and number not in ended]
            if left:
                list(self.pool.map(self.reach_of, [name for name in self.tests if name in names and name not in self.reach]))
                self.try_mutants(left, its_parts, killers, its_most, names is self.tests)


# ---- The report -----------------------------------------------------------------------------------------------------


def ending(result: dict | None) -> tuple[str, str]:
    """Returns how a mutant ended, in the words of the sums, and what there is to say of it."""
    if result is None:
        return "survived before, not tried", ""
    if result["killer"]:
        return f"killed by part {result['part']}", f"{result['killer']} {result['why']}"
    return ("SURVIVED", f"{result['runs']} of {result['of']} runs") if result["of"] else ("SURVIVED unreached", "no test reaches it")


def report(mutants: list[Mutant], results: dict, before: dict, heading: str) -> str:
    """Returns three or four lines for each mutant, and the sums."""
    lines, sums, by_kind = [heading], Counter(), defaultdict(Counter)
    for one in mutants:
        number = str(one.number)
        end, words = ending(results.get(number))
        sums[end] += 1
        by_kind[one.kind][end.split()[0]] += 1
        lines += [f"{number:>4}  {one.kind:10}{one.files[0]}:{one.line}", f"{'':16}{one.old}  ->  {one.new}"]
        lines += [f"{'':16}{end}: {words}".rstrip(": ")]
        lines += [f"{'':16}before {': '.join(ending(before[number]))}"] if number in before else []
    lines += ["", *(f"{end:28}{count:4}" for end, count in sums.most_common())]
    for kind in KINDS:
        lines.append(f"{kind:28}{by_kind[kind].total():4}: {', '.join(f'{count} {end}' for end, count in by_kind[kind].items())}")
    lost = [number for number, result in before.items() if result["killer"] and number in results and not results[number]["killer"]]
    return "\n".join([*lines, *([f"killed before and not here: {', '.join(lost) or 'none'}"] if before else [])])


def read(path: Path, otherwise):
    return json.loads(path.read_text()) if path.exists() else otherwise


def write(path: Path, value) -> None:
    """Writes a file that is whole at any time."""
    path.with_suffix(".new").write_text(json.dumps(value, indent=1))
    path.with_suffix(".new").rename(path)


def choose_mutants(options) -> list[Mutant]:
    """Returns the mutants of a run: those of the state, or else, once the clone is built with them, of a list or of a draw."""
    tree, kept = options.tree, options.state / "mutants.json"
    if not kept.exists():
        if subprocess.run(["git", "-C", tree, "status", "--porcelain"], check=True, capture_output=True).stdout:
            sys.exit(f"mutants: {tree} has changes, expected a clean clone, whose sources will be changed")
        if options.mutants:
            listed = [Mutant(**row) for row in json.loads(options.mutants.read_text())]
            choose = lambda rejected: [one for one in listed if place_in(tree, one) and key_of(one) not in rejected]
        else:
            every, lines = all_mutants(tree, options.also_in)
            print(f"mutants: {len(every)} to draw from; seed {options.seed}", flush=True)
            choose = lambda rejected: drawn(every, lines, options.count, options.seed, rejected)
        write(kept, [asdict(one) for one in built(tree, options.jobs, choose, options.note)])
    return [Mutant(**row) for row in json.loads(kept.read_text())]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=lambda text: Path(text).resolve(), required=True, help="a clean clone; its sources are changed")
    parser.add_argument("--state", type=lambda text: Path(text).resolve(), required=True, help="the folder of what was found")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="of the build, and how many tests run side by side")
    parser.add_argument("--also-in", type=Path, help="another clone, which must have each mutant's line")
    parser.add_argument("--mutants", type=Path, help="the mutants.json of another run")
    parser.add_argument("--part", help="of the samples that rotate, which is tried before all, such as 3/10")
    parser.add_argument("--most", type=float, default=math.inf, metavar="SECONDS", help="of tests for a mutant; a later run goes on with the others")
    parser.add_argument("--before", type=Path, help="the results.json of another run: only what was killed there is tried")
    options = parser.parse_args()
    options.state.mkdir(parents=True, exist_ok=True)
    options.note = lambda text: print(f"mutants: {text}", file=sys.stderr, flush=True)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    mutants, before = choose_mutants(options), read(options.before, {}) if options.before else {}
    listed = subprocess.run(["ctest", "--preset", "ci", "--show-only=json-v1"], cwd=options.tree, check=True, capture_output=True)
    runs = Runs(tests_of(json.loads(listed.stdout)), options.state, options.jobs, options.note)
    runs.everything(mutants, [*([options.part] if options.part else []), "all"], before, options.most)
    text = report(mutants, runs.results, before, f"{len(mutants)} mutants, {options.mutants or f'seed {options.seed}'}")
    (options.state / "report.txt").write_text(text + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
