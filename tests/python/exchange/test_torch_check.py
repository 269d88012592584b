"""A build for another torch says so before its library is loaded."""
import importlib
import pathlib
import re
import shutil
import sys

import diptych
import pytest
import torch
from children import in_child

HERE = pathlib.Path(diptych.__file__).parent


def import_built_for(version, folder):
    """Imports a copy of the package that says it was built for a version, in a copy of this process, and returns the error; the copy of the
    package has no library, so to load one would fail."""
    package = folder / "diptych"
    shutil.copytree(HERE, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    facts = (HERE / "_build.py").read_text()
    changed = re.sub(r'TORCH_VERSION = ".*"', f'TORCH_VERSION = "{version}"', facts)
    (package / "_build.py").write_text(changed)

    def work():
        for name in [name for name in sys.modules if name.partition(".")[0] == "diptych"]:
            del sys.modules[name]
        sys.path.insert(0, str(folder))
        try:
            importlib.import_module("diptych")
        except Exception as error:
            yield f"{type(error).__name__}: {error}"

    return "".join(in_child(work))


@pytest.mark.parametrize("version", ["2.12.1", "2.14.0+cpu", "3.13.0"])
def test_another_torch_is_refused(version, tmp_path):
    assert import_built_for(version, tmp_path) == (
        f"ImportError: this build of diptych is for torch {version}, and torch {torch.__version__} is installed; install that torch, or a diptych that "
        "was built for yours"
    )


def test_a_patch_release_of_the_same_torch_is_accepted(tmp_path):
    error = import_built_for(".".join(torch.__version__.split(".")[:2]) + ".99+other", tmp_path)
    assert "No module named 'diptych._core'" in error  # it came as far as the library


def test_the_facts_of_the_build():
    from diptych import _build

    assert torch.__version__.startswith(_build.TORCH_VERSION)
    assert diptych.__version__ == _build.VERSION
