"""Says how to repeat a case that failed, or in which the process died."""
import os
import pathlib
import shlex
import signal
import sys

ROOT = pathlib.Path(__file__).parents[2]
CHOICES = ("DIPTYCH_", "ATEN_CPU_", "ONEDNN_")  # variables that begin so decide what runs


def _from_root(path):
    path = pathlib.Path(path)
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def of_python(arguments):
    """What runs Python with the arguments, the first a file, from the root of the source tree."""
    variables = {name: value for name, value in sorted(os.environ.items()) if name.startswith(CHOICES)}
    if path := os.environ.get("PYTHONPATH"):
        variables["PYTHONPATH"] = os.pathsep.join(map(_from_root, path.split(os.pathsep)))
    words = [_from_root(sys.executable), _from_root(arguments[0]), *arguments[1:]]
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), *map(shlex.quote, words)])


def command(rootpath, case):
    """What runs the one case."""
    file, _, rest = case.partition("::")
    return of_python(["-m", "pytest", f"{_from_root(rootpath / file)}::{rest}"])


class Repeats:
    """A plugin of pytest. A process of its own knows the last case that began, and says it if this one ends before it says so."""

    def __init__(self, rootpath):
        self.rootpath = rootpath
        reading, self.writing = os.pipe()
        self.watcher = os.fork()
        if self.watcher == 0:
            os.close(self.writing)
            self.watch(reading)
        os.close(reading)

    def watch(self, reading):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with os.fdopen(reading) as lines:
            last = ""
            for line in lines:
                last = line.strip()
        if last:
            os.write(2, f"\nthe process ended inside of a case\nrepeat: {command(self.rootpath, last)}\n".encode())
        os._exit(0)  # what is buffered is the other process's

    def tell(self, line):
        os.write(self.writing, f"{line}\n".encode())

    def pytest_runtest_logstart(self, nodeid):
        self.tell(nodeid)

    def pytest_runtest_logfinish(self):
        self.tell("")

    def pytest_unconfigure(self):
        os.close(self.writing)
        os.waitpid(self.watcher, 0)

    def pytest_terminal_summary(self, terminalreporter):
        cases = [report.nodeid for kind in ("failed", "error") for report in terminalreporter.getreports(kind)]
        for case in dict.fromkeys(cases):
            terminalreporter.write_line(f"repeat: {command(self.rootpath, case)}")
