"""tools/mutants.py draws small faults, builds them into one tree and says which test finds which."""
import importlib.util
import sys
import unittest
from dataclasses import replace

from load import ROOT, load

sys.path.insert(0, str(ROOT / "tools"))
sites, mutants = load("mutant_sites"), load("mutants")

LINE = "if (a < b) return c + 1;"
BOUND = sites.Mutant(["src/diptych/graph/new.cpp", "src/diptych/graph/old.cpp"], "src/diptych/graph", "bound", 2, 4, LINE, 0, 1, "a < b", "a <= b", 7)
KILLED, SURVIVED = {"part": "3/10", "killer": "graph_text", "why": "status 1", "runs": 1, "of": 2}, {"part": "", "killer": "", "why": "", "runs": 2, "of": 2}


def changes(source, suffix):
    parser = sites.parsers()[suffix]
    return [(one.kind, one.old, one.new) for one in sites.mutants_in("src/diptych/graph/x" + suffix, source, parser)]


@unittest.skipUnless(importlib.util.find_spec("tree_sitter"), "tree-sitter is not installed")
class Rules(unittest.TestCase):
    def test_each_kind_has_its_changes(self):
        source = "int f() { if (a.strides[i] * b <= -c) return d + 1; return e == 3; }"
        self.assertEqual(set(changes(source, ".cpp")), {
            ("bound", "a.strides[i] * b <= -c", "a.strides[i] * b < -c"),
            ("guard", "a.strides[i] * b <= -c", "!(a.strides[i] * b <= -c)"), ("guard", "a.strides[i] * b <= -c", "false"),
            ("operator", "a.strides[i] * b", "a.strides[i] + b"), ("operator", "e == 3", "e != 3"),
            ("stride", "a.strides[i] * b", "b"), ("stride", "a.strides[i]", "a.strides[i] + 1"),
            ("sign", "-c", "c"), ("sign", "d + 1", "d - 1"), ("bound", "3", "4")})

    def test_python_has_them_too(self):
        source = "if a not in b:\n    x = [-y][offset]\n"
        self.assertEqual(set(changes(source, ".py")), {("operator", "a not in b", "a in b"), ("guard", "a not in b", "not (a not in b)"),
                                                       ("guard", "a not in b", "False"), ("sign", "-y", "y"), ("stride", "offset", "offset + 1")})

    def test_what_compiles_or_makes_a_message_has_none(self):
        for source in ("static_assert(a < b);", "constexpr int a = -b;", "int a[b + 1];", "X<a + 1> b;", "enum { a = 1 + 2 };",
                       "void f() { if constexpr (a < b) return; }", "void f() { throw X(a + b); }", "void f() { fail(a + b); }",
                       "void f() { DIPTYCH_CHECK(a, b + c); }", 'auto a = "b" + c;'):
            self.assertEqual(changes(source, ".cpp"), [])
        self.assertEqual(changes("def f(a=-b):\n    raise X(c + d)\n", ".py"), [])


class Draw(unittest.TestCase):
    MUTANTS = [replace(BOUND, files=[f"{room}.cpp"], room=room, kind=kind, line=line) for room in "abc" for kind in sites.KINDS for line in range(20)]
    LINES = {"a": 10000, "b": 100, "c": 10}

    def draw(self, rejected=()):
        return sites.drawn(self.MUTANTS, self.LINES, 15, 1, set(rejected))

    def test_rooms_share_by_their_lines_and_none_goes_empty(self):
        self.assertEqual(sites.shares(self.LINES, 15), {"a": 13, "b": 1, "c": 1})
        self.assertEqual(sites.shares(self.LINES, 2), {"a": 1, "b": 1})

    def test_kinds_are_drawn_equally_and_lines_once(self):
        drawn = self.draw()
        self.assertEqual([sum(one.kind == kind for one in drawn) for kind in sites.KINDS], [3] * 5)
        self.assertEqual(len({(one.room, one.line) for one in drawn}), 15)
        self.assertEqual(sorted(one.number for one in drawn), list(range(1, 16)))

    def test_what_is_rejected_gives_way_to_another_of_its_room_and_kind(self):
        one = self.draw()[0]
        other = next(new for new in self.draw([sites.key_of(one)]) if new.number == one.number)
        self.assertEqual((one.room, one.kind), (other.room, other.kind))
        self.assertNotEqual(sites.key_of(one), sites.key_of(other))

    def test_a_line_is_found_again_only_if_as_many_read_so(self):
        self.assertEqual(sites.row_of(BOUND, ["", "x", f"    {LINE}"]), 2)
        self.assertIsNone(sites.row_of(BOUND, [LINE, LINE]))


