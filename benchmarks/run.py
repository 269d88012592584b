#!/usr/bin/env python3
"""Runs Diptych and its peers interleaved, in one session, and prints how they compare.

Each engine is a worker process that speaks the protocol of python/protocol.py. For a case, every engine that has it
warms up once; then they take turns (A B C A B C ...), so that a change in the machine's load affects all of them.
README.md says what the tables mean. Results go to --out as results.json and report.md.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import platform
import queue
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "python"))
import tables  # noqa: E402

#: A turn of a quick case repeats it until it has taken about this long.
TURN_SECONDS = 0.3
MAX_REPEAT = 20


def engines(python, worker):
    """Returns {engine's name: command}, in the order of the rows."""
    peer = lambda name, *options: [python, str(HERE / "python" / name), *options]  # noqa: E731
    return {
        "Diptych": [worker, "diptych"],
        "Diptych, joint graph only": [worker, "diptych_joint"],
        "Diptych, min_cut": [worker, "diptych_min_cut"],
        "Diptych, one block": [worker, "diptych_one_block"],
        "Diptych, written out": [worker, "diptych_written_out"],
        "Diptych, all kept": [worker, "diptych_all_kept"],
        "Diptych, 64 carries": [worker, "diptych_64_carries"],
        "Diptych, 64 carries, segment 32": [worker, "diptych_segment_32"],
        "Diptych, XLA": [worker, "diptych_xla"],
        "XLA's program alone": [worker, "xla_program"],
        "C++ eager": [worker, "eager"],
        "Python eager": peer("peer_eager.py"),
        "aot_function": peer("peer_functorch.py"),
        "make_fx": peer("peer_make_fx.py"),
        "torch.compile inductor": peer("peer_compile.py", "inductor"),
        "torch.compile aot_eager": peer("peer_compile.py", "aot_eager"),
        "JAX": peer("peer_jax.py"),
        "JAX, caches cleared": peer("peer_jax.py", "--cold"),
    }


class Worker:
    """One engine's process. Errors: WorkerError says which engine failed at what."""

    def __init__(self, name, command, log):
        self.name = name
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
        self.replies = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.replies.put(line)
        self.replies.put(None)

    def ask(self, request, timeout):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.replies.get(timeout=timeout)
        except BrokenPipeError:
            line = None
        except queue.Empty:
            self.process.kill()
            raise WorkerError(f"no answer within {timeout:.0f} s") from None
        if line is None:
            raise WorkerError(f"the worker ended with status {self.process.wait()}")
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerError(reply["error"])
        return reply

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()


class WorkerError(Exception):
    pass


class Session:
    """Starts workers when they are first needed and keeps what they answered."""

    def __init__(self, options):
        self.options = options
        self.commands = engines(options.python, options.worker)
        if options.engines:
            self.commands = {k: v for k, v in self.commands.items() if fnmatch.filter([k], options.engines)}
        options.out.mkdir(parents=True, exist_ok=True)
        self.log = open(options.out / "workers.log", "w")
        self.workers = {}
        self.results = []  # one dict per (case, engine)

    def worker(self, engine):
        if engine not in self.workers:
            self.workers[engine] = Worker(engine, self.commands[engine], self.log)
        return self.workers[engine]

    def close(self, engine=None):
        for name in [engine] if engine else list(self.workers):
            if name in self.workers:
                self.workers.pop(name).close()

    def cases(self):
        """Returns {case: engines that have it} for the cases that were asked for."""
        found = {}
        for engine in self.commands:
            try:
                for case in self.worker(engine).ask({"list": True}, timeout=120)["cases"]:
                    if any(fnmatch.fnmatch(case, pattern) for pattern in self.options.cases):
                        found.setdefault(case, []).append(engine)
            except (WorkerError, OSError) as error:
                print(f"{engine}: left out: {error}", file=sys.stderr)
                self.close(engine)
        return found

    def run(self, case, names):
        """Measures one case in turns. A step case gets fresh processes, so that each peak of memory is its own."""
        is_step = case.startswith(("step/", "xla/step/", "xla/train/"))
        if is_step:
            for engine in names:
                self.close(engine)
        rows = [{"case": case, "engine": engine, "turns": [], "facts": {}} for engine in names]
        rows = [row for row in rows if self._turn(row, warm_up=True)]
        rounds = 0 if case.startswith(tables.UNTIMED) else self.options.rounds
        for _ in range(rounds):
            for row in rows:
                if "error" not in row:
                    self._turn(row)
        if is_step:
            for engine in names:
                self.close(engine)

    def _turn(self, row, warm_up=False):
        try:
            if warm_up:
                self.results.append(row)
                row["repeat"] = self._warm_up(row)
            else:
                row["turns"].append(self._ask(row, row["repeat"])["times_ns"])
        except (WorkerError, OSError) as error:
            row["error"] = str(error)
            self.close(row["engine"])
        return "error" not in row

    def _warm_up(self, row):
        """Returns how often a turn repeats the case. Where a first run prepared more than it timed, a second one tells."""
        elapsed, timed = self._time_one(row)
        if timed < elapsed / 2:
            elapsed, _ = self._time_one(row)
        return max(1, min(MAX_REPEAT, round(TURN_SECONDS / max(elapsed, 1e-6))))

    def _time_one(self, row):
        """Returns the seconds of a request of one run, and those that the worker counts for the run."""
        start = time.monotonic()
        times = self._ask(row, 1)["times_ns"]
        return time.monotonic() - start, sum(times) / 1e9

    def _ask(self, row, repeat):
        request = {"case": row["case"], "repeat": repeat}
        reply = self.worker(row["engine"]).ask(request, timeout=self.options.timeout)
        row["facts"].update(reply["facts"])
        return reply


def machine():
    """Returns what the numbers depend on and do not show themselves."""
    model = "unknown CPU"
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "load_average": os.getloadavg(),
        "requirements": (HERE / "requirements.txt").read_text().split("\n")[1:],
    }


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="patterns such as 'capture/*' or 'call/forward'")
    parser.add_argument("--suite", action="append", default=[], help="one suite's cases: the first word of their names")
    parser.add_argument("--engines", help="pattern of engine names, such as 'C++*'")
    parser.add_argument("--rounds", type=int, default=5, help="turns that each engine takes (default 5)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds to wait for one answer (default 600)")
    parser.add_argument("--python", default=str(HERE.parent / ".venv-bench/bin/python"), help="the peers' Python")
    parser.add_argument("--worker", default=str(HERE.parent / "build/bench/bin/compare_worker"), help="our worker")
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parent / "out/bench", help="folder for the results")
    options = parser.parse_args()
    options.cases += [f"{suite}/*" for suite in options.suite]
    options.cases = options.cases or ["*"]
    return options


def main():
    options = parse_options()
    session = Session(options)
    about = machine()
    try:
        cases = session.cases()
        if not cases:
            sys.exit(f"no worker has a case that matches {options.cases}; `run.py --help` says how to name them")
        for case, names in cases.items():
            print(f"[bench] {case}: {', '.join(names)}", file=sys.stderr)
            session.run(case, names)
    finally:
        session.close()
    about["load_average_after"] = os.getloadavg()
    report = tables.report(session.results, about)
    print(report)
    (options.out / "report.md").write_text(report)
    (options.out / "results.json").write_text(json.dumps({"machine": about, "results": session.results}, indent=1))


if __name__ == "__main__":
    main()
