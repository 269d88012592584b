"""The device that suites of PyTorch's databases are judged on: the CPU, or what DIPTYCH_TEST_DEVICE names, as `make test-gpu` does."""
import os

DEVICE = os.environ.get("DIPTYCH_TEST_DEVICE", "cpu")
