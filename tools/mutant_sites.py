"""Small faults that a source could have, for tools/mutants.py: where they may lie, what takes whose place, and a draw.

Sources are read by tree-sitter (tools/mutants.txt), which is no part of .venv; all else needs Python alone.
"""
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

SOURCES = ("src/diptych/*/*.cpp", "src/diptych/*/*.h", "python/src/*.cpp", "python/src/*.h", "python/diptych/*.py")
KINDS = ("operator", "sign", "bound", "guard", "stride")
BINARY = ("binary_expression", "binary_operator", "boolean_operator", "comparison_operator")
NAMES = ("identifier", "field_expression", "attribute", "subscript_expression", "subscript")
NUMBERS = ("number_literal", "integer")
OPERATORS = {"+": "-", "-": "+", "*": "+", "&&": "||", "||": "&&", "and": "or", "or": "and", "==": "!=", "!=": "==", "in": "not in",
             "not in": "in", "is": "is not", "is not": "is"}
BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
STRIDE = re.compile(r"(?<![a-z])(strides?|steps?|offsets?)(?![a-z])")
#: What is evaluated while compiling, is no expression, or makes a message.
SKIPPED = {"static_assert_declaration", "template_argument_list", "template_parameter_list", "requires_clause", "noexcept", "enumerator",
           "attribute_declaration", "throw_statement", "sizeof_expression", "decltype", "optional_parameter_declaration",
           "bitfield_clause", "string_literal", "raw_string_literal", "string", "decorator", "type", "default_parameter",
           "typed_default_parameter", "raise_statement", "assert_statement", "ERROR"}
SKIPPED_FIELDS = {("case_statement", "value"), ("array_declarator", "size"), ("preproc_if", "condition"), ("preproc_elif", "condition")}
MESSAGES = re.compile(r"error|fail|refus|message|warn|format|ASSERT|UNREACHABLE", re.I)


@dataclass
class Mutant:
    """An expression on a line of a file, and what takes its place."""

    files: list[str]  # in the clone that was drawn from, and in the other one
    room: str
    kind: str
    line: int
    column: int  # from the first character that is not blank
    text: str
    index: int  # which of the lines it is that read so
    of: int  # how many of them the file has
    old: str
    new: str
    number: int = 0


def text_of(node) -> str:
    return node.text.decode()


def swapped(table: dict):
    """Returns a rule that has another operator between two operands; a sum that may be of strings is left alone."""
    def rule(node):
        left, sign, right = node.children if len(node.children) == 3 else (None, None, None)
        new = table.get(text_of(sign)) if sign else None
        is_step = sign is not None and sign.type in "+-" and right.type in NUMBERS  # step_of_one's
        if not new or is_step or (sign.type == "+" and re.search("[\"']", text_of(node))):
            return []
        return [(node, f"{text_of(left)} {new} {text_of(right)}")]
    return rule


def step_of_one(node):
    """a + 1 becomes a - 1."""
    if len(node.children) != 3 or node.children[1].type not in ("+", "-") or node.children[2].type not in NUMBERS:
        return []
    left, sign, right = node.children
    return [(node, f"{text_of(left)} {OPERATORS[sign.type]} {text_of(right)}")]


def without_minus(node):
    return [(node, text_of(node)[1:].lstrip())] if text_of(node).startswith("-") else []


def raised(node):
    compares = node.parent.type in BINARY and text_of(node.parent.children[1]) in {*BOUNDS, "==", "!="}
    return [(node, str(int(text_of(node)) + 1))] if compares and text_of(node).isdigit() else []


def other_way(node):
    """The condition of an if, which is false or the other way round; not one that declares what the branch uses."""
    condition = node.child_by_field_name("condition")
    value = condition.child_by_field_name("value") if condition.type == "condition_clause" else condition
    if value is None or value.type in ("declaration", "named_expression") or any(child.type == "constexpr" for child in node.children):
        return []
    python = condition is value
    negated = f"not ({text_of(value)})" if python else f"!({text_of(value)})"
    return [(value, negated), (value, "False" if python else "false")]


