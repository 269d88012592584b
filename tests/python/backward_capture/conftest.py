"""Every test of this folder runs its passes by each backend."""
import diptych
import pytest

import passes


@pytest.fixture(params=diptych.backend_names(), autouse=True)
def backend(request):
    passes.backend = request.param
    diptych.backward_capture.reset()
    yield request.param
    passes.backend = diptych.default_backend()
