"""Graphs to and from torch.fx, so that whatever takes a GraphModule can print, change or compile them.

    module = diptych.fx.to_graph_module(pair.backward)
    graph = diptych.fx.from_graph_module(module, like=pair.backward)
"""
import keyword
import operator
import re

import torch
from torch import fx
from torch.fx.passes.shape_prop import TensorMetadata

from . import _core


class HigherOrderNode(torch.nn.Module):
    """One higher-order node of a graph, run by the interpreter: its tensors in, its tensors out."""

    def __init__(self, graph, index):
        super().__init__()
        self.name = graph.nodes[index].name
        self._program = _core.program_of_node(graph, index)

    def forward(self, *tensors):
        return tuple(self._program(list(tensors), differentiable=True))

    def extra_repr(self):
        return self.name


def _identifier(path):
    name = re.sub(r"\W", "_", path, flags=re.ASCII)
    if keyword.iskeyword(name) or name == "self":  # forward takes `self` before the inputs
        return f"{name}_"
    return name if name and not name[0].isdigit() else f"_{name}"


def _operator(name):
    namespace, operation, *overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), operation), overload[0] if overload else "default")


class _Writer:
    """Writes a graph into an fx.Graph."""

    def __init__(self, graph):
        self.graph = graph
        self.root = torch.nn.Module()
        self.fx = fx.Graph()
        self.nodes = {}

    def write(self):
        for value, slot in zip(self.graph.inputs, self.graph.input_slots):
            has_name = slot.path and not slot.path[0].isdigit()
            name = slot.path if has_name else f"{slot.kind}_{slot.path}".rstrip("_")
            node = self.fx.create_node("placeholder", "", name=_identifier(name))
            node.target = node.name  # fx made it unique: 'x.a' and 'x_a' are one identifier
            self.name(value, node)
        for index, node in enumerate(self.graph.nodes):
            if node.is_higher_order:
                self.write_higher_order(index, node)
            else:
                self.write_operator(node)
        self.fx.output(tuple(None if value is None else self.node_of(value) for value in self.graph.outputs))
        return fx.GraphModule(self.root, self.fx, class_name=_identifier(self.graph.name))

    def node_of(self, value):
        if value not in self.nodes:
            name = f"constant_{value.id}"
            self.root.register_buffer(name, self.graph.constant_of(value))
            self.nodes[value] = self.fx.get_attr(name)
        return self.nodes[value]

    def operand(self, node, operand):
        if isinstance(operand, _core.Value):
            return self.node_of(operand)
        if isinstance(operand, (list, tuple)):
            return [self.operand(node, element) for element in operand]
        if isinstance(operand, (_core.DynamicSize, _core.DynamicNumber)):
            raise _core.UserError(
                f"[fx] {node.name} has the dynamic size {operand}, expected numbers; capture with dynamic=False"
            )
        return operand

    def write_operator(self, node):
        target = _operator(node.name)
        args, kwargs = [], {}
        for argument, operand in zip(target._schema.arguments, node.operands):
            value = self.operand(node, operand)
            if not argument.kwarg_only:
                args.append(value)
            elif not argument.has_default_value() or value != argument.default_value:  # backends know few of them
                kwargs[argument.name] = value
        call = self.fx.call_function(target, tuple(args), kwargs)
        self.note(call, node)
        results = iter(node.outputs)
        for position, count in enumerate(node.returns):
            part = call if len(node.returns) == 1 else self.element(node, call, position)
            if count == -1:
                self.name(next(results), part)
            for element in range(max(count, 0)):
                self.name(next(results), self.element(node, part, element))

    def write_higher_order(self, index, node):
        name = f"{_identifier(node.name)}_{index}"
        self.root.add_module(name, HigherOrderNode(self.graph, index))
        tensors = []
        for operand in node.operands:
            for value in operand if isinstance(operand, list) else [operand]:
                if isinstance(value, _core.Value):
                    tensors.append(self.node_of(value))
        call = self.fx.call_module(name, tuple(tensors))
        self.note(call, node)
        for position, value in enumerate(node.outputs):
            self.name(value, self.element(node, call, position))

    def element(self, node, results, position):
        part = self.fx.call_function(operator.getitem, (results, position))
        self.note(part, node)
        return part

    def name(self, value, node):
        if value is not None:
            self.nodes[value] = node
            meta = self.graph.meta(value)
            node.meta["type"] = repr(meta)
            if not any(isinstance(size, _core.DynamicSize) for size in (*meta.shape, *meta.stride)):
                shape = torch.Size(meta.shape)
                node.meta["tensor_meta"] = TensorMetadata(shape, meta.dtype, meta.requires_grad, meta.stride, None, False, {})

    @staticmethod
    def note(call, node):
        place = re.search(r"(\S+):(\d+) (.+)$", node.scope)
        if place:  # in the form of Python's traceback, where fx looks for it
            call.meta["stack_trace"] = 'File "{}", line {}, in {}\n{}'.format(*place.groups(), node.scope)
        elif node.scope:
            call.meta["stack_trace"] = node.scope


def to_graph_module(graph):
    """Returns an fx.GraphModule that computes what `graph` does: one placeholder per input slot, one operator call per
    node, a tuple of outputs with None where there is none. Higher-order nodes are submodules that run by the interpreter.
    Errors: UserError for a graph with dynamic sizes."""
    return _Writer(graph).write()


def from_graph_module(module, like):
    """Returns what an fx.GraphModule computes as a graph with the inputs and the slots of `like`, from which it was made.
    Errors: UserError if it returns another number of tensors, or tensors of other sizes or dtypes."""
    metas = [like.meta(value) for value in like.inputs]
    examples = [torch.empty_strided(m.shape, m.stride, dtype=m.dtype, device=m.device) for m in metas]

    def results(*inputs):
        found = module(*inputs)
        missing = [index for index, output in enumerate(found) if output is None]
        expected = [index for index, output in enumerate(like.outputs) if output is None]
        if missing != expected:
            raise _core.UserError(f"[fx] results {missing} are None, expected {expected}; return what the graph returned")
        return [output for output in found if output is not None]

    with torch.no_grad():
        pair = _core.capture_with(_core.Options(name=like.name), results, *examples)
    return _core.with_slots_of(pair.forward, like, pair.free_variables)
