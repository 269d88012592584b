"""tools/check_names.py finds the classes of a source, and no others."""
import unittest

from load import load

names = load("check_names")
SOURCE = '''
#pragma once
namespace diptych {
/* struct Commented { */
struct Declared;
template <class T>
struct Holder : Base<T> { struct Inner { int x; }; };
namespace detail {
enum class Place : uint8_t { kForward };
class Run final {
  void f() { struct Local { int x; }; }
};
std::map<int, struct Declared> made() { return {}; }
const char* const kText = "struct Quoted {";
namespace { struct Hidden { int x; }; }
}  // namespace detail
struct Holder::Later { int y; };
}
'''


class Names(unittest.TestCase):
    def test_classes_of_named_namespaces_with_their_lines(self):
        expected = [("diptych::Holder", 7), ("diptych::detail::Place", 9), ("diptych::detail::Run", 10), ("diptych::Holder::Later", 17)]
        self.assertEqual(names.classes(SOURCE), expected)

    def test_the_library_defines_each_class_once(self):
        self.assertEqual(names.main(), 0)


if __name__ == "__main__":
    unittest.main()
