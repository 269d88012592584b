#!/usr/bin/env python3
"""Writes a compilation database that clang's tools can read, from one made for g++ with precompiled headers.

tools/clang_database.py <build folder> <out folder>. Clang can't read g++'s .gch files, and takes one for its own if it
is beside the header that -include names; so the header is copied to where there is no .gch, and g++'s own flags are
left out. Files that are compiled several at a time have entries of their own.
"""
import json
import re
import shlex
import shutil
import sys
from pathlib import Path

# The folder of the rooms' "pch.h"; g++ needs it only in the one target that compiles it.
ROOMS_HEADER = Path(__file__).resolve().parent.parent / "cmake"
GCC_ONLY = {"-fpch-preprocess", "-Winvalid-pch"}


def plain_header(header: Path, out: Path) -> Path:
    """Copies a header away from its .gch and returns the copy."""
    copy = out / "pch" / "_".join(header.parts[-3:])
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(header, copy)
    return copy


def apart(entry: dict) -> list[dict]:
    """Returns an entry for each file of a unit that CMake made of several, or the entry of one that it did not."""
    unit = Path(entry["file"])
    if unit.parent.name != "Unity":
        return [entry]
    files = re.findall(r'^#include "(.*)"$', unit.read_text(), re.M)
    return [{**entry, "file": file, "command": entry["command"].replace(entry["file"], file)} for file in files]


def translate(entry: dict, out: Path) -> dict | None:
    """Returns the entry for clang, or None for the unit that only makes a precompiled header."""
    if entry["file"].endswith((".hxx.cxx", ".hxx")):
        return None
    arguments = shlex.split(entry["command"])
    # A launcher (cmake -E env NAME=value ccache) may precede the compiler, which is the last word before the first
    # flag.
    first_flag = next(i for i, word in enumerate(arguments) if word.startswith("-") and word != "-E")
    arguments = arguments[first_flag - 1 :]
    clean, words = [], iter(arguments)
    for word in words:
        if word in GCC_ONLY:
            continue
        if word == "-include":
            header = Path(next(words))
            if header.name == "cmake_pch.hxx":
                clean += [f"-I{ROOMS_HEADER}", word, str(plain_header(header, out))]
            else:
                clean += [word, str(header)]
            continue
        clean.append(word)
    return {"directory": entry["directory"], "file": entry["file"], "arguments": clean}


def main() -> int:
    build, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    entries = json.loads((build / "compile_commands.json").read_text())
    translated = [t for unit in entries for entry in apart(unit) if (t := translate(entry, out.resolve()))]
    (out / "compile_commands.json").write_text(json.dumps(translated, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
