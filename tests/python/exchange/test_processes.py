"""Training in two processes beside eager, on both sides: by DistributedDataParallel and fully_shard."""
import json
import os
import subprocess
import sys
from pathlib import Path

import of_two_processes
import pytest

# What cannot be captured, and says so.
ITSELF = {
    "aot(DDP)": "calls a DistributedDataParallel", "aot(DDP) without buffers": "calls a DistributedDataParallel",
    "DDP in a compiled model": "calls a DistributedDataParallel", "no_sync, aot(DDP)": "calls a DistributedDataParallel",
}  # fmt: skip


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """What either process has seen, by the name of the case."""
    path = tmp_path_factory.mktemp("processes") / "seen"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(Path(of_two_processes.__file__)), str(path)]
    ended = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return [json.loads(Path(f"{path}.{rank}").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("name", of_two_processes.CASES)
def test_training_beside_eager(sides, name):
    for seen in (side[name] for side in sides):
        assert seen["difference"] < 1e-12
        if name in ITSELF:
            assert seen["originals"] and any(ITSELF[name] in words for words in seen["warned"])
        elif of_two_processes.CASES[name][0] is not of_two_processes.LAYERS and of_two_processes.CASES[name][2] is of_two_processes.AOT:
            assert seen["hits"] >= 2 and not seen["originals"] and not seen["warned"]


@pytest.mark.parametrize("name", of_two_processes.COLLECTIVES)
def test_collectives(sides, name):
    for seen in (side[name] for side in sides):
        assert seen["difference"] == 0
        assert ("communicates with other processes" in seen["why"]) is (name != "functional")
