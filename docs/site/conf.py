"""Sphinx's configuration of the documentation site. The source folder is the repository's root, so that the pages' links
to each other are the same on the site as in the repository; build.py runs Sphinx."""
import re
import sys
from pathlib import Path

import diptych

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

import docstrings  # noqa: E402  (found by the path above)
import navigation  # noqa: E402

project = "Diptych"
version = release = diptych.__version__
copyright = "Diptych contributors, BSD-3-Clause"  # noqa: A001  (Sphinx's name)
extensions = ["myst_parser", "sphinx.ext.autodoc", "breathe", "cpp_pages", "docstrings", "graph_text", "code_links", "navigation"]

root_doc = "docs/index"
pages = ["docs/*.md", "docs/design/*.md", "*.md", "src/README.md", "python/README.md", "tests/README.md", "benchmarks/README.md", "data/README.md", "examples/*/README.md"]
include_patterns = [*pages, "tutorial/lesson_*.cpp", *navigation.linked_sources(ROOT, pages)]
exclude_patterns = [".*", "build", "out", "node_modules", "**/__pycache__"]
source_suffix = {".md": "markdown", ".cpp": "cpp", ".h": "cpp", ".py": "cpp", ".sh": "cpp"}
default_role = "code"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings = [
    "myst.header",  # a changelog's headings begin below the second level
    "duplicate_declaration.cpp",  # a namespace that several headers add to
]

html_theme = "furo"
html_title = f"Diptych {release}"
html_extra_path = ["extra"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "undoc-members": True}
docstrings.name_public_modules(diptych, diptych.backward_capture)

breathe_default_project = "diptych"
breathe_show_include = False
cpp_index_common_prefix = ["diptych::"]
nitpicky = True
# What others document, and what is private on purpose: types that users never write.
nitpick_ignore_regex = [
    ("cpp:identifier", r"(at|c10|c10d|std|torch|fmt|nlohmann)(::.*)?|u?int\d*_t|size_t"),
    ("cpp:identifier", r"(detail(::.*)?|Impl|Plan|Group|Polynomial|InternedString|CompiledFunction|TreeSpec|FlatFunction|Profile|Flattened)"),
    ("py:.*", r"(torch|collections|typing|types|builtins)\..*"),
]
