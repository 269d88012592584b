"""Work in a child process, so that what crashes there is an outcome and not the end of the run."""
import json
import os
import signal
import traceback


class Died(Exception):
    """A child ended before its work did. signal: the signal's name, or None where it left by a status."""

    def __init__(self, exitcode):
        self.signal = signal.Signals(-exitcode).name if exitcode < 0 else None
        super().__init__(self.signal or f"exit {exitcode}")


def in_child(work):
    """Yields what work() yields, as JSON has it, while a child process computes it; then raises Died if that ended in another way than work() did."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            with os.fdopen(write, "w", buffering=1) as pipe:
                for value in work():
                    pipe.write(json.dumps(value) + "\n")
                pipe.write("\n")  # the end
            os._exit(0)
        except BaseException:  # noqa: BLE001: nothing may run on in the copy of the parent
            traceback.print_exc()
            os._exit(1)
    os.close(write)
    ended = False
    try:
        with os.fdopen(read) as pipe:
            for line in pipe:
                ended = line == "\n"
                if not ended and line.endswith("\n"):  # a last line that broke off is none
                    yield json.loads(line)
    finally:
        _, status = os.waitpid(child, 0)
    exitcode = os.waitstatus_to_exitcode(status)
    if exitcode or not ended:
        raise Died(exitcode)
