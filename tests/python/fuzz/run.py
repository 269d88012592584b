#!/usr/bin/env python3
"""Random Python programs against eager.
Usage: run.py [--programs N] [--seed S] [--only CLASS] [--check N] [--backend NAME] [--show] [--program SEED]

Each program is drawn from the classes in features*.py by its seed, and run in eager and compiled in a child process. Counts how the programs
ended, refusals by message, and prints the smallest program that was found for each kind of fault. With --check N the compiled functions run with
check=N: what was wrong must be found, and nothing else.
"""
import argparse
import collections
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402: before the children

import diptych  # noqa: E402,F401
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import judge  # noqa: E402
import known  # noqa: E402
import programs  # noqa: E402
import rotation  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1, help="of the first program; the next ones have the next numbers")
    parser.add_argument("--only", help="a class of features")
    parser.add_argument("--check", type=int, default=0)
    parser.add_argument("--backend", help="what runs the graphs of the compiled side")
    parser.add_argument("--show", action="store_true", help="print the smallest program of each kind of fault")
    parser.add_argument("--program", type=int, help="print and judge the program of this seed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.how = {name: value for name, value in (("check", options.check), ("backend", options.backend)) if value}
    if options.program is not None:
        program = programs.generate(options.program, options.only)
        print(program.text())
        print(*judge.in_child([program], options.how)[0], sep="\n")
        return 0
    print(rotation.words())
    drawn = (programs.generate(seed, options.only) for seed in rotation.rotating(range(options.seed, options.seed + options.programs)))
    return report(judge.judge_all(drawn, options.how), options)


def report(judged, options):
    outcomes, refusals, faults, caught = collections.Counter(), collections.Counter(), collections.defaultdict(list), collections.Counter()
    by_kind = collections.defaultdict(collections.Counter)
    for program, verdict in judged:
        outcome, key, _ = verdict
        outcomes[outcome] += 1
        for kind in set(program.kinds) - {"arithmetic"}:
            by_kind[kind][outcome] += 1
        if outcome == judge.REFUSED:
            refusals[key] += 1
        if outcome == judge.CAUGHT:
            caught[key] += 1
        if outcome in judge.FAULTS:
            faults[outcome, key].append((program, verdict))
    for (outcome, key), cases in sorted(faults.items(), key=lambda item: -len(item[1])):
        is_known = known.reason(outcome, key, cases[0][0].kinds)
        print(f"\n{len(cases)} x {outcome}: {key}{f'  (known: {is_known})' if is_known else ''}; seeds {[p.seed for p, _ in cases[:6]]}")
        if options.show:
            program = judge.shrink(*cases[0], options.how)
            print(program.text(), judge.in_child([program], options.how)[0][2], sep="\n")
    print("\nby class:")
    for kind, counts in sorted(by_kind.items()):
        print(f"  {kind}: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))
    print("\nrefusals:", *(f"{count:5} {key}" for key, count in refusals.most_common()), sep="\n  ")
    if caught:
        print("\nfound by the check:", *(f"{count:5} {key}" for key, count in caught.most_common()), sep="\n  ")
    print("\noutcomes:", *(f"{count:5} {outcome}" for outcome, count in outcomes.most_common()), sep="\n  ")
    return int(any(not known.reason(outcome, key, cases[0][0].kinds) for (outcome, key), cases in faults.items()))


if __name__ == "__main__":
    sys.exit(main())
