"""tools/check_layers.py finds each kind of fault, and finds none in code that is right."""
import tempfile
import unittest
from pathlib import Path

from load import load

layers = load("check_layers")


def texts(path: str, source: str) -> list[str]:
    return [fault.text for fault in layers.check_file(path, source)]


class Includes(unittest.TestCase):
    def test_a_room_may_include_what_is_below_it(self):
        source = '#include "diptych/passes/fuse.h"\n#include "diptych/graph/graph.h"\n#include "diptych/base/error.h"\n'
        self.assertEqual(texts("passes/fuse.cpp", source), [])

    def test_an_include_that_points_up_is_a_fault_with_its_line(self):
        faults = layers.check_file("graph/graph.cpp", '#include "diptych/graph/graph.h"\n\n#include "diptych/ops/tags.h"\n')
        self.assertEqual([fault.line for fault in faults], [3])
        self.assertIn("room 'graph' may not include room 'ops'", faults[0].text)

    def test_siblings_may_not_include_each_other(self):
        self.assertIn("may not include room 'trace'", texts("passes/a.cpp", '#include "diptych/trace/recorder.h"\n')[0])
        self.assertIn("may not include room 'backend'", texts("hops/scan.cpp", '#include "diptych/backend/backend.h"\n')[0])

    def test_angle_brackets_are_includes_too(self):
        self.assertEqual(len(texts("base/a.cpp", "#include <diptych/graph/graph.h>\n")), 1)

    def test_a_comment_is_no_include(self):
        self.assertEqual(texts("base/a.cpp", '// #include "diptych/graph/graph.h"\n/*\n#include "diptych/ops/tags.h"\n*/\n'), [])

    def test_the_list_of_backends_and_steps_on_devices_alone_name_a_backend(self):
        source = '#include "diptych/xla/xla_backend.h"\n'
        self.assertEqual(texts("backends/builtin_backends.cpp", source), [])
        self.assertEqual(texts("training/device_step.cpp", source), [])
        self.assertIn("only backends/ and training/", texts("compile/runtime.cpp", source)[0])
        self.assertEqual(texts("compile/runtime.cpp", '#include "diptych/backend/backend.h"\n'), [])
        self.assertEqual(texts("compile/runtime.cpp", '#include "diptych/native/native_graph.h"\n'), [])

    def test_backends_do_not_include_each_other_and_the_contract_includes_none(self):
        source = '#include "diptych/xla/xla_backend.h"\n'
        self.assertIn("may not include room 'xla'", texts("native/native_backend.cpp", source)[0])
        self.assertIn("may not include room 'xla'", texts("backend/fallback.cpp", source)[0])

    def test_layers_of_a_large_room_include_what_is_below_them(self):
        self.assertEqual(texts("native/codegen/loops.cpp", '#include "diptych/native/kernel/kernel.h"\n'), [])
        self.assertEqual(texts("native/codegen/loops.cpp", '#include "diptych/native/codegen/row_code.h"\n'), [])
        up = texts("native/kernel/print.cpp", '#include "diptych/native/codegen/loops.h"\n')
        self.assertIn("layer 'kernel' of native/ may not include layer 'codegen' (it may include: none)", up[0])
        sibling = texts("xla/lower/shape/lower_shape.cpp", '#include "diptych/xla/lower/special/bessel_tables.h"\n')
        self.assertIn("layer 'lower/shape' of xla/ may not include layer 'lower/special'", sibling[0])
        self.assertIn("layer 'new' of native/ is not in LAYERS", texts("native/new/a.cpp", '#include "diptych/native/kernel/kernel.h"\n')[0])

    def test_the_umbrella_and_all_of_torch_are_not_for_rooms(self):
        self.assertIn("umbrella", texts("compile/a.cpp", '#include "diptych/diptych.h"\n')[0])
        self.assertIn("all of torch", texts("trace/a.cpp", "#include <torch/torch.h>\n")[0])

    def test_the_own_header_comes_first(self):
        source = '#include <vector>\n#include "diptych/graph/graph.h"\n'
        self.assertIn("own header", texts("graph/graph.cpp", source)[0])

    def test_an_unknown_room_is_a_fault(self):
        self.assertIn("room 'utils' is not in the table", texts("utils/a.cpp", "")[0])


