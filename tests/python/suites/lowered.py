"""Which operators XLA programs take, and which are left to the interpreter: counted over the graphs of PyTorch's operator database.

    python tests/python/suites/lowered.py [--samples 1] [--only view,add] [--out table.json] [--suite op_db.txt]

Runs op_db.py with backend="xla" and reads the log. Composite operators are counted by what they are decomposed into. Not a test: op_db.py says what is wrong.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

FALLBACK = re.compile(r"\[backend xla\] the interpreter runs node \d+ of graph '[^']*': .*?= ((?:\w+\.)+\w+)\(")
LOCATION = re.compile(r' loc\("node (\d+) ([\w.]+)"\)')


def read(lines):
    """(nodes in programs, nodes left to the interpreter), counted by operator."""
    lowered, split_off, last = collections.Counter(), collections.Counter(), None
    for line in lines:
        if found := FALLBACK.search(line):
            split_off[found[1]] += 1
        found = LOCATION.search(line)
        if found and found[0] != last:  # a node is several operations in a row
            lowered[found[2]] += 1
        last = found[0] if found else None if "module @" in line else last
    return lowered, split_off


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", default="1")
    parser.add_argument("--only")
    parser.add_argument("--out", help="writes the counts as JSON")
    parser.add_argument("--suite", default=os.devnull, help="writes what op_db.py prints")
    options = parser.parse_args()
    suite = pathlib.Path(__file__).with_name("op_db.py")
    command = [sys.executable, suite, "--backend", "xla", "--list", "--samples", options.samples, *(["--only", options.only] if options.only else [])]
    with open(options.suite, "w") as table:
        process = subprocess.Popen(command, stdout=table, stderr=subprocess.PIPE, text=True, env={**os.environ, "DIPTYCH_LOG": "graphs"})
        lowered, split_off = read(process.stderr)
        process.wait()
    print(f"{len(lowered)} operators are lowered ({sum(lowered.values())} nodes): {', '.join(sorted(lowered))}\n")
    both = sorted(lowered.keys() & split_off.keys())
    print(f"{len(split_off)} operators are left to the interpreter ({sum(split_off.values())} nodes), {len(both)} of them for some dtypes or arguments only:")
    for name, count in split_off.most_common():
        print(f"  {name}: {count}{f' of {count + lowered[name]}' if name in lowered else ''}")
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps({"lowered": lowered, "split off": split_off}, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
