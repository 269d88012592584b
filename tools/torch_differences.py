#!/usr/bin/env python3
"""Says in which operators two torches differ: torch_differences.py <site-packages> <site-packages> [--looked-at FILE] [--show].

It compares what torch's wheels carry of native_functions.yaml and derivatives.yaml: schemas, tags, kernels for the CPU, meta tensors
and composites, and formulas of gradients. A line a difference, `operator: what`; with --show what each says before and after. Names
in the file were looked at and are left out; the status is 1 if one is left.
"""
import argparse
import sys
from pathlib import Path

import yaml

OPERATORS = "torchgen/packaged/ATen/native/native_functions.yaml"
FORMULAS = "torchgen/packaged/autograd/derivatives.yaml"
# The kernels that a graph on the CPU, or its shapes, can reach; the others are devices' own.
KERNELS = {"CPU", "Meta", "ZeroTensor", "MkldnnCPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"}
LEFT_OUT = {"func", "name", "dispatch", "cpp_no_default_args", "device_guard", "autogen", "python_module"}


def read(path):
    return yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def kernels(dispatch):
    """Returns the kernel for each of KERNELS that the entry names."""
    found = {}
    for keys, kernel in (dispatch or {}).items():
        found.update({key.strip(): kernel for key in keys.split(",") if key.strip() in KERNELS})
    return found


def facts(packages):
    """Returns what each operator is said to be, by its name with its overload: {"schema": ..., "kernel CPU": ..., "gradient of self": ...}."""
    found = {}
    for entry in read(packages / OPERATORS):
        name = entry["func"].partition("(")[0]
        known = found.setdefault(name, {"schema": entry["func"]})
        known.update({f"kernel {key}": kernel for key, kernel in kernels(entry.get("dispatch")).items()})
        known.update({key: value for key, value in entry.items() if key not in LEFT_OUT})
    for entry in read(packages / FORMULAS):
        name = entry["name"].partition("(")[0]
        known = found.setdefault(name, {})
        known.update({f"gradient of {key}": " ".join(str(value).split()) for key, value in entry.items() if key not in LEFT_OUT})
    return found


def differences(before, after):
    """Yields (operator, what, before, after) for all that two facts() don't share."""
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            yield name, "added" if name in after else "removed", None, None
            continue
        old, new = before[name], after[name]
        for what in sorted(old.keys() | new.keys()):
            if old.get(what) != new.get(what):
                yield name, what, old.get(what), new.get(what)


def looked_at(path):
    """Returns the names of a list: a name, and perhaps why after a '#'."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return {line for line in lines if line}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--looked-at", type=Path, help="the names that need no look any more")
    parser.add_argument("--show", action="store_true", help="what each says in both")
    options = parser.parse_args()
    known = looked_at(options.looked_at) if options.looked_at else set()
    left = [found for found in differences(facts(options.before), facts(options.after)) if found[0] not in known]
    for name, what, old, new in left:
        print(f"{name}: {what}")
        if options.show and (old, new) != (None, None):
            print(f"    {old}\n    {new}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
