#!/usr/bin/env python3
"""Checks the code and the output that pages show, or with --update rewrites them.

A fenced block is marked by an HTML comment on the line before it:
  <!-- file: examples/cpp/readme_example.cpp -->     holds what that file holds
  <!-- output: layout_stages joint -->               holds what that program prints
  <!-- prints -->                                    holds what the Python blocks above it print
Python blocks are run in order, all of a page in one process, as lines of a file example.py; after <!-- run: jax --> it is
another Python, for the rest of the page or until <!-- run: python -->. A page without <!-- prints --> is only run. What no
--program or --python names is not checked.
"""
import argparse
import difflib
import json
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(
    r"(?:<!-- run: (?P<run>\w+) -->\n+)?"
    r"(?P<head>(?:<!-- (?P<kind>file|output|prints):? ?(?P<what>[^>]*?) ?-->\n)?```(?P<language>\w*)\n)(?P<text>.*?)(?P<tail>```\n)",
    re.S,
)
MARKER = re.compile(r"^<!-- (?:file:|output:|prints)", re.M)
# Each line of the input is a list of blocks, which a child runs; what each has printed is a line of the output, or else what the
# child wrote to its standard error. What pages import is imported once, and Dynamo, which optimizers import; a collection of all
# generations would look through all of it.
SESSIONS = """
import contextlib, gc, io, json, linecache, os, sys, tempfile, traceback, types
with contextlib.suppress(ImportError):
    import diptych, torch, torch._dynamo
gc.set_threshold(700, 10, 1000)

def run_all(blocks):
    main, printed = types.ModuleType("__main__"), []
    sys.modules["__main__"] = main
    for place, code in blocks:
        linecache.cache["example.py"] = (len(code), None, code.splitlines(True), "example.py")
        try:
            with contextlib.redirect_stdout(io.StringIO()) as text:
                exec(compile(code, "example.py", "exec"), main.__dict__)
        except BaseException:
            traceback.print_exc()
            print("the block at line", place, "raised", file=sys.stderr, flush=True)
            os._exit(1)
        printed.append(text.getvalue())
    return printed

for line in sys.stdin:
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            os.dup2(errors.fileno(), 2)
            json.dump(run_all(json.loads(line)), printed)
            printed.flush()
            os._exit(0)
        failed = os.waitpid(child, 0)[1] != 0
        printed.seek(0), errors.seek(0)
        print(json.dumps({"errors": errors.read() or "it died"} if failed else {"printed": json.load(printed)}), flush=True)
"""


class Python:
    """An interpreter that runs the blocks of pages, each page's in a child of its own."""

    def __init__(self, path):
        self.process = subprocess.Popen([path, "-c", SESSIONS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, blocks, what):
        """What each of (line, code) prints."""
        print(json.dumps(blocks), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline() or '{"errors": "it ended before it could run them"}')
        if "errors" in answer:
            sys.exit(f"{what} failed:\n{answer['errors']}")
        return answer["printed"]


def run(command, what):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{what} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def line_of(block):
    return block.string.count("\n", 0, block.start("text"))


def run_python(page, blocks, pythons):
    """{position of a Python block or of what follows it: (what it printed)} of all blocks of the page that are run."""
    sessions, python = {}, "python"
    for block in blocks:
        python = block["run"] or python
        if block["language"] == "python" and block["kind"] is None or block["kind"] == "prints":
            sessions.setdefault(python, []).append(block)
    expected = {}
    for python, members in sessions.items():
        if python not in pythons:
            continue
        code = [(line_of(block), block["text"]) for block in members if block["kind"] is None]
        printed = iter(pythons[python].run(code, f"{page} ({python})"))
        text = ""
        for block in members:
            if block["kind"] is None:
                text += next(printed)
            else:
                expected[block.start()], text = text.rstrip("\n") + "\n", ""
        if text and any(block["kind"] for block in members):
            sys.exit(f"{page}: its last Python block prints what no block shows:\n{text}")
    return expected


def expected_texts(page, blocks, options):
    """{start of a block: what it must hold}."""
    expected = run_python(page, blocks, options.python)
    for block in blocks:
        if block["kind"] == "file":
            expected[block.start()] = (options.root / block["what"]).read_text()
        elif block["kind"] == "output" and options.program:
            name, *arguments = block["what"].split()
            if name not in options.program:
                sys.exit(f"{page}: {name} is not among the programs: {', '.join(sorted(options.program))}")
            expected[block.start()] = run([options.program[name], *arguments], block["what"])
    return expected


def check(page, options):
    """Compares or rewrites the blocks of a page; returns how many there are, and which are wrong."""
    text = page.read_text()
    blocks = list(BLOCK.finditer(text))
    marked = sum(block["kind"] is not None for block in blocks)
    if marked != len(MARKER.findall(text)):
        sys.exit(f"{page}: a marker without a block behind it")
    expected = expected_texts(page, blocks, options)
    wrong = []
    for block in reversed(blocks):
        want = expected.get(block.start(), block["text"])
        if want != block["text"]:
            wrong.append(f"{page}: {block['what'] or f'line {line_of(block)}'}")
            diff = difflib.unified_diff(block["text"].splitlines(True), want.splitlines(True), wrong[-1], "real")
            sys.stdout.writelines(diff)
            if options.update:
                page.write_text(text := text[: block.start("text")] + want + text[block.end("text"):])
    return len(expected), wrong


def pairs(given):
    return dict(pair.split("=", 1) for pair in given)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path, nargs="+", help="pages, or folders whose pages are meant")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--program", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    options.program = pairs(options.program)
    options.python = {name: Python(path) for name, path in pairs(options.python).items()}
    count, wrong = 0, []
    for given in options.pages:
        for page in sorted(given.rglob("*.md")) if given.is_dir() else [given]:
            found, faults = check(page, options)
            count, wrong = count + found, wrong + faults
    if count == 0:
        sys.exit("no page shows anything that is checked")
    if wrong and not options.update:
        sys.exit(f"out of date: {', '.join(wrong)}; run this script with --update")
    print(f"{count} blocks are real")


if __name__ == "__main__":
    main()
