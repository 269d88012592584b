"""A build for another torch says so before its library is loaded."""
import importlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import diptych
import pytest
import torch
from children import in_child

HERE = pathlib.Path(diptych.__file__).parent


def copy_with(folder, **facts):
    package = folder / "diptych"
    shutil.copytree(HERE, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    text = (HERE / "_build.py").read_text()
    for name, value in facts.items():
        text = re.sub(f'{name} = ".*"', f'{name} = "{value}"', text)
    (package / "_build.py").write_text(text)


def import_copy(folder, before=lambda: None):
    """Imports the copy of the package in a folder, in a copy of this process, and returns the error."""

    def work():
        for name in [name for name in sys.modules if name.partition(".")[0] == "diptych"]:
            del sys.modules[name]
        sys.path.insert(0, str(folder))
        before()
        try:
            importlib.import_module("diptych")
        except Exception as error:
            yield f"{type(error).__name__}: {error}"

    return "".join(in_child(work))


def import_built_for(version, folder):
    """The error where the package says that it was built for a version; the copy has no library, so to load one would fail."""
    copy_with(folder, TORCH_VERSION=version)
    return import_copy(folder)


@pytest.mark.parametrize("version", ["2.12.1", "2.99.0+cpu", "3.13.0"])
def test_another_torch_is_refused(version, tmp_path):
    assert import_built_for(version, tmp_path) == (
        f"ImportError: this build of diptych is for torch {version}, and torch {torch.__version__} is installed; install that torch, or a diptych that "
        "was built for yours"
    )


WITH_SEVERAL = """
import diptych, torch
x = torch.ones(3, requires_grad=True)
diptych.aot_function(lambda x: (x * 2).exp().sum())(x).backward()
print(x.grad.tolist() == [2 * torch.tensor(2.0).exp().item()] * 3, diptych._torch.check.BUILT_FOR, diptych._core.__file__)
"""


def test_of_several_libraries_the_one_for_this_torch_is_taken(tmp_path):
    copy_with(tmp_path, TORCH_VERSION="2.12.1")
    library, package = pathlib.Path(diptych._core.__file__).resolve(), tmp_path / "diptych"
    folder = package / "_cores" / ".".join(torch.__version__.split(".")[:2])
    folder.mkdir(parents=True)
    shutil.copy2(library, folder)
    (package / "libdiptych_llvm.so").symlink_to((HERE / "libdiptych_llvm.so").resolve())
    done = subprocess.run([sys.executable, "-c", WITH_SEVERAL], env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.stdout == f"True {folder.name} {folder / library.name}\n", done.stderr


def test_a_library_for_another_python_is_named(tmp_path):
    copy_with(tmp_path)
    (tmp_path / "diptych" / "_core.cpython-39-x86_64-linux-gnu.so").touch()
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert import_copy(tmp_path) == f"ImportError: this build of diptych is for Python 3.9, and this is Python {here}; install the wheel for it"


UNFITTING = """
extern "C" void of_no_torch();
extern "C" void* PyInit__core() { of_no_torch(); return nullptr; }
"""


def test_a_library_whose_symbols_do_not_fit_says_what_it_is_for(tmp_path):
    copy_with(tmp_path)
    (tmp_path / "core.cpp").write_text(UNFITTING)
    library = tmp_path / "diptych" / pathlib.Path(diptych._core.__file__).name
    subprocess.run([shutil.which("c++") or "clang++", "-shared", "-fPIC", "-z", "now", tmp_path / "core.cpp", "-o", library], check=True)

    def forget_the_library_that_is_loaded():
        torch._C._jit_get_schemas_for_operator = lambda name: []

    words = import_copy(tmp_path, forget_the_library_that_is_loaded)
    assert words.startswith(f"ImportError: the library of this diptych does not fit torch {torch.__version__}: ") and "of_no_torch" in words
    assert words.endswith(f"; it is for torch {diptych._build.TORCH_VERSION}: install one of these")


def test_a_second_library_in_a_process_is_refused(tmp_path):
    copy_with(tmp_path)
    library = pathlib.Path(diptych._core.__file__).resolve()
    shutil.copy2(library, tmp_path / "diptych")
    words = f"this process has loaded another diptych ({library}), and torch takes its operators once; import one of them in a process"
    assert import_copy(tmp_path) == f"ImportError: {words}"


def test_a_torch_that_does_not_load_is_named(tmp_path):
    copy_with(tmp_path)

    class Missing:
        def find_spec(self, name, path, target=None):
            if name == "torch":
                raise ImportError("libcudnn.so.9: cannot open shared object file: No such file or directory")

    def lose_torch():
        del sys.modules["torch"]
        sys.meta_path.insert(0, Missing())

    assert import_copy(tmp_path, lose_torch) == (
        "ImportError: diptych needs torch, and torch can't be imported: libcudnn.so.9: cannot open shared object file: No such file or directory; "
        "install torch with what it requires, by pip install torch"
    )


def test_a_patch_release_of_the_same_torch_is_accepted(tmp_path):
    error = import_built_for(".".join(torch.__version__.split(".")[:2]) + ".99+other", tmp_path)
    assert "No module named 'diptych._core'" in error  # it came as far as the library


NEWER = """
import sys, warnings
from torch import library
warnings.simplefilter("always")
def load():
    try:
        import diptych
    except ImportError as error:
        print(error)
        for name in [name for name in sys.modules if name.partition(".")[0] == "diptych"]:
            del sys.modules[name]
load()
registered = library.Library("_", "IMPL", "CustomRNGKeyId")
registered.fallback(library.fallthrough_kernel, "CustomRNGKeyId")
load()
"""


def test_a_newer_torch_than_the_tests_were_run_with(tmp_path):
    copy_with(tmp_path, TORCH_NEWEST="2.12")
    done = subprocess.run([sys.executable, "-c", NEWER], env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    words = f"torch {torch.__version__} is newer than 2.12, the newest that this diptych was tested with"
    assert done.stderr.count("UserWarning: ") == 1 and f"{words}; what it relies on is there" in done.stderr
    without_library, refusal = done.stdout.splitlines()
    assert "diptych._core" in without_library
    assert refusal == f"{words}, and lacks what it relies on (CustomRNGKeyId has no fallback); install torch 2.12, or a newer diptych"


def test_the_facts_of_the_build():
    from diptych import _build

    assert torch.__version__.startswith(_build.TORCH_VERSION)
    assert diptych.__version__ == _build.VERSION


# From 2.16 on LibTorch has a fallback at the key of fake tensors, and a second one would abort the process.
BESIDE_FAKE_TENSORS = """
import torch
from torch import library
registered = library.Library("_", "IMPL", "Fake")
registered.fallback(lambda *args, **kwargs: None, "Fake")
import diptych
x = torch.ones(3, requires_grad=True)
function = diptych.aot_function(lambda x: (x * torch.arange(3) + torch.full((3,), 2.0)).exp().sum())
function(x).backward()
print(x.grad.tolist() == [0.0, torch.tensor(3.0).exp().item(), 2 * torch.tensor(4.0).exp().item()], function.stats().misses)
print(torch._C._is_fake_tensor(torch.ones(1)) if hasattr(torch._C, "_is_fake_tensor") else False)
"""


def test_fake_tensors_of_torchs_own_keep_their_key():
    done = subprocess.run([sys.executable, "-c", BESIDE_FAKE_TENSORS], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("True 1\nFalse\n", 0), done.stderr
