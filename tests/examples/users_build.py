#!/usr/bin/env python3
"""Holds what a user's program costs its compiler, by counts that are the same on every machine: the lines that the headers of the
library add to those of <torch/torch.h>, which the programs do without, and the functions that its templates leave in the object file.
Usage: users_build.py BUILD   (a build folder with compile_commands.json and the object files of the programs)"""
import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

#: Of each program: lines of headers that <torch/torch.h> does not read, and functions of these namespaces in its object file. A header
#: that is heavy, or a template that does itself what a function of the library could do, goes beyond them.
BOUNDS = {
    "first_capture": (5_300, 42),
    "first_scan": (5_330, 39),
    "first_training": (5_330, 130),
    "train_gpt": (7_400, 195),
    "train_resnet": (7_400, 118),
}
COUNTED = ("diptych::", "fmt::")
MARKER = re.compile(r'# \d+ "([^"]*)"(.*)')
SHOWN = 12


def commands(build):
    """{program: (folder, compiler's arguments, object file)}, without the precompiled header, which a user has not."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        output = words[words.index("-o") + 1]
        program = re.search(r"/(\w+)\.dir/", output)
        if program is None or program.group(1) not in BOUNDS:
            continue
        words = words[next(i for i, word in enumerate(words) if re.search(r"(clang\+\+|g\+\+|c\+\+)[-\d.]*$", word)):]
        found[program.group(1)] = (entry["directory"], without_precompiled_header(words), output)
    missing = sorted(set(BOUNDS) - set(found))
    if missing:
        sys.exit(f"{build}/compile_commands.json does not build {', '.join(missing)}")
    return found


def without_precompiled_header(words):
    left, place = [], 0
    while place < len(words):
        word, following = words[place], words[place + 1] if place + 1 < len(words) else ""
        if word == "-Xclang" and following in ("-include", "-include-pch"):
            place += 4
        elif word in ("-include", "-o"):
            place += 2
        else:
            if word not in ("-c", "-Winvalid-pch"):
                left.append(word)
            place += 1
    return left


def lines_by_header(words, folder, source=None):
    """{header: (lines, the headers by which it was reached)} of a preprocessed file, or of `source`."""
    if source is not None:
        words = [*words[:-1], "-x", "c++", "-"]
    text = subprocess.run([*words, "-E"], cwd=folder, input=source, capture_output=True, text=True, check=True).stdout
    lines, chains, stack = Counter(), {}, [""]
    for line in text.splitlines():
        marker = MARKER.match(line)
        if marker is None:
            lines[stack[-1]] += bool(line.strip())
        elif " 1" in marker.group(2):
            stack.append(marker.group(1))
            chains.setdefault(marker.group(1), tuple(stack))
        elif " 2" in marker.group(2):
            stack.pop()
    return lines, chains


def brought_by(chain):
    """The last header of the library, or of the program, by which a header was reached, and what that one includes."""
    ours = [i for i, header in enumerate(chain) if re.search(r"/(diptych|examples)/", header)]
    if not ours:
        return "the program", Path(chain[1]).name
    return re.sub(r".*/(?=diptych/|examples/)", "", chain[ours[-1]]), "/".join(chain[min(ours[-1] + 1, len(chain) - 1)].split("/")[-2:])


def own_name(symbol):
    """diptych::detail::make_flat of a symbol with its arguments and what it returns."""
    name, depth = "", 0
    for letter in re.sub(r"operator(\(\)|<<|<=|<|->|>>|>=|>)", "operator", symbol):
        depth += letter in "<("
        name += letter if depth == 0 else ""
        depth -= letter in ">)"
    return re.sub(r" const$|\[.*", "", name.strip()).strip().split(" ")[-1]


def functions(path):
    """The functions of templates, and inline ones, that an object file holds a copy of: how many of each name."""
    symbols = subprocess.run(["nm", "-C", path], capture_output=True, text=True, check=True).stdout
    found = (re.search(r" [Wt] (.*)", line) for line in symbols.splitlines())
    names = (own_name(match.group(1)) for match in found if match)
    return Counter(name for name in names if name.startswith(COUNTED))


def shown(counts, noun):
    return "".join(f"\n    {count:6} {noun} {name}" for name, count in counts.most_common(SHOWN))


def fault(program, what, count, bound, counts, noun):
    if count <= bound:
        return []
    return [f"{program}: {count} {what}, expected at most {bound}; most are from{shown(counts, noun)}"]


def check(program, command, torch_headers, build):
    folder, words, output = command
    lines, chains = lines_by_header(words, folder)
    more = {header: count for header, count in lines.items() if header and header not in torch_headers}
    by_header = Counter()
    for header, count in more.items():
        by_header[" -> ".join(brought_by(chains[header]))] += count
    found = functions(Path(folder) / output)
    most_lines, most_functions = BOUNDS[program]
    print(f"{program}: {sum(more.values())} lines, {found.total()} functions, {sum(lines.values())} lines in all of {sum(torch_headers.values())}")
    return [
        *fault(program, "lines that <torch/torch.h> has not", sum(more.values()), most_lines, by_header, "lines"),
        *fault(program, "lines of headers in all, more than <torch/torch.h> has", sum(lines.values()), sum(torch_headers.values()), lines, "lines"),
        *fault(program, "functions of templates", found.total(), most_functions, found, "of"),
    ]


def main():
    build = Path(sys.argv[1])
    found = commands(build)
    folder, words, _ = found["first_capture"]
    torch_headers, _ = lines_by_header(words, folder, "#include <torch/torch.h>\n")
    faults = [text for program, command in sorted(found.items()) for text in check(program, command, torch_headers, build)]
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