def without_factor(node):
    if len(node.children) != 3 or node.children[1].type != "*":
        return []
    left, _, right = node.children
    return [(node, text_of(other)) for stride, other in ((left, right), (right, left)) if STRIDE.search(text_of(stride))]


def shifted(node):
    """A stride or the like that is a factor, a term or an index."""
    parent = node.parent
    is_term = parent.type in BINARY and len(parent.children) == 3 and parent.children[1].type in ("*", "+")
    is_index = parent.type == "subscript_argument_list" or (parent.type == "subscript" and parent.children[0] != node)
    return [(node, f"{text_of(node)} + 1")] if STRIDE.search(text_of(node)) and (is_term or is_index) else []


RULES = (
    ("operator", BINARY, swapped(OPERATORS)),
    ("sign", BINARY, step_of_one),
    ("sign", ("unary_expression", "unary_operator", "number_literal"), without_minus),
    ("bound", BINARY, swapped(BOUNDS)),
    ("bound", NUMBERS, raised),
    ("guard", ("if_statement", "elif_clause"), other_way),
    ("stride", BINARY, without_factor),
    ("stride", NAMES, shifted),
)


def parts_of(node):
    """Yields the parts of a node in which mutants may lie."""
    is_constant = any(child.text in (b"constexpr", b"consteval", b"constinit") for child in node.children)
    if node.type in SKIPPED or (is_constant and node.type != "if_statement"):
        return
    called = node.child_by_field_name("function") if node.type in ("call_expression", "call") else None
    if called is not None and MESSAGES.search(text_of(called)):
        return
    checks = called is not None and text_of(called).endswith("DIPTYCH_CHECK")
    for place, child in enumerate(node.children):
        name = node.field_name_for_child(place)
        if checks and child.type == "argument_list":
            yield from child.named_children[:1]  # the rest is a message
        elif (node.type, name) not in SKIPPED_FIELDS and not (is_constant and name == "condition"):
            yield child


def changes_in(root):
    """Yields (kind, node, text in its place) of each change of an expression that lies on one line."""
    open_ends = [root]
    while open_ends:
        node = open_ends.pop()
        parts = list(parts_of(node))
        open_ends += parts
        if not parts and node.children:
            continue
        for kind, types, rule in RULES:
            if node.type in types:
                yield from ((kind, place, new) for place, new in rule(node) if "\n" not in text_of(place))


def parsers() -> dict:
    try:
        import tree_sitter
        import tree_sitter_cpp
        import tree_sitter_python
    except ImportError as error:
        sys.exit(f"mutants: {error}; to draw mutants, pip install -r tools/mutants.txt")
    cpp, python = (tree_sitter.Parser(tree_sitter.Language(module.language())) for module in (tree_sitter_cpp, tree_sitter_python))
    return {".cpp": cpp, ".h": cpp, ".py": python}


def room_of(path: str) -> str:
    """Returns src/diptych/<room>, or the folder of a file of the Python package."""
    return "/".join(Path(path).parts[:3]) if path.startswith("src/") else str(Path(path).parent)


def mutants_in(path: str, source: str, parser) -> list[Mutant]:
    lines = [line.strip() for line in source.splitlines()]
    found = []
    for kind, node, new in changes_in(parser.parse(source.encode()).root_node):
        row, line = node.start_point.row, source.splitlines()[node.start_point.row]
        column = len(line.encode()[:node.start_point.column].decode()) - (len(line) - len(line.lstrip()))
        text = lines[row]
        among = lines[:row].count(text), lines.count(text)
        found.append(Mutant([path], room_of(path), kind, row + 1, column, text, *among, text_of(node), new))
    return found


def sources(tree: Path) -> list[str]:
    listed = subprocess.run(["git", "-C", tree, "ls-files", *SOURCES], check=True, capture_output=True, text=True)
    return listed.stdout.splitlines()


