"""Imports a tool from tools/, which is no package: load("sz") is tools/sz.py as a module."""
import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
