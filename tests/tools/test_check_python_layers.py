"""tools/check_python_layers.py finds each kind of fault, and finds none in modules that are right."""
import unittest

from load import load

layers = load("check_python_layers")

TABLE = {
    "_build": [],
    "_core": [],
    "_host": [],
    "_host.events": ["_core"],
    "_host.watch": ["_host.events"],
    "_torch.*": ["_host.events"],
    "fx": ["_core"],
    "__init__": ["_build", "_host.watch", "_torch.*", "fx"],
}
RIGHT = {
    "__init__.py": "from ._build import VERSION\nfrom . import fx\nfrom ._host.watch import Watch\n",
    "_host/__init__.py": '"""A package."""\n',
    "_host/events.py": "import torch\n\nfrom .. import _core\n",
    "_host/watch.py": "from .. import _core\nfrom .events import watched\n",
    "_torch/backward.py": "from .._host.events import watched\nfrom .memory import lend\n",
    "_torch/memory.py": "from .._host import events\n",
    "fx.py": "import diptych._core\n",
}


def faults(table=TABLE, **changed):
    """The faults of the right modules with others in their places: `_host_events` for _host/events.py."""
    paths = {path.removesuffix(".py").replace("/", "_"): path for path in RIGHT}
    return layers.check_sources({**RIGHT, **{paths[name]: source for name, source in changed.items()}}, table)


class Imports(unittest.TestCase):
    def test_a_module_may_import_what_is_below_it(self):
        self.assertEqual(faults(), [])

    def test_an_import_that_points_up_is_a_fault_with_its_line(self):
        [fault, _] = faults(_host_events="import torch\n\nfrom .watch import Watch\n")
        self.assertEqual((fault.file, fault.line), ("_host/events.py", 3))
        self.assertIn("'_host.events' may not import '_host.watch' (it may import: _core)", fault.text)

    def test_every_way_to_import_counts(self):
        for source in (
            "from .watch import Watch",
            "from . import watch",
            "from .._host import watch",
            "import diptych._host.watch",
            "from diptych._host.watch import Watch",
            "from diptych import _host, fx",
            "def late():\n    from .watch import Watch",
            "def late():\n    return importlib.import_module('diptych._host.watch')",
            "if TYPE_CHECKING:\n    from .watch import Watch",
            "try:\n    from .watch import Watch\nexcept ImportError:\n    pass",
        ):
            self.assertTrue(faults(_host_events=source + "\n"), source)

    def test_a_name_that_is_no_module_is_of_the_package(self):
        self.assertIn("'_host.events' may not import '__init__'", faults(_host_events="def late():\n    from .. import UserError\n")[0].text)
        self.assertEqual(faults(_host_watch="from .events import _core\n"), [])

    def test_other_packages_do_not_count(self):
        self.assertEqual(faults(_host_events="import diptych_tools, numpy.fx\nfrom torch import fx\n"), [])

    def test_a_module_without_a_row_is_a_fault(self):
        self.assertIn("module '_host.reach' is not in the table", layers.check_sources({**RIGHT, "_host/reach.py": ""}, TABLE)[0].text)


class Circles(unittest.TestCase):
    def test_a_circle_in_a_shared_row_is_a_fault(self):
        [fault] = faults(_torch_memory="def late():\n    from . import backward\n")
        self.assertIn("in a circle: ", fault.text)
        self.assertIn("_torch.backward -> _torch.memory", fault.text)

    def test_a_circle_through_the_package_is_one(self):
        texts = [fault.text for fault in faults(fx="def late():\n    from . import UserError\n")]
        self.assertTrue(any("__init__ -> fx -> __init__" in text or "fx -> __init__ -> fx" in text for text in texts), texts)


class Tables(unittest.TestCase):
    def test_a_row_for_nothing_is_a_fault(self):
        self.assertIn("the row '_names' is for no module", faults({**TABLE, "_names": []})[0].text)

    def test_a_row_names_rows(self):
        self.assertIn("'_names' may be imported, and has no row", faults({**TABLE, "fx": ["_names"]})[0].text)

    def test_a_table_with_a_circle_is_refused(self):
        self.assertIn("the table has a circle", faults({**TABLE, "_host.events": ["_host.watch"]})[0].text)


class Bindings(unittest.TestCase):
    def test_what_is_imported_by_name_is_there(self):
        source = '\npy::module_::import("diptych._host.watch");\npy::module_::import("diptych._host_state").attr("x");\npy::module_::import("torch");\n'
        [fault] = layers.check_bindings("python/src/a.cpp", source, {"_host.watch"})
        self.assertEqual((fault.file, fault.line), ("python/src/a.cpp", 3))
        self.assertIn("imports 'diptych._host_state', which is no module", fault.text)


if __name__ == "__main__":
    unittest.main()
