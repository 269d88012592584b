"""tools/setup.sh says by name what is missing, installs it where it may, and is quick when nothing is."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from load import ROOT


class Setup(unittest.TestCase):
    """Runs a copy of the script in a folder of its own, with commands of our making first on PATH."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        shutil.copytree(ROOT / "tools", self.root / "tools")
        self.commands = self.root / "commands"
        self.commands.mkdir()
        self.log = self.root / "log"
        self.log.touch()
        self.command("apt-get", 'echo "apt-get $*" >>"$LOG"')
        self.command("dpkg-query", "for name in \"$@\"; do [[ $name == -* ]] || echo \"$name installed\"; done")
        self.command("id", "echo 0")
        (self.root / "os-release").write_text("ID=debian\nVERSION_ID=12\n")
        # An environment that is ready: setup trusts its stamp.
        (self.root / ".venv" / "bin").mkdir(parents=True)
        (self.root / ".venv" / "bin" / "python").symlink_to("/bin/true")
        self.stamp()

    def command(self, name: str, body: str):
        path = self.commands / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def stamp(self):
        digest = subprocess.run(["sha256sum", self.root / "tools" / "requirements.txt"], capture_output=True, text=True, check=True)
        (self.root / ".venv" / ".ready").write_text(digest.stdout.split()[0] + "\n")

    def run_setup(self) -> subprocess.CompletedProcess:
        script = self.root / "tools" / "setup.sh"
        script.write_text(script.read_text().replace("/etc/os-release", str(self.root / "os-release")))
        environment = dict(os.environ, PATH=f"{self.commands}:{os.environ['PATH']}", LOG=str(self.log))
        return subprocess.run([script], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def test_nothing_is_done_when_nothing_is_missing(self):
        result = self.run_setup()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(self.log.read_text(), "")

    def test_only_what_is_missing_is_installed(self):
        self.command("dpkg-query", 'for name in "$@"; do [[ $name == -* || $name == ccache ]] || echo "$name installed"; done')
        result = self.run_setup()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("apt-get update", self.log.read_text())
        self.assertRegex(self.log.read_text(), r"apt-get install .* ccache\n")
        self.assertNotIn("ninja", self.log.read_text())

    def test_a_removed_package_with_its_configuration_left_is_missing(self):
        self.command("dpkg-query", 'for name in "$@"; do [[ $name == -* ]] || echo "$name config-files"; done')
        self.assertEqual(self.run_setup().returncode, 0)
        self.assertIn("ninja-build", self.log.read_text())

    def test_without_root_it_says_what_to_run(self):
        self.command("dpkg-query", 'for name in "$@"; do [[ $name == -* || $name == ninja-build ]] || echo "$name installed"; done')
        self.command("id", "echo 1000")
        self.command("sudo", "echo 'sudo: a password is required' >&2; exit 1")
        result = self.run_setup()
        self.assertEqual(result.returncode, 1)
        self.assertIn("As root run: apt-get install ninja-build", result.stderr)

    def test_another_system_is_told_each_missing_thing_by_name(self):
        (self.root / "os-release").write_text("ID=other\n")
        packages = self.root / "tools" / "packages.txt"
        packages.write_text("bash 5.0 program:bash\nninja-build 1.11.1 program:no-such-ninja\nlibodd-dev 2.0 header:odd/none.h\n")
        result = self.run_setup()
        self.assertEqual(result.returncode, 1)
        self.assertIn("needs:", result.stderr)
        self.assertIn("ninja-build (no-such-ninja not found on PATH; Debian 12 has 1.11.1)", result.stderr)
        self.assertIn("libodd-dev (header <odd/none.h> not found", result.stderr)
        self.assertNotIn("bash", result.stderr)
        self.assertEqual(self.log.read_text(), "")

    def test_another_system_that_has_everything_goes_on(self):
        (self.root / "os-release").write_text("ID=other\n")
        (self.root / "tools" / "packages.txt").write_text("bash 5.0 program:bash\nlibc 2.36 header:stdio.h\n")
        self.assertEqual(self.run_setup().returncode, 0)

    def test_another_system_is_asked_for_the_headers_of_the_python_that_is_used(self):
        (self.root / "os-release").write_text("ID=other\n")
        (self.root / "tools" / "packages.txt").write_text("python3-dev 3.11.2 python:Python.h\npython3-odd 1.0 python:odd/none.h\n")
        (self.root / ".venv" / "bin" / "python").unlink()
        (self.root / ".venv" / "bin" / "python").symlink_to(Path(sys.executable).resolve())
        result = self.run_setup()
        self.assertEqual(result.returncode, 1)
        self.assertIn("python3-odd (header <odd/none.h> not found for .venv/bin/python; Debian 12 has 1.0)", result.stderr)
        self.assertNotIn("python3-dev", result.stderr)

    def test_no_python_that_can_make_an_environment_is_an_error(self):
        shutil.rmtree(self.root / ".venv")
        for name in ("python3", "python3.10", "python3.11", "python3.12", "python3.13"):
            self.command(name, "exit 1")
        script = self.root / "tools" / "setup.sh"
        script.write_text(script.read_text().replace("/usr/bin/python3", "/no/python3"))
        result = self.run_setup()
        self.assertEqual(result.returncode, 1)
        self.assertIn("needs: python3 from 3.10 on with the modules venv and ensurepip", result.stderr)

    def test_changed_requirements_are_installed_again(self):
        (self.root / "tools" / "requirements.txt").write_text("torch==9.9.9\n")
        pip = self.commands / "pip-python"
        pip.write_text('#!/bin/bash\necho "python $*" >>"$LOG"\n[[ "$*" == *install* || "$*" == *--version* ]]\n')
        pip.chmod(0o755)
        (self.root / ".venv" / "bin" / "python").unlink()
        (self.root / ".venv" / "bin" / "python").symlink_to(pip)
        result = self.run_setup()
        self.assertIn("pip --disable-pip-version-check install", self.log.read_text())
        # This pip installs nothing, and setup does not believe it.
        self.assertEqual(result.returncode, 1)
        self.assertIn(".venv lacks what tools/requirements.txt names", result.stderr)


if __name__ == "__main__":
    unittest.main()
