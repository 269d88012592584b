"""What objects lead to, as it was before a function ran, and what of it has changed."""
import operator
from typing import Any, NamedTuple

from .contents import PLAIN, contents_of, same, subclass_attributes

MOST_OBJECTS = 100_000
_DEEPEST = 40


class Seen(NamedTuple):
    """An object as it was before the function ran."""

    path: str
    contents: Any
    content: list


def walk(roots, known, seen, read=contents_of, others=None):
    """Adds to `seen` what `roots` lead to, each object once; `known` keeps the objects alive. `read` gives the Contents of an object;
    those without any are added to `others`, (path, object). Returns whether that was all."""
    is_all = True
    open_ends = [(path, value, 0) for path, value in reversed(roots)]
    while open_ends and len(known) < MOST_OBJECTS:
        path, value, depth = open_ends.pop()
        if type(value) in PLAIN or id(value) in known:
            continue
        known[id(value)] = value
        try:
            contents = read(value)
            if contents is None:
                if others is not None:
                    others.append((path, value))
                continue
            seen.append(Seen(path, contents, list(contents.read())))
            parts = [*contents.parts(), ("", subclass_attributes(value))]
            is_all = is_all and contents.is_all
        except Exception:  # noqa: BLE001  # an object may raise anything when it is read
            continue
        parts = [(path + name, part, depth + 1) for name, part in reversed(parts) if type(part) not in PLAIN]
        open_ends.extend(parts if depth < _DEEPEST else ())
        is_all = is_all and (depth < _DEEPEST or not parts)
    return is_all and not open_ends


def changes_in(seen):
    """Yields (object as it was, what it holds now) for each object that changed."""
    for one in seen:
        try:
            now = list(one.contents.read())
        except Exception:  # noqa: BLE001  # as when it was first read
            continue
        if len(now) == len(one.content) and all(map(operator.is_, one.content, now)):
            continue
        if len(now) != len(one.content) or not all(map(same, one.content, now)):
            yield one, now
