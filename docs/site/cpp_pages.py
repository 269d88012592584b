"""Shows C++ sources as pages: lessons with their comments as prose, and other files that a page links to as they are."""
import re

from myst_parser.parsers.sphinx_ import MystParser

# Names in prose that are code wherever they stand.
CODE_WORDS = re.compile(r"(?<![\w`:])((?:dp|torch|at|std)::\w+(?:::\w+)*(?:\(\))?|\w+\(\)|DIPTYCH_\w+)(?![\w`])")


def prose(lines):
    """Markdown of a comment: indented lines are a block of code, `1. Title.` begins a section."""
    out, indented = [], False
    for line in lines:
        if line.startswith("  ") != indented:
            indented = not indented
            out += ["```text" if indented else "```"]
        out.append(line[2:] if indented else CODE_WORDS.sub(r"`\1`", line))
    text = "\n".join(out + ["```"] * indented)
    return re.sub(r"\A(\d+\. [^.]+)\.(?:\s|\Z)", r"## \1\n\n", text)


def lesson(source):
    """Markdown of a lesson: comments that begin a line become text, everything else blocks of code."""
    parts = []
    for line in source.splitlines():
        comment = re.match(r"///? ?(.*)", line)
        kind = "prose" if comment else "code"
        if not parts or parts[-1][0] != kind:
            parts.append((kind, []))
        parts[-1][1].append(comment.group(1) if comment else line)
    pages = []
    for kind, lines in parts:
        code = "\n".join(lines).strip("\n")
        if kind == "prose":
            pages.append(prose(lines))
        elif code:
            pages.append(f"```cpp\n{code}\n```")
    title, rest = pages[0].split("\n", 1)
    return "\n\n".join([f"# {title.rstrip('.')}", rest, *pages[1:]]) + "\n"


def listing(source, path):
    """Markdown of a file that is shown whole."""
    language = {"py": "python", "sh": "sh"}.get(path.rsplit(".", 1)[-1], "cpp")
    return f"# {path}\n\n````{language}\n{source.rstrip()}\n````\n"


class CppParser(MystParser):
    supported = ("cpp",)

    def parse(self, inputstring, document):
        path = str(self.env.doc2path(self.env.docname, base=False))
        page = lesson(inputstring) if path.startswith("tutorial/") else listing(inputstring, path)
        super().parse(page, document)


def setup(app):
    app.add_source_parser(CppParser)
    return {"parallel_read_safe": True}
