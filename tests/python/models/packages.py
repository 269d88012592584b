"""Where transformers, torchvision and timm come from: what is installed, or the folder that DIPTYCH_MODELS names. Its name ends with
site-packages, by which Diptych knows libraries."""
import importlib.util
import os
import sys

import torch
from torch import library

NAMES = ("transformers", "torchvision", "timm")
LIBRARIES = []  # kept, since what they define goes with them
#: Operators of torchvision's library, which the wheel for another kind of device can't load beside this torch. No model here calls one.
OPERATORS = "nms qnms roi_align roi_pool ps_roi_align ps_roi_pool deform_conv2d qroi_align"


def find():
    """Makes them importable, and gives the names of those that are there."""
    if folder := os.environ.get("DIPTYCH_MODELS"):
        sys.path.append(folder)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    found = [name for name in NAMES if importlib.util.find_spec(name)]
    if "torchvision" in found:
        _define_operators()
    return found


def _define_operators():
    """Gives torchvision's operators a schema, where its library does not load."""
    folder = importlib.util.find_spec("torchvision").submodule_search_locations[0]
    try:
        torch.ops.load_library(f"{folder}/_C.so")
    except OSError:
        schemas = library.Library("torchvision", "DEF")
        for name in OPERATORS.split():
            schemas.define(f"{name}(Tensor x) -> Tensor")
            if not name.startswith("q") and "nms" not in name:
                schemas.define(f"_{name}_backward(Tensor x) -> Tensor")
        LIBRARIES.append(schemas)
