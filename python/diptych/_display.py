"""How graphs and pairs show themselves in notebooks and at the prompt; attached to the classes of the library."""
import html

from . import _core, fx
from ._cache_stats import CacheStats


def _page_in_a_frame(page):
    """The page inside a notebook: its styles and its script keep to themselves."""
    return f'<iframe srcdoc="{html.escape(page)}" title="diptych" style="width: 100%; height: 32em; border: 0"></iframe>'


def _repr_html(self):
    return _page_in_a_frame(self.html())


def _pair_repr(pair):
    forward, backward = len(pair.forward.nodes), len(pair.backward.nodes)
    return f"<Pair of {forward} nodes forward, {backward} nodes backward and {len(pair.signature.residuals)} residuals>"


def _print_tabular(self):
    """Prints table(). Source: torch.fx.Graph.print_tabular."""
    print(self.table())


def _print_readable(self, print_output=True):
    """Prints the graph as the Python code of an fx.GraphModule, of a pair both graphs, and returns the text.
    Errors: UserError for a graph with dynamic sizes. Source: torch.fx.GraphModule.print_readable."""
    graphs = (self.forward, self.backward) if isinstance(self, _core.Pair) else (self,)
    text = "\n".join(fx.to_graph_module(graph).print_readable(print_output=False) for graph in graphs)
    if print_output:
        print(text)
    return text


def _statistics_repr(self):
    """One line for each fact that says something: numbers other than 0, texts and lists that are not empty."""
    names = getattr(self, "__dict__", None) or [name for name in dir(type(self)) if isinstance(getattr(type(self), name), property)]
    lines = [f"  {name}: {value}" for name, value in ((name, getattr(self, name)) for name in sorted(names)) if value]
    return "\n".join([f"{type(self).__name__}:", *lines] if lines else [f"{type(self).__name__}: nothing has happened yet"])


for _class in (_core.CacheStats, _core.BackwardStatistics, CacheStats):
    setattr(_class, "__repr__", _statistics_repr)
for _class in (_core.Graph, _core.Pair, _core.NativeGraph):
    setattr(_class, "_repr_html_", _repr_html)
for _class in (_core.Graph, _core.Pair):
    setattr(_class, "print_tabular", _print_tabular)
    setattr(_class, "print_readable", _print_readable)
setattr(_core.Pair, "__repr__", _pair_repr)
