"""What the tests of guards share besides changes.py."""
import pytest


@pytest.fixture(autouse=True)
def the_scale_as_it_was(request):
    """Puts back the global SCALE that functions of a module read and changes set."""
    module = request.module
    if not hasattr(module, "SCALE"):
        yield
        return
    module.SCALE = 2.0
    yield
    module.SCALE = 2.0
