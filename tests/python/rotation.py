"""Which of the many samples of a suite a run takes: all, or the tenth that DIPTYCH_TEST_PART names (tests/README.md, "Tiers")."""
import os

VARIABLE = "DIPTYCH_TEST_PART"


def part():
    """(index, number of parts) of this run; (0, 1) where the variable is not set or says "all"."""
    text = os.environ.get(VARIABLE, "all")
    if text in ("", "all"):
        return 0, 1
    index, _, parts = text.partition("/")
    if not (index.isdigit() and parts.isdigit() and int(index) < int(parts)):
        raise ValueError(f"{VARIABLE} is '{text}', expected 'all', or an index and a number of parts such as '3/10'")
    return int(index), int(parts)


def is_whole():
    return part()[1] == 1


def rotating(items):
    """Those of `items` that this run takes: each part takes at least one, and all parts together take them all."""
    items = list(items)
    index, parts = part()
    step = min(parts, len(items))
    return [item for place, item in enumerate(items) if place % step == index % step]


def words():
    """What a run prints, so that it can be repeated; empty where it takes all."""
    index, parts = part()
    return "" if parts == 1 else f"part {index} of {parts} of the samples; to repeat it, set {VARIABLE}={index}/{parts}"
