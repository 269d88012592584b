"""The counters of several compiled functions together."""
import collections
import types


class CacheStats(types.SimpleNamespace):
    """The counters of several compiled functions as those of one."""


def together(stats):
    sums = {name: sum(getattr(one, name) for one in stats) for name in ("hits", "misses", "evictions", "size_checks", "originals", "refusals", "checks")}
    last = {name: next((words for words in (getattr(one, name) for one in reversed(stats)) if words), "") for name in ("last_miss", "last_original")}
    reasons = collections.Counter()
    for one in stats:
        reasons.update(one.original_reasons)
    return CacheStats(**sums, **last, entries=stats[-1].entries, original_reasons=dict(reasons))
