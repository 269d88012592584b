#!/usr/bin/env python3
"""Checks that src/diptych keeps to its rooms: what each may include, and what no source may contain.

Run without arguments from anywhere; prints one line per fault, "file:line: what, and what to do", and exits 1 if there
is one.
"""
import re
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

# Room -> the rooms that it may include directly; it may also include whatever those may. src/README.md explains each.
ROOMS = {
    "base": [],
    "graph": ["base"],
    "tree": ["graph"],
    "ops": ["graph"],
    "interpreter": ["ops"],
    "trace": ["ops"],
    "passes": ["ops"],
    "autodiff": ["trace", "interpreter", "passes"],
    "scan_passes": ["interpreter", "passes"],
    "backend": ["interpreter", "passes"],
    "native": ["backend"],
    "xla": ["backend"],
    "backends": ["native", "xla"],
    "hops": ["autodiff", "scan_passes", "tree"],
    "compile": ["hops", "backends", "tree"],
    "backward": ["trace", "backends", "scan_passes"],
    "distributed": ["backward"],
    "pair": ["compile"],
    "transforms": ["hops"],
    "training": ["backward", "pair"],
}
# The layers inside of large rooms: a folder, or the name of a file beside the folders -> what it may include of its room,
# directly or by what those may.
LAYERS = {
    "native": {
        "jit": [],
        "kernel": [],
        "memory": ["kernel"],
        "lower": ["kernel"],
        "fusion": ["lower"],
        "scalar": ["kernel", "jit"],
        "schedule": ["scalar", "lower"],
        "codegen": ["schedule"],
        "native_graph": [],
        "call": ["native_graph", "fusion", "codegen", "memory"],
        "plan": ["call"],
        "prepare": ["call"],
        "native_backend": ["plan", "prepare"],
        "report": ["native_backend"],
    },
    "xla": {
        "hlo": [],
        **{
            f"lower/{family}": ["hlo"]
            for family in ("pointwise", "shape", "indexing", "reduction", "windows", "linear_algebra", "special", "hops")
        },
        "pjrt": ["hlo"],
        "stablehlo_module": [],
        "export_graph": ["hlo", "stablehlo_module"],
        "shared_results": [],
        "slot_tensor": ["hlo"],
        "xla_backend": ["pjrt", "shared_results", "slot_tensor"],
    },
}
# What may name a single backend: the list of them, and the steps that keep their state on its devices. The headers that
# say what a backend made are everybody's.
BACKENDS = ("native", "xla")
NAMES_BACKENDS = ("backends/", "training/")
READ_BY_ALL = ("native/native_graph.h", "xla/stablehlo_module.h")
# Library code logs through base/switches and throws; this file is where log lines reach standard error.
MAY_PRINT = {"base/switches.cpp"}
# Static registration belongs to the tracer, which has to exist before the first operator is called.
REGISTRATION_ROOM = "trace"


class Fault(NamedTuple):
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def reachable(room: str, table: dict[str, list[str]] = ROOMS) -> set[str]:
    """Returns the room, or layer, with every one that it may include."""
    found = {room}
    for below in table[room]:
        found |= reachable(below, table)
    return found


def layer_of(path: str) -> str:
    """Returns the layer of its room that a file is in: jit of native/jit/jit.h, lower/shape of xla/lower/shape/x.cpp."""
    folder, name = path.split("/", 1)[1].rpartition("/")[::2]
    return folder or name.rsplit(".", 1)[0]


def check_layer(path: str, included: str) -> str | None:
    """Returns what is wrong with a file that includes another one of its room, or None."""
    room = path.split("/")[0]
    if room not in LAYERS:
        return None
    table, own, other = LAYERS[room], layer_of(path), layer_of(included)
    for layer in (own, other):
        if layer not in table:
            return f"layer '{layer}' of {room}/ is not in LAYERS of tools/check_layers.py; add it"
    if other in reachable(own, table):
        return None
    allowed = ", ".join(sorted(reachable(own, table) - {own})) or "none"
    return f"layer '{own}' of {room}/ may not include layer '{other}' (it may include: {allowed})"


