#!/usr/bin/env python3
"""Writes data/kjv_new_testament.txt from Debian's package bible-kjv-text.

Needs: apt-get install bible-kjv bible-kjv-text. The package unpacks its text only through its own program `bible`.
The result is the New Testament, one verse a line, a heading before each chapter and an empty line between chapters.
"""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

VERSE = re.compile(r"^([1-3]?[A-Za-z]+)(\d+):(\d+) (.*)$")
# The program's short names, in the order of the text.
BOOKS = {
    "Mat": "Matthew", "Mark": "Mark", "Luke": "Luke", "John": "John", "Acts": "Acts", "Rom": "Romans",
    "1Cor": "1 Corinthians", "2Cor": "2 Corinthians", "Gal": "Galatians", "Eph": "Ephesians", "Phi": "Philippians",
    "Col": "Colossians", "1Th": "1 Thessalonians", "2Th": "2 Thessalonians", "1Tim": "1 Timothy",
    "2Tim": "2 Timothy", "Titus": "Titus", "Phmn": "Philemon", "Heb": "Hebrews", "Jas": "James", "1Pet": "1 Peter",
    "2Pet": "2 Peter", "1Jn": "1 John", "2Jn": "2 John", "3Jn": "3 John", "Jude": "Jude", "Rev": "Revelation",
}


def convert(lines):
    """Yields the lines of the text file for the program's `Mat1:1 The book ...` lines."""
    chapter = None
    for line in lines:
        match = VERSE.match(line)
        if not match:
            sys.exit(f"convert_text.py: not a verse: {line!r}")
        book, number, _, text = match.groups()
        if (book, number) != chapter:
            if chapter:
                yield ""
            yield f"{BOOKS[book].upper()} {number}"
            chapter = (book, number)
        yield text.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parent.parent / "data" / "kjv_new_testament.txt"
    parser.add_argument("--out", type=Path, default=default, help=f"file to write (default {default})")
    args = parser.parse_args()
    if not shutil.which("bible"):
        sys.exit("convert_text.py: the program `bible` is missing; run: apt-get install bible-kjv bible-kjv-text")
    raw = subprocess.run(["bible", "-f", "Matt1:1-Rev22:21"], check=True, capture_output=True, text=True).stdout
    args.out.write_text("\n".join(convert(raw.splitlines())) + "\n", encoding="ascii")
    print(f"{args.out}: {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
