#!/usr/bin/env python3
"""Checks that every relative link of the repository's pages leads to a file that is there."""
import re
import sys
from pathlib import Path

SKIPPED = {"build", ".git", ".venv", "out", "node_modules"}


def pages(root):
    for page in sorted(root.rglob("*.md")):
        parts = page.relative_to(root).parts
        if not SKIPPED.intersection(parts) and not any(part.startswith(".") for part in parts):
            yield page


def main():
    root = Path(sys.argv[1]).resolve()
    broken, count = [], 0
    for page in pages(root):
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(root)}: {target}")
    if broken or count == 0:
        sys.exit("broken links:\n" + "\n".join(broken) if broken else "no page has a link")
    print(f"{count} links lead somewhere")


if __name__ == "__main__":
    main()
