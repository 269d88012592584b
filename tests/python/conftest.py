"""What the tests of all folders share: a process for a folder, in which each case meets the state that the first one met,
whatever the order, and a line that repeats a case that failed. The helpers that lie here can be imported in every folder."""
import gc
import random

import pytest

import repeating


def pytest_addoption(parser):
    parser.addoption("--order", help="of the cases: 'reversed', or a number that seeds a random one; as they are written if left out")


def pytest_configure(config):
    gc.set_threshold(700, 10, 1000)  # a collection of all generations looks through all of torch: a tenth of the time if left as it is
    config.pluginmanager.register(repeating.Repeats(config.rootpath))  # forks: torch, which has threads, is imported after it


def pytest_collection_modifyitems(config, items):
    order = config.getoption("--order")
    if order == "reversed":
        items.reverse()
    elif order is not None:
        random.Random(int(order)).shuffle(items)


def pytest_collectstart(collector):
    """What a module draws when it is imported is the same whichever others were imported before it."""
    if isinstance(collector, pytest.Module):
        import process_state

        process_state.seed()


@pytest.fixture(autouse=True)
def the_process_as_it_was():
    """Fails a case that leaves to those after it another process than it met."""
    import process_state

    process_state.seed()
    before = process_state.read()
    yield
    left = process_state.put_back(before)
    assert not left, f"this case has changed what those after it meet: {'; '.join(left)}"
    keepers = process_state.keepers_of_stand_ins()
    assert not keepers, f"this case leaves tensors of its traces in {', '.join(keepers)}"
