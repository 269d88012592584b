"""How graphs, pairs and compiled functions show themselves."""
import html.parser
import re

import diptych
import pytest
import torch


def f(x, w):
    return torch.tanh(x @ w).sum(), x.sort(dim=1)[1]


@pytest.fixture
def pair():
    return diptych.capture(f, torch.randn(3, 4), torch.randn(4, 2, requires_grad=True))


class Frames(html.parser.HTMLParser):
    """The pages that a notebook's cell holds in frames, and how many other elements."""

    def __init__(self, text):
        super().__init__()
        self.pages, self.others = [], 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "iframe":
            self.pages.append(dict(attributes)["srcdoc"])
        else:
            self.others += 1


def test_notebooks_get_the_page_in_a_frame(pair):
    for shown in (pair, pair.forward, pair.backward):
        frames = Frames(shown._repr_html_())
        assert frames.pages == [shown.html()]  # whole, whatever quotes and brackets are in it
        assert frames.others == 0


def test_print_tabular(pair, capsys):
    for shown in (pair, pair.forward):
        shown.print_tabular()
        assert capsys.readouterr().out == shown.table() + "\n"


def test_print_readable_is_python_code(pair, capsys):
    text = pair.print_readable()
    assert capsys.readouterr().out == text + "\n"
    assert 'def forward(self, x: "f32[3, 4]", w: "f32[4, 2]"):' in text
    assert re.search(r'"f32\[3, 2\]" = torch.ops.aten.tanh.default\(mm', text)
    assert re.search(r'"i64\[3, 4\]" = sort_default\[1\]', text)
    assert re.search(r"# File: test_display.py:\d+ in f", text)
    assert 'def forward(self, residual_0: "f32[3, 4]", residual_1: "f32[3, 2]", tangent_0: "f32[]"):' in text
    assert text.count("class ") == 2 and "tanh_backward" in text
    assert pair.backward.print_readable(print_output=False) in text
    assert capsys.readouterr().out == ""
    compile(text, "graph", "exec")


def test_representations_are_short(pair):
    assert repr(pair) == "<Pair of 4 nodes forward, 4 nodes backward and 2 residuals>"
    assert repr(pair.forward) == "<Graph forward of 4 nodes>"
    assert str(pair) == pair.code() and str(pair.forward) == pair.forward.code()
    compiled = diptych.aot_function(f)
    assert repr(compiled) == "<compiled f: 0 captures, 0 hits>"
    for _ in range(3):
        compiled(torch.randn(3, 4), torch.randn(4, 2))
    assert repr(compiled) == "<compiled f: 1 captures, 2 hits>"


def test_metadata_reaches_fx(pair):
    module = diptych.fx.to_graph_module(pair.forward)
    tanh = next(node for node in module.graph.nodes if "tanh" in str(node.target))
    assert tanh.meta["tensor_meta"].shape == (3, 2) and tanh.meta["tensor_meta"].dtype == torch.float32
    assert tanh.meta["tensor_meta"].stride == (2, 1)
