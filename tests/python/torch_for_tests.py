"""Torch as all tests have it: whoever imports this, the tests' process and the judge of the suites, has it so."""
import os

import torch

# With DIPTYCH_TEST_ONEDNN=0 eager has no use for oneDNN, as on some CPUs.
if os.environ.get("DIPTYCH_TEST_ONEDNN") == "0":
    torch._C._set_mkldnn_enabled(False)


def _seed_nothing(seed):
    """Takes the place of a seed for devices that are not there."""


# torch.manual_seed() remembers each call with its traceback for devices that may start later: 2 ms, which are a quarter of some folders' time.
for device in (torch.cuda, torch.xpu, torch.mtia):
    if not device.is_available():
        device.manual_seed_all = _seed_nothing
