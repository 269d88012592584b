"""Links names in running text to the reference: `diptych.scan(...)` to Python's, `dp::scan` to C++'s."""
import re

from docutils import nodes
from sphinx.util.nodes import make_refnode

NAME = re.compile(r"((?:diptych\.|dp::)[\w.:]*\w)(?:\(.*\))?")


def targets(env):
    """{name as pages write it: (page, anchor)}."""
    found = {}
    for domain, prefix in (("py", ""), ("cpp", "dp::")):
        for name, _, kind, page, anchor, _ in env.get_domain(domain).get_objects():
            if kind not in ("module", "templateParam", "functionParam"):
                found.setdefault(prefix + name, (page, anchor))
    return found


def link_code(app, doctree, docname):
    known = app.env.temp_data.get("diptych_targets")
    if known is None:
        known = app.env.temp_data["diptych_targets"] = targets(app.env)
    for literal in list(doctree.findall(nodes.literal)):
        name = NAME.fullmatch(literal.astext())
        if name is None or name.group(1) not in known or isinstance(literal.parent, (nodes.reference, nodes.title)):
            continue
        page, anchor = known[name.group(1)]
        literal.replace_self(make_refnode(app.builder, docname, page, anchor, literal.deepcopy()))


def setup(app):
    app.connect("doctree-resolved", link_code)
    return {"parallel_read_safe": True}
