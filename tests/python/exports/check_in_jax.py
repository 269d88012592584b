#!/usr/bin/env python3
"""Loads the modules that export.py wrote into JAX, which parses, verifies, compiles and runs them by its own XLA, and compares
what they return with eager's values and gradients. Knows neither torch nor Diptych: manifest.json says all that it needs.
Usage: check_in_jax.py FOLDER"""
import json
import sys
from pathlib import Path

import jax
import ml_dtypes
import numpy as np
from jax._src import compiler, xla_bridge
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir

DTYPES = {"BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32, "BOOL": np.bool_}
NAMES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "b8": np.bool_}
TOLERANCES = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-5, np.dtype(ml_dtypes.bfloat16): 3e-2}


def read_tensors(path):
    """A safetensors file: eight bytes of length, a JSON header, the bytes."""
    data = Path(path).read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]], DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}


class Module:
    def __init__(self, folder, manifest):
        self.parameters, self.results, self.folder = manifest["parameters"], manifest["results"], folder
        backend = xla_bridge.get_backend("cpu")
        self.device = backend.local_devices()[0]
        with mlir.make_ir_context():
            module = ir.Module.parse((folder / manifest["module"]).read_text())
            module.operation.verify()
            options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
            self.executable = backend.compile_and_load(module, xla_client.DeviceList((self.device,)), options)

    def __call__(self, given):
        """Runs on `given`, by index, and the tensors of the folder's files. Returns results by slot; None for an empty one."""
        inputs = []
        for entry in self.parameters:
            value = given.get(entry["index"])
            if value is None:
                value = read_tensors(self.folder / entry["file"])[entry["tensor"]]
            assert value.dtype == NAMES[entry["dtype"]] and list(value.shape) == entry["sizes"], entry
            inputs.append(jax.device_put(value, self.device))
        values = [np.asarray(shards[0]) for shards in self.executable.execute_sharded(inputs).disassemble_into_single_device_arrays()]
        assert len(values) == sum(entry["index"] is not None for entry in self.results)
        for entry in self.results:
            assert entry["index"] is None or list(values[entry["index"]].shape) == entry["sizes"], entry
        return [None if entry["index"] is None else values[entry["index"]] for entry in self.results]


def difference(what, got, expected):
    """The greatest difference, as a part of the greatest value."""
    got, wanted = np.asarray(got), np.asarray(expected)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, (what, got.dtype, got.shape, wanted.dtype, wanted.shape)
    scale = max(np.abs(wanted.astype(np.float64)).max(initial=0), 1e-3)
    error = np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max(initial=0) / scale
    assert error <= TOLERANCES.get(got.dtype, 0), f"{what}: differs by {error:.1e} of its greatest value"
    return error


def check(folder, data):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["format"], manifest["version"]) == ("diptych-stablehlo", 1)
    forward, backward = Module(folder, manifest["forward"]), Module(folder, manifest["backward"])
    given = {entry["index"]: data[f"input.{entry['path']}"] for entry in forward.parameters if "file" not in entry}
    results = forward(given)
    errors = {"values": [], "gradients": []}
    for i, entry in enumerate(forward.results):
        name = f"output.{i}" if entry["kind"] == "output" else f"mutated.{entry['path']}"
        if entry["kind"] != "residual":
            errors["values"].append(difference(name, results[i], data[name]))
    by_index = {entry["index"]: value for entry, value in zip(forward.results, results)}
    passed = {}
    for entry in backward.parameters:
        if entry["kind"] == "residual":
            passed[entry["index"]] = by_index[entry["forward_result"]]
        if entry["kind"] == "tangent":
            passed[entry["index"]] = data[f"tangent.{entry['path']}"]
    for entry, value in zip(backward.results, backward(passed)):
        if value is not None:
            errors["gradients"].append(difference(f"gradient.{entry['path']}", value, data[f"gradient.{entry['path']}"]))
    return errors


def main():
    jax.config.update("jax_enable_x64", True)
    folder = Path(sys.argv[1])
    names = sorted(path.stem for path in folder.glob("*.safetensors"))
    if not names:
        sys.exit(f"{folder} holds no exports; run export.py")
    print(f"JAX {jax.__version__}: relative to the greatest element, differences from eager")
    failed = 0
    for name in names:
        try:
            errors = check(folder / name, read_tensors(folder / f"{name}.safetensors"))
            print(f"{name:16}", "  ".join(f"{len(found):3} {what}, at most {max(found, default=0):.1e}" for what, found in errors.items()))
        except Exception as error:
            failed += 1
            print(f"{name:16} FAILED: {type(error).__name__}: {error}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
