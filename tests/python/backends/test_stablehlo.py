"""Exports from Python: the programs that JAX judges (make check-jax) are exported here too; what the folder holds, and what is refused."""
import json
import sys
from pathlib import Path

import diptych
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "exports"))
import export
import models


@pytest.mark.parametrize("name", models.CASES)
def test_programs_are_exported_with_eagers_values(name, tmp_path):
    function, arguments = models.make(name)
    pair = diptych.capture(function, *models.clone(arguments))
    module = next((a for a in arguments if isinstance(a, torch.nn.Module)), None)
    diptych.export_stablehlo(pair, tmp_path / "out", module)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    given = export.expected(pair, function, models.clone(arguments))
    tensors = diptych.load_tensors(str(tmp_path / "out" / "parameters.safetensors"))
    for entry, slot in zip(manifest["forward"]["parameters"], pair.signature.forward_inputs):
        assert (entry["path"], entry["sizes"]) == (slot.path, list(slot.meta.shape))
        if module is not None and slot.path.startswith("model."):
            assert torch.equal(tensors[entry["tensor"]], given[f"input.{slot.path}"])
    assert (tmp_path / "out" / "backward.mlir").read_text() == pair.stablehlo().backward == pair.backward.stablehlo()
    gradients = [entry["path"] for entry in manifest["backward"]["results"] if entry["index"] is not None]
    assert [f"gradient.{path}" for path in gradients] == [name for name in given if name.startswith("gradient.")]


def test_aliases_are_in_the_manifest(tmp_path):
    function, arguments = models.make("in_place")
    diptych.export_stablehlo(diptych.capture(function, *arguments), tmp_path / "out")
    results = json.loads((tmp_path / "out" / "manifest.json").read_text())["forward"]["results"]
    by_kind = {entry["kind"]: entry for entry in results}
    assert by_kind["mutated"]["new_value_of"] == 0
    assert by_kind["output"]["alias"] == {"parameter": 2, "is_view": True}


def test_checkpoints_are_recomputed_in_the_backward():
    plain, checkpointed = (diptych.capture(function, *arguments).stablehlo() for function, arguments in map(models.make, ("gpt_tied", "gpt_checkpoints")))
    assert plain.backward.count("optimization_barrier") == 0
    assert checkpointed.backward.count("optimization_barrier") >= 3
    assert checkpointed.backward.count("stablehlo.dot_general") > plain.backward.count("stablehlo.dot_general")


@pytest.mark.parametrize("function, words", [(lambda x: torch.nn.functional.dropout(x), "draws random numbers"), (lambda x: torch.linalg.inv(x), "has no lowering")])
def test_what_has_no_place_in_a_module(function, words, tmp_path):
    pair = diptych.capture(function, torch.eye(3, requires_grad=True))
    with pytest.raises(diptych.UserError, match=words):
        diptych.export_stablehlo(pair, tmp_path / "out")
    assert not list(tmp_path.iterdir())
