"""The site's navigation, made from the tables of docs/index.md, and the sources that pages link to."""
import re

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def linked_sources(root, pages):
    """The sources that the pages link to, by their paths in the repository: the site shows them, too."""
    found = set()
    for pattern in pages:
        for page in root.glob(pattern):
            for target in LINK.findall(page.read_text()):
                path = page.parent / target
                if path.suffix in (".h", ".cpp", ".py", ".sh") and path.is_file():
                    found.add(path.resolve().relative_to(root).as_posix())
    return sorted(found)


def add_toctrees(app, docname, source):
    """Appends to docs/index.md a hidden toctree per section: the links of its table."""
    if docname != app.config.root_doc:
        return
    for section in re.split(r"^## ", source[0], flags=re.M)[1:]:
        caption, body = section.split("\n", 1)
        links = re.findall(r"\[([^\]]+)\]\(([^)#\s]+)\)", "\n".join(re.findall(r"^\|.*", body, flags=re.M)))
        entries = "\n".join(f"{text.replace('`', '')} <{re.sub('[.](md|cpp)$', '', path)}>" for text, path in links if ":" not in path)
        if entries:
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def unlink_folders(app, docname, source):
    """Links to folders, which show something in a repository alone, become plain text."""
    folder = app.env.doc2path(docname, base=True)
    source[0] = re.sub(
        r"\[([^\]]+)\]\(([^)#:\s]+)\)",
        lambda link: link.group(1) if (type(app.srcdir)(folder).parent / link.group(2)).is_dir() else link.group(0),
        source[0],
    )


def leave_out(_app, env):
    """Pages outside docs/ may be reached by links alone; one of docs/ that its index does not name is a warning."""
    for page in env.all_docs:
        if not page.startswith("docs/"):
            env.metadata[page]["orphan"] = True


def setup(app):
    app.connect("env-updated", leave_out)
    app.connect("source-read", unlink_folders)
    app.connect("source-read", add_toctrees)
    return {"parallel_read_safe": True}
