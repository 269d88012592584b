"""tools/clang_database.py turns g++'s commands with precompiled headers into ones that clang can run."""
import tempfile
import unittest
from pathlib import Path

from load import load

database = load("clang_database")


class Translate(unittest.TestCase):
    def translate(self, command: str, file: str = "/r/a.cpp"):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        out = Path(self.folder.name)
        self.header = out / "build" / "cmake_pch.hxx"
        self.header.parent.mkdir()
        self.header.write_text('#include "pch.h"\n')
        command = command.replace("HEADER", str(self.header))
        return database.translate({"directory": "/b", "file": file, "command": command}, out)

    def test_the_launcher_and_gcc_flags_go(self):
        entry = self.translate("/usr/bin/cmake -E env A=1 B=2 /usr/bin/ccache /usr/bin/c++ -O2 -fpch-preprocess -c /r/a.cpp")
        self.assertEqual(entry["arguments"], ["/usr/bin/c++", "-O2", "-c", "/r/a.cpp"])

    def test_the_precompiled_header_is_copied_away_from_its_gch(self):
        entry = self.translate("c++ -Winvalid-pch -include HEADER -c /r/a.cpp")
        copy = Path(entry["arguments"][entry["arguments"].index("-include") + 1])
        self.assertNotEqual(copy.parent, self.header.parent)
        self.assertEqual(copy.read_text(), '#include "pch.h"\n')

    def test_other_forced_headers_stay(self):
        entry = self.translate("c++ -include other.h -c /r/a.cpp")
        self.assertEqual(entry["arguments"][1:3], ["-include", "other.h"])

    def test_the_unit_that_makes_the_header_is_left_out(self):
        self.assertIsNone(self.translate("c++ -c x", file="/b/cmake_pch.hxx.cxx"))

    def test_the_files_of_a_unit_have_entries_of_their_own(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        unit = Path(folder.name) / "Unity" / "unity_0_cxx.cxx"
        unit.parent.mkdir()
        unit.write_text('/* generated */\n\n#include "/r/a.cpp"\n\n#include "/r/b.cpp"\n')
        entries = database.apart({"directory": "/b", "file": str(unit), "command": f"c++ -o unity_0_cxx.o -c {unit}"})
        self.assertEqual([entry["file"] for entry in entries], ["/r/a.cpp", "/r/b.cpp"])
        self.assertEqual(entries[1]["command"], "c++ -o unity_0_cxx.o -c /r/b.cpp")
        self.assertEqual(database.apart(entries[0]), [entries[0]])


if __name__ == "__main__":
    unittest.main()
