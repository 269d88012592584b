"""Who names no backend: native code, or what DIPTYCH_BACKEND says."""
import os
import subprocess
import sys

import pytest

PROGRAM = """
import diptych, torch
from diptych import Options
print(diptych.default_backend(), Options().backend, Options(backend="xla").backend)
try:
    print(diptych.aot_function(lambda x: x + 1)(torch.ones(2)).tolist())
except diptych.UserError as error:
    print(error)
"""


def lines(**variables):
    environment = {name: value for name, value in os.environ.items() if name != "DIPTYCH_BACKEND"}
    run = subprocess.run([sys.executable, "-c", PROGRAM], env={**environment, **variables}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.mark.parametrize("variables", [{}, {"DIPTYCH_BACKEND": ""}])
def test_native_is_the_default(variables):
    assert lines(**variables) == ["native native xla", "[2.0, 2.0]"]


def test_the_environment_names_another():
    assert lines(DIPTYCH_BACKEND="interpreter") == ["interpreter interpreter xla", "[2.0, 2.0]"]


def test_an_unknown_name_is_refused_where_it_is_used():
    first, second = lines(DIPTYCH_BACKEND="nativ")
    assert first == "nativ nativ xla"
    assert second.startswith("[backend] got 'nativ', expected one of: interpreter, xla, native")