class Lines(unittest.TestCase):
    def test_operators_are_not_tested_by_name(self):
        for line in (
            'if (name == "aten::add.Tensor") {}',
            'if ("aten.tanh" != name) {}',
            'if (node.op.name() == "x") {}',
            'if (node.op.hop().name == "scan") {}',
            'if (op.schema().name().find("random") != npos) {}',
            'if (text.starts_with("aten::rand")) {}',
            'static const Op kAdd = Op::find("aten.add.Tensor");',
            'const Op kMakers[] = {Op::find("aten.zeros"), Op::find("aten.zeros_like")};',
        ):
            self.assertEqual(len(texts("passes/a.cpp", line + "\n")), 1, line)
            self.assertEqual(texts("ops/tags.cpp", line + "\n"), [], line)
            self.assertEqual(texts("native/lower/lower_scan.cpp", line + "\n"), [], line)

    def test_naming_an_operator_is_no_test(self):
        for line in ('Node node{Op::find("aten::add.Tensor"), {}};', 'new Node{Op::find("aten.clone"), {}};', 'Op::find(name);', '{"aten.tanh", rule},', 'if (slot.name() == "x") {}', 'if (name.starts_with("hop.")) {}'):
            self.assertEqual(texts("autodiff/a.cpp", line + "\n"), [], line)

    def test_the_library_prints_nothing(self):
        for line in ("std::cout << 1;", 'printf("x");', 'std::fprintf(stderr, "x");', 'fmt::print("x");'):
            self.assertEqual(len(texts("graph/a.cpp", line + "\n")), 1, line)
            self.assertEqual(texts("base/switches.cpp", line + "\n"), [], line)
        self.assertEqual(texts("graph/a.cpp", "snprintf(buffer, 3, text);\nprinter.printf(1);\n// std::cout\n"), [])

    def test_paths_of_one_machine_are_faults(self):
        self.assertEqual(len(texts("graph/a.cpp", 'auto path = "/ho' + 'me/someone/x";\n')), 1)
        self.assertEqual(texts("graph/a.cpp", 'auto path = "blocks/3/attn";\n'), [])

    def test_static_registration_stands_in_trace_alone(self):
        line = "TORCH_LIBRARY_IMPL(_, Fake, m) {}\n"
        self.assertEqual(len(texts("ops/a.cpp", line)), 1)
        self.assertEqual(texts("trace/a.cpp", line), [])

    def test_headers_have_pragma_once(self):
        self.assertEqual(len(texts("graph/a.h", "int x;\n")), 1)


class Targets(unittest.TestCase):
    def test_a_target_links_what_its_room_may_include(self):
        self.assertEqual(layers.check_targets("lib_room(graph DEPS base SOURCES\n  a.cpp)\nlib_room(base SOURCES b.cpp)\n"), [])
        faults = layers.check_targets("lib_room(base SOURCES a.cpp)\nlib_room(graph DEPS base trace SOURCES a.cpp)\n")
        self.assertEqual([fault.line for fault in faults], [2])
        self.assertIn("may not link room 'trace'", faults[0].text)


class Tree(unittest.TestCase):
    def test_the_table_has_no_cycle_and_knows_every_room_it_names(self):
        for room in layers.ROOMS:
            for below in layers.ROOMS[room]:
                self.assertNotIn(room, layers.reachable(below))

    def test_neither_have_the_layers_inside_of_rooms(self):
        for table in layers.LAYERS.values():
            for layer in table:
                for below in table[layer]:
                    self.assertNotIn(layer, layers.reachable(below, table))

    def test_faults_are_found_in_files(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "base").mkdir()
            (root / "CMakeLists.txt").write_text("lib_room(base SOURCES a.cpp)\n")
            (root / "base" / "a.cpp").write_text('#include "diptych/graph/graph.h"\n')
            count, faults = layers.check_tree(root)
        self.assertEqual(count, 1)
        self.assertEqual(str(faults[0]).split(":")[:2], ["base/a.cpp", "1"])


if __name__ == "__main__":
    unittest.main()
