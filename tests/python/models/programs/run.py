#!/usr/bin/env python3
"""Programs of other people's libraries, a few steps of each at small sizes, beside eager: by aot_module (M), aot_function (F) and torch.compile (C).

    DIPTYCH_MODELS=out/models/site-packages python tests/python/models/programs/run.py [--only gcn,gat] [--ways MF] [--list]

Prints a table with a row for each program. A cell says "ok", where calls ran what was captured; "each", where every call was captured anew; "original",
where the function itself ran; "refused". Results that differ from eager's, and exceptions that eager does not raise, fail the run. What is not installed is
left out; without any of it the status is 77.
"""
import argparse
import importlib
import importlib.util
import pathlib
import sys
import time
import warnings

sys.path += [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parents[2]), str(pathlib.Path(__file__).parents[2] / "suites")]

import packages  # noqa: E402

packages.find()
import harness  # noqa: E402
import judge  # noqa: E402
import torch  # noqa: E402

import diptych  # noqa: E402

FILES = ("graphs", "gaussian", "probabilistic", "solvers", "diffusion", "language", "vision")


def table(rows):
    print("| program | M | F | C | seconds |\n| --- | --- | --- | --- | ---: |")
    for name, row in rows.items():
        print(f"| {name.replace('_', ' ')} |", " | ".join(row.get(way, ("-",))[0] for way in "MFC"), f"| {sum(cell[2] for cell in row.values()):.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs, set apart by commas; of each, what starts with it")
    parser.add_argument("--ways", default="MFC")
    parser.add_argument("--list", action="store_true", help="prints what is behind each cell")
    options = parser.parse_args()
    judge.settings.backend, judge.settings.narrow = diptych.default_backend(), True  # some compute in float32 whatever they are given
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for file in FILES:
        importlib.import_module(file)
    rows, began, wanted = {}, time.time(), tuple(options.only.split(","))
    for name, (imports, run) in harness.PROGRAMS.items():
        if not name.startswith(wanted) or not all(importlib.util.find_spec(package.split(".")[0]) for package in imports):
            continue
        for package in ("torch._dynamo", *imports):
            importlib.import_module(package)
        rows[name] = {}
        for way, word, said, seconds in harness.cells(run, options.ways):
            rows[name][way] = word, said, seconds
            if options.list or word in harness.BAD:
                print(f"{name} {way} {word} ({seconds:.1f} s): {said}", flush=True)
    if not rows:
        print("none of these programs' libraries is there")
        return 77
    table(rows)
    print(f"{len(rows)} programs, {time.time() - began:.0f} s")
    return int(any(cell[0] in harness.BAD for row in rows.values() for cell in row.values()))


if __name__ == "__main__":
    sys.exit(main())