class Build(unittest.TestCase):
    def test_a_switch_takes_the_place_of_the_expression(self):
        lines = mutants.with_switches(f"void f() {{\n  {LINE}\n}}\n", ".cpp", [(1, BOUND)]).splitlines()
        self.assertEqual(lines, ['extern "C" bool diptych_mutant(int);', "#line 1", "void f() {",
                                 "  if ((diptych_mutant(7) ? (a <= b) : (a < b))) return c + 1;", "}"])

    def test_python_defines_the_switch_after_the_docstring(self):
        bound = replace(BOUND, column=4, old="1 < 2", new="1 <= 2")
        text = mutants.with_switches('"""Doc."""\nfrom __future__ import annotations\nimport os\nx = 1 < 2\n', ".py", [(3, bound)])
        scope = {}
        exec(compile(text, "text", "exec"), scope)
        self.assertEqual((scope["__doc__"], scope["x"]), ("Doc.", True))

    def test_errors_blame_the_mutant_of_the_line_or_else_of_the_file(self):
        other = replace(BOUND, number=8, line=9)
        places = {7: (BOUND.files[0], 1), 8: (BOUND.files[0], 8)}
        for line, blamed in ((9, [8]), (5, [7, 8])):
            output = f"/x/{BOUND.files[0]}:{line}:3: error: invalid operands\n/x/{BOUND.files[0]}:2:3: note: here\n"
            self.assertEqual([one.number for one in mutants.blamed(output, [BOUND, other], places)], blamed)


class Tests(unittest.TestCase):
    def test_what_does_not_try_the_library_is_left_out(self):
        properties = [{"name": "WORKING_DIRECTORY", "value": "/"}, {"name": "ENVIRONMENT", "value": ["A=b=c"]}]
        listed = [{"name": name, "command": ["x"], "properties": properties} for name in ("graph_text", "tools.sz", "errors_compile_fail.void")]
        self.assertEqual([(test.name, test.environment) for test in mutants.tests_of({"tests": listed})], [("graph_text", {"A": "b=c"})])

    def test_a_fault_is_what_ctest_says(self):
        test = mutants.Test("a", [], "/", {}, fails=["0 tests from"], skips=77)
        self.assertEqual([mutants.fault(test, *end) for end in ((0, ""), (77, ""), (1, ""), (-11, ""), (0, "0 tests from"))],
                         ["", "", "status 1", "signal 11", "prints 0 tests from"])
        self.assertEqual(mutants.fault(replace(test, passes=["all hold"]), 1, "all hold"), "")

    def test_a_test_that_hangs_ends(self):
        self.assertIn("more than 0 s", mutants.run(mutants.Test("a", ["sleep", "60"], "/", {}), {}, 0.05, set())[0])

    def test_cases_that_fail_anyway_are_no_fault(self):
        output = "[  FAILED  ] Suite.Case (3 ms)\nFAILED tests/python/test_a.py::test_b - Error\n"
        cases = {"Suite.Case", "tests/python/test_a.py::test_b"}
        test = mutants.Test("a", ["sh", "-c", f"printf '%s' '{output}'; exit 1"], "/", {})
        self.assertEqual(mutants.run(test, {}, 10, cases), ("", cases))
        self.assertEqual(mutants.run(test, {}, 10, {"Suite.Case"}), ("status 1", cases))


class Report(unittest.TestCase):
    def test_names_what_was_killed_before_and_is_not(self):
        text = mutants.report([BOUND, replace(BOUND, number=8)], {"7": SURVIVED, "8": KILLED}, {"7": KILLED, "8": KILLED}, "2 mutants")
        self.assertIn("killed before and not here: 7", text)
        self.assertIn("a < b  ->  a <= b\n                SURVIVED: 2 of 2 runs", text)
        self.assertIn("killed by part 3/10: graph_text status 1", text)


if __name__ == "__main__":
    unittest.main()
