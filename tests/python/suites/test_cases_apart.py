"""What keeps the cases of a folder apart in their one process: conftest.py, process_state.py and repeating.py."""
import os
import pathlib
import subprocess
import sys

import repeating

HERE = pathlib.Path(__file__).parents[1]
CASES = """
import os, random
import numpy, pytest, torch

DRAWN = torch.rand(3).tolist()

def test_leaves_the_environment():
    os.environ["DIPTYCH_LEFT"] = "1"

def test_leaves_a_dtype_and_a_hook():
    torch.set_default_dtype(torch.float64)
    torch.nn.modules.module.register_module_forward_hook(print)

def test_leaves_nothing():
    assert "DIPTYCH_LEFT" not in os.environ and torch.get_default_dtype() == torch.float32
    assert not torch.nn.modules.module._global_forward_hooks
    assert torch.rand(3).tolist() == DRAWN
    random.seed(5), numpy.random.seed(5), torch.manual_seed(5)

@pytest.mark.parametrize("number", [1, 2])
def test_numbers(number):
    assert number == 1 and torch.rand(3).tolist() == DRAWN
"""
DIES = """
def test_lives():
    pass

def test_dies():
    import os
    os._exit(0)
"""


def run(folder, text, *arguments):
    (folder / "test_some.py").write_text(text)
    own = {name: value for name, value in os.environ.items() if not name.startswith(repeating.CHOICES)}
    environment = {**own, "PYTHONPATH": str(HERE), "DIPTYCH_CHOICE": "a b"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest", "test_some.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)


def test_who_leaves_what_fails_and_nobody_else(tmp_path):
    lines = run(tmp_path, CASES).stdout.splitlines()
    assert lines[-1].startswith("1 failed, 4 passed, 2 errors"), lines
    said = [line for line in lines if line.startswith("E   ") and "this case has changed" in line]
    assert len(said) == 2 and "the environment (DIPTYCH_LEFT: None -> 1)" in said[0], said
    assert "the default dtype (torch.float32 -> torch.float64); hooks of all modules" in said[1], said
    repeats = [line for line in lines if line.startswith("repeat: DIPTYCH_CHOICE='a b' PYTHONPATH=tests/python ")]
    assert [line.rpartition("::")[2] for line in repeats] == ["test_numbers[2]'", "test_leaves_the_environment", "test_leaves_a_dtype_and_a_hook"]


def test_who_dies_is_named(tmp_path):
    done = run(tmp_path, DIES, "--order", "reversed")
    assert done.stderr.splitlines()[-2] == "the process ended inside of a case"
    assert done.stderr.endswith(f" -m pytest {tmp_path}/test_some.py::test_dies\n") and "." not in done.stdout
