"""With DIPTYCH_TEST_ONEDNN=0 eager has no use for oneDNN, as on some CPUs: whoever imports this, all tests and the judge of the suites, has it so."""
import os

import torch

if os.environ.get("DIPTYCH_TEST_ONEDNN") == "0":
    torch._C._set_mkldnn_enabled(False)
