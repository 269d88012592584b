#!/usr/bin/env python3
"""Exports the programs of models.py, with what eager makes of them beside each: `inputs`, `outputs`, new values of inputs,
tangents and gradients, by slot. check_in_jax.py compares.
Usage: export.py FOLDER [NAME ...]"""
import inspect
import sys
from pathlib import Path

import diptych
import models
import torch


def look_up(named, path):
    """What a slot's path names in the arguments: by key, position, attribute."""
    name, *rest = path.split(".")
    value = named[name]
    for part in rest:
        value = value[part] if isinstance(value, dict) else value[int(part)] if isinstance(value, (list, tuple)) else getattr(value, part)
    return value


def leaves(result):
    if isinstance(result, torch.Tensor):
        return [result]
    values = [result[key] for key in sorted(result)] if isinstance(result, dict) else result
    return [leaf for value in values for leaf in leaves(value)]


def names_of(function, arguments):
    return dict(zip(inspect.signature(function).parameters, arguments, strict=True))


def expected(pair, function, arguments):
    """Eager's side, as tensors by name. Tangents are drawn."""
    named = names_of(function, arguments)
    found = {f"input.{slot.path}": look_up(named, slot.path).detach().clone() for slot in pair.signature.forward_inputs if slot.kind == "argument"}
    outputs = leaves(function(*arguments))
    tangents = {}
    for i, (slot, value) in enumerate(zip(pair.signature.forward_outputs, outputs)):
        found[f"output.{i}"] = value.detach().clone()
        if value.requires_grad:
            tangents[i] = torch.randn_like(value)
            found[f"tangent.{slot.path}"] = tangents[i]
    for slot in pair.signature.forward_outputs:
        if slot.kind == "mutated":
            found[f"mutated.{slot.path}"] = look_up(named, slot.path).detach().clone()
    with_gradients = [slot.path for slot in pair.signature.backward_outputs if slot.meta is not None]
    inputs = [look_up(named, path) for path in with_gradients]
    gradients = torch.autograd.grad([outputs[i] for i in tangents], inputs, list(tangents.values()))
    found.update((f"gradient.{path}", gradient) for path, gradient in zip(with_gradients, gradients, strict=True))
    return {name: tensor.contiguous() for name, tensor in found.items()}


def main():
    folder, *names = sys.argv[1:]
    for name in names or models.CASES:
        function, arguments = models.make(name)
        pair = diptych.capture(function, *models.clone(arguments))
        module = next((a for a in arguments if isinstance(a, torch.nn.Module)), None)
        diptych.export_stablehlo(pair, Path(folder) / name, module)
        diptych.save_tensors(expected(pair, function, models.clone(arguments)), str(Path(folder) / f"{name}.safetensors"))


if __name__ == "__main__":
    main()
