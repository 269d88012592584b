"""Colours for the text form of graphs (docs/spec.md), wherever a page shows some."""
from docutils import nodes
from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text


class GraphLexer(RegexLexer):
    name = "graph"
    aliases = ["graph"]
    tokens = {"root": [
        (r"(?:#|//).*", Comment.Single),
        (r"\b(graph|return)(?=[ (])", Keyword),
        (r"\b(grad|argument|free_variable|residual|tangent|output|mutated|gradient|constant|where)(?=[,)\s]|$)", Keyword.Pseudo),
        (r"%\d+", Name.Variable),
        (r"\b(?:none|None|True|False|_)\b", Keyword.Constant),
        (r"([\w.]+)(\()", bygroups(Name.Function, Punctuation)),
        (r"\b(?:bf16|[fic]\d+|[ub]8)\b", Keyword.Type),
        (r'"(?:\\.|[^"\\])*"', String),
        (r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?", Number),
        (r"[:=]", Operator),
        (r"\w+(?:\.\w+)*|\s+|.", Text),
    ]}


def find_graphs(_app, doctree, _docname):
    """Output that holds graphs is shown in their colours."""
    for block in doctree.findall(nodes.literal_block):
        if block.get("language") == "text" and block.astext().lstrip().startswith("graph "):
            block["language"] = "graph"


def setup(app):
    app.add_lexer("graph", GraphLexer)
    app.connect("doctree-resolved", find_graphs)
    return {"parallel_read_safe": True}
