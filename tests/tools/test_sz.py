"""tools/sz.py counts code and holds it against the budgets."""
import unittest

from load import load

sz = load("sz")


class Count(unittest.TestCase):
    def test_comments_and_blank_lines_are_free(self):
        self.assertEqual(sz.code_lines("// what\n\n/* more\n   of it */\nint a;  // why\nint b;\n", ".cpp"), 2)
        self.assertEqual(sz.code_lines("# what\n\nx = 1\n", ".py"), 1)


class Budgets(unittest.TestCase):
    def test_rows_hold_a_path_and_a_number(self):
        self.assertEqual(sz.read_budgets("# head\na/ 10  # why\na/b.cpp 700\n"), {"a/": 10, "a/b.cpp": 700})
        with self.assertRaisesRegex(ValueError, "sizes.txt:1: expected 'path lines', got 'a/ many'"):
            sz.read_budgets("a/ many\n")

    def test_a_file_counts_for_the_innermost_folder(self):
        sums, faults = sz.measure({"a/x.cpp": 3, "a/b/y.cpp": 4}, {"a/": 5, "a/b/": 5})
        self.assertEqual(sums, {"a/": 3, "a/b/": 4})
        self.assertEqual(faults, [])

    def test_a_part_over_its_budget_is_named(self):
        _, faults = sz.measure({"a/x.cpp": 3, "a/y.cpp": 4}, {"a/": 5})
        self.assertEqual(len(faults), 1)
        self.assertIn("a/ has 7 lines of code, its budget is 5", faults[0])

    def test_a_long_file_is_named_unless_it_has_a_row(self):
        files = {"a/x.cpp": sz.LONGEST_FILE + 1}
        self.assertIn("a/x.cpp has 501", sz.measure(files, {"a/": 9000})[1][0])
        self.assertEqual(sz.measure(files, {"a/": 9000, "a/x.cpp": 600})[1], [])

    def test_a_file_in_no_part_is_named(self):
        self.assertIn("is in no part", sz.measure({"b/x.cpp": 1}, {"a/": 9000})[1][0])


if __name__ == "__main__":
    unittest.main()
