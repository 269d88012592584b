"""torch.func's own tests over what Diptych makes of the inner function: every composition of transforms that eager passes, the function compiled, or the body
of an operator, compared with eager in values, structure and gradients to second order, in a first call and in a second.

    python tests/python/suites/func_db.py [--only simple,maml] [--part 3] [--list]

Groups are named after what became of the function. "inside" is the composition compiled as a whole. An outcome "original" is eager's result by the function
itself, without a graph or a rule.
"""
import functools
from functools import partial

import judge
import suite
from func_functions import FORMS, FUNCTIONS, PLAIN, make
from func_programs import ERRORS, PROGRAMS
from func_transforms import TRANSFORMS


#: What torch.func itself does not do in eager either: linearize makes a graph, which takes no decisions.
SKIPPED = {(form, name) for form in ("cond", "while_loop") for name in ("linear_part", "linearize_in_a_batch", "linearize_of_trees")}

#: Functions that compute in float32 have derivatives that are compared to the first order alone: beyond, terms are added in another order.
ROUNDED = ("narrower_inside",)

#: Transforms to the second order, of whose results a function of PLAIN is not differentiated: what LibTorch makes of a third order is wrong, too, as
#: jacrev(jacfwd(torch.linalg.solve)) is.
SECOND_ORDER = ("second_derivatives", "forward_of_the_gradient", "hessians_of_elements", "gradient_of_gradients_of_elements")


def orders_of(name, transform_name, form):
    if name in PLAIN and transform_name in SECOND_ORDER:
        return (0,)
    return (0, 2) if form in ("compiled", "inside") and name not in ROUNDED else (0, 1)


def observe(program, sizes, order, form="compiled"):
    """What is seen of a program whose leaves require grad, if it is differentiated. An operator says of its results that they require grad wherever they may."""
    judge.seed(5)
    arguments = judge._pytree.tree_map(lambda leaf: leaf.requires_grad_(order > 0), tuple(make(size) for size in sizes))
    leaves = judge.tensors(arguments)
    seen = judge.observe(program, leaves, arguments, {}, order, aliases=False, none_is_zero=True)
    return seen if form in ("compiled", "inside") else judge.Seen(part for part in seen if not part[0].endswith("requires_grad, is_leaf"))


def judge_program(make_program, sizes, orders, form, is_error=False, oracle=None):
    """The worst of the orders, in two calls. make_program(wrap). is_error: whether ours must raise where eager does; else what eager does not do is not asked.
    oracle: what is right where the program in eager may not be."""
    eager = make_program(lambda f: f)
    calls = judge.Calls()
    ours = make_program(FORMS[form]) if form != "inside" else calls.watch(judge.compiled(eager))
    judged = [functools.cache(partial(observe, right, sizes, form=form)) for right in (eager, oracle) if right]
    outcomes = [judge_by_any(judged, partial(observe, ours, sizes, form=form), order) for order in orders for _ in range(2)]
    outcome = judge.worst(outcomes)
    if outcome[1].startswith(judge.EAGER_RAISES) and not is_error:
        return "eager refuses", outcome[1]
    return calls.outcome(outcome)


def judge_by_any(oracles, ours, order):
    """The outcome by the first oracle that does not find ours wrong, else by the first."""
    outcomes = []
    for oracle in oracles:
        outcomes.append(judge.judge_to_order(oracle, ours, order))
        if outcomes[-1][0] != "wrong":
            return outcomes[-1]
    return outcomes[0]


def composed(function, transform):
    return lambda wrap: transform(wrap(function))


def function_entry(name, function, sizes, part):
    """Every transform of one function in each form, or one in `part` of these."""
    offset = sum(map(ord, name)) % part
    for number, (transform_name, transform) in enumerate(TRANSFORMS.items()):
        for place, form in enumerate((*FORMS, "inside")):
            if (number + place) % part == offset and (form, transform_name) not in SKIPPED:
                oracle = transform(PLAIN[name]) if name in PLAIN else None
                yield f"{form} {transform_name}", partial(judge_program, composed(function, transform), sizes, orders_of(name, transform_name, form), form, oracle=oracle)


def program_entry(name, make_program, sizes, order, operators, part):
    for place, form in enumerate((*FORMS, "inside")):
        if (form, name) in SKIPPED or (form == "cond" and name.startswith("draw")):  # in a batch both branches draw
            continue
        if form in ("compiled", "inside") or (operators and place % part == 0):
            yield form, partial(judge_program, make_program, sizes, (0, order), form)


def error_entry(make_program, sizes):
    for form in (*FORMS, "inside"):
        yield f"{form}, error", partial(judge_program, make_program, sizes, (0,), form, is_error=True)


def entries(options):
    part = options.part
    found = [(name, partial(function_entry, name, f, sizes, part)) for name, (f, sizes) in FUNCTIONS.items()]
    found += [(name, partial(program_entry, name, *parts, part)) for name, parts in PROGRAMS.items()]
    return found + [(f"error: {name}", partial(error_entry, *parts)) for name, parts in ERRORS.items()]


def add_arguments(parser):
    parser.add_argument("--part", type=int, default=1, help="of the compositions, runs one in so many")


if __name__ == "__main__":
    suite.main("func_db", __doc__, entries, add_arguments)
