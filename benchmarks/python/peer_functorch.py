"""Worker: functorch.compile.aot_function with compilers that do nothing; capture time and residual bytes.

The clock of a capture stops when the captured forward graph would first be run: it includes the joint trace, the
partition and the call of the forward compiler, but not the run of the graph. (With static shapes aot_function calls the
backward compiler at the first backward; the clock includes the making of the backward graph itself.)
"""

import operator
import time

import protocol
import torch
import torch._functorch.config
from functorch.compile import aot_function, default_partition, min_cut_rematerialization_partition
from models_torch import MODELS


class Captured(Exception):
    """Raised in place of running the captured graph."""


def stop(*args):
    raise Captured


def capture(model, partition, decompositions=None):
    """Captures `model`'s joint graph; returns nanoseconds and what was seen on the way."""
    seen = {}

    def compiler(graph_module, inputs):
        return stop

    def partition_fn(joint, inputs, **kwargs):
        seen["joint_nodes"] = count_operators(joint)
        seen["forward"], seen["backward"] = partition(joint, inputs, **kwargs)
        seen["num_outputs"] = kwargs["num_fwd_outputs"]
        return seen["forward"], seen["backward"]

    def loss(params, buffers, data):
        result = model.loss(params, buffers, data)
        seen["num_results"] = len(result) if isinstance(result, tuple) else 1
        return result

    function = aot_function(
        loss,
        fw_compiler=compiler,
        bw_compiler=compiler,
        partition_fn=partition_fn,
        decompositions=decompositions,
    )
    start = time.perf_counter_ns()
    try:
        function(model.params, model.buffers, model.data)
    except Captured:
        seen["time_ns"] = time.perf_counter_ns() - start
    if "time_ns" not in seen or "backward" not in seen:
        raise RuntimeError("aot_function ran without making a joint graph")
    return seen


def count_operators(graph_module):
    return sum(node.op == "call_function" for node in graph_module.graph.nodes)


def capture_case(name):
    model = None

    def run(repeat):
        nonlocal model
        model = model or MODELS[name]()
        times = []
        for _ in range(repeat):
            protocol.gc.collect()
            seen = capture(model, default_partition)
            times.append(seen["time_ns"])
        return times, {"joint_nodes": seen["joint_nodes"]}

    return run


def storage_root(node):
    """Returns the node whose storage `node` shares, through views and the getitems that pick one view of several."""
    while node.op == "call_function":
        source = node.args[0] if node.args else None
        if not isinstance(source, torch.fx.Node):
            break
        if node.target is operator.getitem:
            if not (source.op == "call_function" and is_view(source.target)):
                break
        elif not is_view(node.target):
            break
        node = source
    return node


def is_view(target):
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.arguments:
        return False
    alias = target._schema.arguments[0].alias_info
    return alias is not None and not alias.is_write


def bytes_of(node):
    value = node.meta["val"]
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def residual_facts(seen):
    """Counts what the forward graph saves: every slot, and new storage: each once, without inputs and user outputs."""
    output = next(node for node in seen["forward"].graph.nodes if node.op == "output")
    saved = [value for value in output.args[0][seen["num_outputs"] :] if isinstance(value, torch.fx.Node)]
    roots = dict.fromkeys(storage_root(node) for node in saved)
    # The forward's first outputs are new values of mutated inputs; the function's own results come last.
    results = output.args[0][seen["num_outputs"] - seen["num_results"] : seen["num_outputs"]]
    returned = {storage_root(value) for value in results}
    fresh = [root for root in roots if root.op != "placeholder" and root not in returned]
    return {
        "saved": len(saved),
        "bytes_with_inputs": sum(bytes_of(root) for root in roots),
        "new_bytes": sum(bytes_of(root) for root in fresh),
        "joint_nodes": seen["joint_nodes"],
        "backward_nodes": count_operators(seen["backward"]),
    }


def residual_case(name, partition, decompositions=None, **settings):
    def run(repeat):
        with torch._functorch.config.patch(settings):
            seen = capture(MODELS[name](), partition, decompositions)
        return [seen["time_ns"]], residual_facts(seen)

    return run


def main():
    from torch._inductor.decomposition import select_decomp_table

    cases = {f"capture/{name}": capture_case(name) for name in ("gpt", "gpt2", "resnet18")}
    min_cut = min_cut_rematerialization_partition
    for name in MODELS:
        ways = {
            "default": residual_case(name, default_partition),
            "min_cut": residual_case(name, min_cut),
            "min_cut_decomposed": residual_case(name, min_cut, select_decomp_table()),
            "min_cut_aggressive": residual_case(name, min_cut, aggressive_recomputation=True),
            "memory_budget(0.5)": residual_case(name, min_cut, activation_memory_budget=0.5),
        }
        cases.update({f"residuals/{name}/{way}": run for way, run in ways.items()})
    protocol.serve(cases)


if __name__ == "__main__":
    main()