def without_comments(source: str) -> str:
    """Blanks out comments, keeping line numbers and string literals."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match: re.Match) -> str:
        text = match.group(0)
        return re.sub(r"[^\n]", " ", text) if text.startswith(("//", "/*")) else text

    return token.sub(blank, source)


def includes(code: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(code.splitlines(), 1):
        if match := re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line):
            yield number, match.group(1)


def check_include(room: str, path: str, included: str) -> str | None:
    """Returns what is wrong with a file of `room` that includes `included`, or None."""
    if included in ("torch/torch.h", "torch/all.h", "torch/extension.h"):
        return f"<{included}> reads all of torch; include ATen/core/Tensor.h and ATen/ops/<operator>.h"
    if not included.startswith("diptych/"):
        return None
    parts = included.split("/")
    if len(parts) < 3:
        return f'"{included}" is the umbrella, which is for users; include the rooms that are needed'
    other = parts[1]
    if other not in ROOMS:
        return f"includes room '{other}', which tools/check_layers.py does not know"
    if other not in reachable(room):
        allowed = ", ".join(sorted(reachable(room) - {room})) or "none"
        return f"room '{room}' may not include room '{other}' (it may include: {allowed}); move the code, or pass the fact in"
    name = included.removeprefix("diptych/")
    if other == room:
        return check_layer(path, name)
    if other in BACKENDS and name not in READ_BY_ALL and not path.startswith(NAMES_BACKENDS):
        return f"only {' and '.join(NAMES_BACKENDS)} may name the backend '{other}'"
    return None


# An operator's name as a literal: "aten::add.Tensor", "aten.add", "hop.scan".
_OPERATOR = r'"(?:aten|prims|hop)(?:::|\.)\w[^"]*"(?:sv|s)?'
# The expressions for an operator's name: op.name(), node.op.hop().name, schema().name(), operator_name().name.
_NAME = r"\b(?:op|op\(\)|hop\(\)|schema\(\)|operator_name\(\))(?:\.|->)name(?:\(\))?"
_TESTS = r"(?:\.(?:r?find|compare|starts_with|ends_with)\s*\(|\s*[=!]=\s*\")"
_FOUND = rf"\bOp::find\(\s*{_OPERATOR}"
_NAME_TEST = re.compile(
    rf"[=!]=\s*{_OPERATOR}|{_OPERATOR}\s*[=!]=|{_NAME}{_TESTS}"
    rf"|\.(?:r?find|compare|starts_with|ends_with)\s*\(\s*{_OPERATOR}|{_FOUND}"
)
# An Op found by its name is there to be compared with others, unless a node begins with it: Node node{Op::find("aten.clone"), ...}.
_BUILT_NODE = re.compile(rf"\bNode\s*\w*\{{{_FOUND}")


def may_test_names(path: str) -> bool:
    parts = path.split("/")
    return parts[0] == "ops" or (parts[0] in BACKENDS and parts[-1].startswith("lower_"))


_PRINT = re.compile(r"\bstd::(?:cout|cerr|clog|puts|printf|fprintf|print|println)\b|(?<![\w:.>])(?:printf|fprintf|puts|perror)\s*\(|\bfmt::print(?:ln)?\b")
_FOREIGN = re.compile(r'"(?:/(?:home|root|work|opt|mnt|usr|tmp|Users)/|[A-Z]:\\\\)[^"]*"')
_REGISTRATION = re.compile(r"\b(?:TORCH_LIBRARY\w*|C10_REGISTER\w*)\s*\(")


def check_lines(room: str, path: str, code: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(code.splitlines(), 1):
        if not may_test_names(path) and _NAME_TEST.search(_BUILT_NODE.sub("", line)):
            yield number, "tests an operator by its name; ask a tag or a table of ops/ for the fact that is meant (add it if it is missing)"
        if path not in MAY_PRINT and _PRINT.search(line):
            yield number, "library code prints nothing; use diptych::log, or return the text"
        if _FOREIGN.search(line):
            yield number, "names a path of one machine"
        if room != REGISTRATION_ROOM and _REGISTRATION.search(line):
            yield number, f"static registration stands in {REGISTRATION_ROOM}/ alone; write a register_<name>() that is called"


def check_file(path: str, source: str) -> list[Fault]:
    """Checks one file, named by its path below src/diptych."""
    room = path.split("/")[0]
    if "/" not in path:  # the umbrella header
        return []
    if room not in ROOMS:
        return [Fault(path, 1, f"room '{room}' is not in the table of tools/check_layers.py; add it, and src/README.md")]
    code = without_comments(source)
    faults = [Fault(path, number, text) for number, name in includes(code) if (text := check_include(room, path, name))]
    faults += [Fault(path, number, text) for number, text in check_lines(room, path, code)]
    first = next(includes(code), None)
    own = f"diptych/{path[:-4]}.h"
    if path.endswith(".cpp") and any(name == own for _, name in includes(code)) and first[1] != own:
        faults.append(Fault(path, first[0], f'include the own header "{own}" first, which shows that it stands alone'))
    if path.endswith(".h") and not re.search(r"^#pragma once$", source, re.M):
        faults.append(Fault(path, 1, "a header begins with #pragma once"))
    return sorted(faults)


def check_targets(text: str) -> list[Fault]:
    """Checks that the CMake targets of the rooms link nothing that the table does not allow."""
    faults = []
    for match in re.finditer(r"^lib_room\((\w+)(.*?)\)", text, re.M | re.S):
        room, line = match.group(1), text.count("\n", 0, match.start()) + 1
        if room not in ROOMS:
            faults.append(Fault("CMakeLists.txt", line, f"room '{room}' is not in the table of tools/check_layers.py"))
            continue
        deps = re.search(r"\bDEPS\b(.*?)(?:\bSOURCES\b|$)", match.group(2), re.S)
        for other in deps.group(1).split() if deps else []:
            if other not in reachable(room) or other == room:
                faults.append(Fault("CMakeLists.txt", line, f"room '{room}' may not link room '{other}'"))
    return faults


def check_tree(root: Path) -> tuple[int, list[Fault]]:
    """Checks every source under `root` (src/diptych); returns the number of files and the faults."""
    files = sorted(file for suffix in ("*.h", "*.cpp") for file in root.rglob(suffix))
    faults = check_targets((root / "CMakeLists.txt").read_text())
    for file in files:
        faults += check_file(file.relative_to(root).as_posix(), file.read_text())
    return len(files), faults


def main() -> int:
    root = Path(__file__).resolve().parent.parent / "src" / "diptych"
    count, faults = check_tree(root)
    for fault in faults:
        print(f"src/diptych/{fault}")
    if count == 0:
        print(f"layers: found no sources under {root}")
        return 1
    print(f"layers: {count} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
