#!/usr/bin/env python3
"""Builds the documentation site: doxygen reads the C++ headers, Sphinx makes the pages, and every link between them is
followed. Any warning is a failure. Needs diptych on PYTHONPATH.

  build.py build/ci/site
"""
import gc
import re
import shutil
import subprocess
import sys
from pathlib import Path

from sphinx.cmd.build import main as sphinx_build

import check_site
import docstrings

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DOXYGEN = """
INPUT = {headers}
STRIP_FROM_PATH = {source}
STRIP_FROM_INC_PATH = {source}
OUTPUT_DIRECTORY = {out}
INPUT_FILTER = "{python} {filter}"
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
AUTOLINK_SUPPORT = NO
EXCLUDE_SYMBOLS = detail detail::* *::detail c10* Tree<* DIPTYCH_DETAIL_*
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = DIPTYCH_API=
HIDE_FRIEND_COMPOUNDS = YES
QUIET = YES
WARN_AS_ERROR = FAIL_ON_WARNINGS
"""


def run_doxygen(out):
    """Makes the XML of the headers that docs/cpp_api.md shows."""
    out.mkdir(parents=True, exist_ok=True)
    source = ROOT / "src"
    headers = docstrings.shown_headers(ROOT)
    config = DOXYGEN.format(
        headers=" ".join(str(source / header) for header in headers), source=source, out=out,
        python=sys.executable, filter=HERE / "docstrings.py",
    )
    if subprocess.run(["doxygen", "-"], input=config, text=True, check=False).returncode:
        sys.exit("doxygen warned")
    for page in (out / "xml").glob("*.xml"):  # doxygen writes private members into XML whatever one asks for
        text = re.sub(r'<sectiondef kind="private-.*?</sectiondef>|<innerclass [^>]*prot="private".*?</innerclass>', "", page.read_text(), flags=re.S)
        page.write_text(text)


def main():
    site = Path(sys.argv[1]).resolve()
    xml = site.parent / f"{site.name}-xml"
    marker = site / ".diptych-site"
    if site.exists() and not marker.exists():
        sys.exit(f"{site} is no site of an earlier build; name a folder of its own, which is made anew")
    for folder in (site, xml):  # no page outlives its source
        shutil.rmtree(folder, ignore_errors=True)
    site.mkdir(parents=True)
    marker.touch()
    run_doxygen(xml)
    gc.disable()  # the pages' trees live to the end: to look through them again and again is two fifths of the time
    arguments = ["-q", "-E", "-n", "-W", "--keep-going", "-b", "html", "-c", str(HERE), "-d", f"{site}-doctrees"]
    arguments += ["-D", f"breathe_projects.diptych={xml / 'xml'}", str(ROOT), str(site)]
    if sphinx_build(arguments):
        sys.exit("sphinx warned")
    check_site.check(site)
    print(f"the documentation is in {site / 'index.html'}")


if __name__ == "__main__":
    main()
