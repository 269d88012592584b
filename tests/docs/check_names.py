#!/usr/bin/env python3
"""Checks that the namespace diptych holds the names that docs/cpp_api.md lists, header by header, and no others. Doxygen reads the
headers of the whole library, so that a name that nobody meant to show is found wherever it is declared.
Usage: check_names.py ROOT [--write]   (--write puts the table on the page that the headers want)"""
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections import defaultdict
from pathlib import Path

DOXYGEN = """
INPUT = {source}/diptych
RECURSIVE = YES
FILE_PATTERNS = *.h
STRIP_FROM_PATH = {source}
OUTPUT_DIRECTORY = {out}
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
QUIET = YES
WARNINGS = NO
"""
HEAD = "| Header | Names |\n|---|---|\n"
ROW = re.compile(r"^\| `(diptych/[^`]+\.h)` \| (.*) \|$", re.M)


def declared(root):
    """{header: names} of what stands in the namespace diptych itself."""
    names = defaultdict(set)
    with tempfile.TemporaryDirectory() as folder:
        config = DOXYGEN.format(source=root / "src", out=folder)
        subprocess.run(["doxygen", "-"], input=config, text=True, check=True, capture_output=True)
        xml_folder = Path(folder) / "xml"
        namespace = xml.etree.ElementTree.parse(xml_folder / "namespacediptych.xml").getroot()
        for member in namespace.iter("memberdef"):
            names[member.find("location").get("file")].add(member.find("name").text)
        for inner in namespace.iter("innerclass"):
            compound = xml.etree.ElementTree.parse(xml_folder / f"{inner.get('refid')}.xml").getroot().find("compounddef")
            name = re.sub(r"<.*", "", inner.text.removeprefix("diptych::")).strip()
            if "::" not in name:
                names[compound.find("location").get("file")].add(name)
    return {header: sorted(found, key=str.lower) for header, found in names.items()}


def table(names):
    rows = (f"| `{header}` | {', '.join(f'`{name}`' for name in found)} |" for header, found in sorted(names.items()))
    return HEAD + "\n".join(rows) + "\n"


def main():
    root = Path(sys.argv[1]).resolve()
    page = root / "docs/cpp_api.md"
    text = page.read_text()
    names = declared(root)
    if "--write" in sys.argv:
        begin = text.index(HEAD)
        rows = list(ROW.finditer(text, begin))
        end = rows[-1].end() + 1 if rows else begin + len(HEAD)
        page.write_text(text[:begin] + table(names) + text[end:])
        return
    listed = {header: re.findall(r"`([^`]+)`", found) for header, found in ROW.findall(text)}
    faults = []
    for header in sorted(names.keys() | listed.keys()):
        here, there = set(names.get(header, ())), set(listed.get(header, ()))
        faults += [f"{header} declares diptych::{name}, which docs/cpp_api.md does not list; put it into detail, or list it" for name in sorted(here - there)]
        faults += [f"docs/cpp_api.md lists {name} of {header}, which does not declare it in diptych" for name in sorted(there - here)]
    if faults or not names:
        sys.exit("\n".join(faults) or "no name was found")
    print(f"{sum(map(len, names.values()))} names in {len(names)} headers")


if __name__ == "__main__":
    main()
