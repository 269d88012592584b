"""What the docstrings of both languages have in common: lines such as `Errors: ...` are sections, `code` is code, and
indented lines are a block of code. Run as a program, it filters a C++ header for doxygen."""
import re
import sys
from pathlib import Path

SECTIONS = "Shapes|Units|Requires|Ensures|Errors|Threads|Source|Memory"
SECTION = re.compile(rf"(?:^|(?<=[.;:)] )|(?<=/// ))({SECTIONS})(, when called)?:(?: |$)", re.M)
PARAMETER = re.compile(r"^((?:\w+, )*\w+): (?=\S)", re.M)


def shown_headers(root):
    """The headers that docs/cpp_api.md shows. Errors: exits if the umbrella includes one that is missing there."""
    shown = re.findall(r"^### `(diptych/\S+)`", (root / "docs/cpp_api.md").read_text(), flags=re.M)
    umbrella = re.findall(r'#include "(diptych/[^"]+)"', (root / "src/diptych/diptych.h").read_text())
    missing = sorted(set(umbrella) - set(shown))
    if missing:
        sys.exit(f"docs/cpp_api.md does not show {', '.join(missing)}")
    return shown


def for_doxygen(source):
    """A header whose docstrings doxygen reads as they are meant."""
    # Without its namespaces, whose names would stand before every other on the page.
    names = "|".join(re.findall(r"^namespace (diptych(?:::(?!detail)\w+)?) \{$", source, flags=re.M)) or "diptych"
    source = re.sub(rf"^namespace (?:{names}) \{{$|^\}}  // namespace (?:{names})$", "", source, flags=re.M)
    source = source.replace("namespace diptych::detail", "namespace detail")
    source = re.sub(r" = \{\.[^}]*\}", " = {}", source)  # Sphinx can't read designated initializers
    # What the file opens with is said of the file.
    source = re.sub(r"\A(?://.*\n)+", lambda top: "/// @file\n" + top.group(0).replace("//", "///"), source)
    out, in_code = [], False
    for line in source.splitlines():
        comment = re.match(r"(\s*///) ?(.*)", line)
        is_code = bool(comment) and comment.group(2).startswith("  ")
        if is_code != in_code and (is_code or comment is None or comment.group(2)):
            out.append(f"/// {'@code' if is_code else '@endcode'}")
            in_code = is_code
        if comment and not is_code:
            line = SECTION.sub(rf"\n{comment.group(1)} @par \1\2\n{comment.group(1)} ", line)
        out.append(line)
    return "\n".join(out) + "\n"


def parameters(block):
    """A block with lines such as `name: what it is` as a list of them."""
    out = []
    for line in block.splitlines():
        if re.match(PARAMETER, line):
            line = PARAMETER.sub(r"\n* ``\1``: ", line)
        elif out and "* ``" in out[-1] or out and out[-1].startswith("  "):
            line = f"\n{line}" if line.startswith("Returns") else f"  {line}"
        out.append(line)
    return "\n".join(out)


def link_names(text):
    """Links the package's classes, and its functions where parentheses follow, wherever a docstring names them."""
    import diptych

    classes = [name for name in diptych.__all__ if name[0].isupper()]
    functions = [name for name in diptych.__all__ if name[0].islower() and callable(getattr(diptych, name))]
    text = re.sub(rf"(?<![\w.`])({'|'.join(classes)})\b(?![\w`(])", r":py:class:`~diptych.\1`", text)
    return re.sub(rf"(?<![\w.`])({'|'.join(functions)})\(\)", r":py:func:`~diptych.\1`", text)


def to_rst(text):
    """A Python docstring, dedented, as reStructuredText."""
    blocks = []
    for block in re.split(r"\n\s*\n", text):
        if block.startswith("    "):
            blocks.append("::\n\n" + block)
            continue
        block = re.sub(r"(?<![`*])(\*+)(?=\w)", lambda stars: "\\*" * len(stars.group(1)), block)
        for part in SECTION.sub(r"\n\n**\1\2.** ", link_names(block)).split("\n\n"):
            blocks.append(part if part.startswith("**") else parameters(part))
    return "\n\n".join(blocks)


def process_docstring(_app, what, _name, thing, _options, lines):
    # Sphinx takes away the indentation of code where nothing but code follows the first line.
    text = (thing.__doc__ or "") if what == "module" else "\n".join(lines)
    if isinstance(thing, property) and (kind := re.search(r"-> (.*)", thing.fget.__doc__ or "")):
        text = f"{text.strip()} → {shorter(kind.group(1))}".strip()
    lines[:] = to_rst(text).splitlines()


def shorter(signature):
    """A signature by pybind11 without what says nothing to the reader."""
    text = re.sub(r"diptych\._core\.|collections\.abc\.", "", signature)
    text = re.sub(r"typing\.Supports(Int|Float) \| typing\.SupportsIndex", lambda kind: kind.group(1).lower(), text)
    return re.sub(r"\(self: \w+(?:, )?", "(", text)


def process_signature(_app, what, _name, thing, _options, signature, returns):
    made = re.match(r"__init__(\(.*\)) -> None", thing.__init__.__doc__ or "") if what == "class" else None
    if made:
        signature = made.group(1)
    return signature and shorter(signature), returns and shorter(returns)


def name_public_modules(*modules):
    """The classes of the compiled module have the names under which users find them."""
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, type) and thing.__module__ == "diptych._core":
                thing.__module__, thing.__name__, thing.__qualname__ = module.__name__, name, name


def check_everything_is_shown(app, env):
    """A public name that the reference does not show is a warning, which fails the build."""
    import diptych
    from sphinx.util import logging

    shown = env.get_domain("py").objects
    for name in diptych.__all__:
        if f"diptych.{name}" not in shown:
            logging.getLogger(__name__).warning("docs/python_api.md does not show diptych.%s", name)


def setup(app):
    app.connect("autodoc-process-docstring", process_docstring)
    app.connect("autodoc-process-signature", process_signature)
    app.connect("env-check-consistency", check_everything_is_shown)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    sys.stdout.write(for_doxygen(Path(sys.argv[1]).read_text()))
