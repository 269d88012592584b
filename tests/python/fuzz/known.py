"""Faults that are known and have not been mended: why, by outcome, the beginning of a key, and a class."""

KNOWN = []


def reason(outcome, key, kinds):
    """Why this fault is known, or None."""
    return next((why for known_outcome, start, kind, why in KNOWN if known_outcome == outcome and key.startswith(start) and (kind is None or kind in kinds)), None)
