"""Reads and writes an optimizer of torch.optim for the steps of diptych.xla."""
import torch
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from ._core import UserError

_CLASSES = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)
_REMEDY = "call backward() and the optimizer's own step()"

# By rule, in the order in which C++ (backward/update_rules.cpp) has them.
_OPTIONS = {
    "sgd": ("momentum", "dampening", "weight_decay", "nesterov"),
    "adam": ("beta1", "beta2", "eps", "weight_decay", "amsgrad"),
}
_STATES = {"sgd": ("momentum_buffer",), "adam": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")}
_OPTIONS["adamw"], _STATES["adamw"] = _OPTIONS["adam"], _STATES["adam"]


def _rule_of(optimizer):
    if type(optimizer) not in _CLASSES:
        raise UserError(
            f"[step] got a {type(optimizer).__module__}.{type(optimizer).__qualname__} as the optimizer, expected exactly a torch.optim.SGD, Adam or "
            f"AdamW; {_REMEDY}"
        )
    if type(optimizer) is torch.optim.SGD:
        return "sgd"
    are_decoupled = {bool(group.get("decoupled_weight_decay")) for group in optimizer.param_groups}
    if len(are_decoupled) > 1:
        raise UserError(
            "[step] decoupled_weight_decay of the optimizer is True in some groups and False in others, expected one value; make an optimizer for each"
        )
    return "adamw" if are_decoupled.pop() else "adam"


def _refuse_hooks(optimizer):
    if (
        optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks or _global_optimizer_post_hooks
    ):
        raise UserError(f"[step] the optimizer's step() has hooks, which a step on devices does not call; remove them, or {_REMEDY}")
    for number, group in enumerate(optimizer.param_groups):
        for index, parameter in enumerate(group["params"]):
            if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
                raise UserError(
                    f"[step] parameter {index} of group {number} of the optimizer has hooks on its gradient, which a step on devices does not call; "
                    f"remove them, or {_REMEDY}"
                )


def _number(number, name, value):
    """An option of a group as a number; a tensor's value is read in each step."""
    if isinstance(value, torch.Tensor) and value.requires_grad:
        raise UserError(f"[step] {name} of group {number} of the optimizer is a tensor that requires grad, expected a number; detach it, or {_REMEDY}")
    return float(value)


def _options_of(number, group, rule):
    for name in ("capturable", "differentiable"):
        if group.get(name):
            raise UserError(f"[step] {name} of group {number} of the optimizer is set, expected False; leave it out, or {_REMEDY}")
    values = group if rule == "sgd" else {**group, "beta1": group["betas"][0], "beta2": group["betas"][1]}
    return [_number(number, name, values[name]) for name in _OPTIONS[rule]]


def _state_of(optimizer, rule, parameter):
    """(how many updates there have been, tensors or None), or None before the first update."""
    state = optimizer.state.get(parameter)
    if not state:
        return None
    tensors = [state.get(name) for name in _STATES[rule]]
    if rule == "sgd":  # which counts no steps: all that matters is whether there is a momentum
        return (1, tensors) if tensors[0] is not None else None
    return int(state["step"]), tensors


def read(optimizer):
    """Returns the rule of an optimizer's updates, and for each group its parameters, their states, options, learning rate and
    whether it maximizes. Errors: UserError for what a step can't hold, named."""
    rule = _rule_of(optimizer)
    _refuse_hooks(optimizer)
    groups = []
    for number, group in enumerate(optimizer.param_groups):
        states = [_state_of(optimizer, rule, parameter) for parameter in group["params"]]
        rate = _number(number, "lr", group["lr"])
        groups.append((group["params"], states, _options_of(number, group, rule), rate, bool(group["maximize"])))
    return rule, groups


def _count_of(optimizer, parameter):
    """The tensor in which eager would count a parameter's first steps."""
    is_fused = any(group["fused"] for group in optimizer.param_groups if any(parameter is own for own in group["params"]))
    is_double = torch.get_default_dtype() == torch.float64 and not is_fused
    return torch.zeros((), dtype=torch.float64 if is_double else torch.float32)


def store(optimizer, parameter, steps, tensors):
    """Gives an optimizer the state of a parameter after that many updates, with `tensors` in the place of what it has, or None to
    keep them."""
    rule, state = _rule_of(optimizer), optimizer.state[parameter]
    if rule != "sgd":
        if not isinstance(state.get("step"), torch.Tensor):
            state["step"] = _count_of(optimizer, parameter)
        state["step"].fill_(steps)
    if tensors is not None:
        state.update(zip(_STATES[rule], tensors))
