"""Faults that are known and have not been mended: why, by outcome, the beginning of a key, and a class."""

KNOWN = [
    ("wrong", "late hooks: N and N", "late hooks",
     "results that share nothing have one node: a hook on one of them is called with None where the gradient of another alone is asked for"),
    ("wrong", "a backward of what has been freed or changed is refused, by compiled only", None,
     "results that share nothing have one node, which hands undefined gradients to what lies behind all arguments; if that has been freed, it says so"),
    ("wrong", "backward in turn: strides", "backward in turn", "autograd.grad() of a result that was not contiguous gives the layout that the graph was traced for"),
    ("wrong", "module hooks+views that are returned: True and False", "module hooks", "a result of a module with a full backward hook is a view in eager, by _is_view()"),
]


def reason(outcome, key, kinds):
    """Why this fault is known, or None."""
    return next((why for known_outcome, start, kind, why in KNOWN if known_outcome == outcome and key.startswith(start) and (kind is None or kind in kinds)), None)