def row_of(mutant: Mutant, lines: list[str]) -> int | None:
    """Returns where the line of a mutant is among the lines of a file, if there are as many of its text as there were."""
    same = [row for row, line in enumerate(lines) if line.strip() == mutant.text]
    return same[mutant.index] if len(same) == mutant.of else None


def place_in(tree: Path, mutant: Mutant) -> tuple[str, int] | None:
    """Returns the file of a clone that has a mutant's line, and the row there."""
    for file in mutant.files:
        if (tree / file).exists() and (row := row_of(mutant, (tree / file).read_text().splitlines())) is not None:
            return file, row
    return None


def earlier_names(tree: Path, other: Path) -> dict[str, str]:
    """Returns what files of a clone that were moved are called in the other one, whose commit it has."""
    commit = subprocess.run(["git", "-C", other, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    moved = subprocess.run(["git", "-C", tree, "diff", "-M50%", "-l9999", "--name-status", "--diff-filter=R", commit, "HEAD"],
                           check=True, capture_output=True, text=True).stdout.splitlines()
    return {new: old for _, old, new in (line.split("\t") for line in moved)}


def all_mutants(tree: Path, also_in: Path | None) -> tuple[list[Mutant], dict[str, int]]:
    """Returns every mutant of a clone, those alone that the other one has too, and the lines of each room."""
    by_suffix, moved = parsers(), earlier_names(tree, also_in) if also_in else {}
    mutants, lines = [], Counter()
    for path in sources(tree):
        source = (tree / path).read_text()
        lines[room_of(path)] += source.count("\n")
        found = mutants_in(path, source, by_suffix[Path(path).suffix])
        for mutant in found:
            mutant.files += [moved[path]] if path in moved else []
        mutants += [mutant for mutant in found if also_in is None or place_in(also_in, mutant)]
    return mutants, lines


def shares(lines: dict[str, int], count: int) -> dict[str, int]:
    """Returns how many of `count` each room gets: one, and of the rest by its lines. Where there are more rooms, the largest get one."""
    rooms = sorted(lines, key=lambda room: (-lines[room], room))[:count]
    rest, total = count - len(rooms), sum(lines[room] for room in rooms)
    exact = {room: rest * lines[room] / total for room in rooms}
    found = {room: 1 + int(exact[room]) for room in rooms}
    for room in sorted(rooms, key=lambda room: int(exact[room]) - exact[room])[:count - sum(found.values())]:
        found[room] += 1
    return found


def drawn(mutants: list[Mutant], lines: dict[str, int], count: int, seed: int, rejected: set) -> list[Mutant]:
    """Returns a draw, the same for the same seed but for what was rejected: over all rooms, of each kind as many, one a line."""
    rng = random.Random(seed)
    pools = defaultdict(list)
    for mutant in sorted(mutants, key=lambda one: (one.files, one.line, one.column, one.kind, one.new)):
        pools[mutant.room].append(mutant)
    for room in sorted(pools):
        rng.shuffle(pools[room])
    slots = [room for room, share in shares({room: lines[room] for room in sorted(pools)}, count).items() for _ in range(share)]
    rng.shuffle(slots)
    kinds, taken, found = Counter(), set(), []
    for number, room in enumerate(slots, 1):
        left = [one for one in pools[room] if (one.files[0], one.line) not in taken and key_of(one) not in rejected]
        if left:
            fewest = min((kinds[one.kind], KINDS.index(one.kind)) for one in left)[1]
            found.append(replace(next(one for one in left if KINDS.index(one.kind) == fewest), number=number))
            kinds[found[-1].kind] += 1
            taken.add((found[-1].files[0], found[-1].line))
    return sorted(found, key=lambda one: (one.files, one.line))


def key_of(mutant: Mutant) -> tuple:
    return mutant.files[0], mutant.line, mutant.column, mutant.new
