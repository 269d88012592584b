"""The line protocol between run.py and its workers: JSON, one object per line.

    {"list": true}                        -> {"cases": ["capture/gpt", ...]}
    {"case": "capture/gpt", "repeat": 3}  -> {"times_ns": [..3 numbers..], "facts": {"nodes": 1014}}
    anything that goes wrong              -> {"error": "..."}

A case is a function `run(repeat) -> (times_ns, facts)`. Standard output carries replies only: what libraries print goes
to standard error. cpp/worker.cpp speaks the same protocol.
"""

import gc
import json
import os
import sys
import time
import traceback


def serve(cases):
    """Answers requests on standard input until it closes."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            reply = answer(cases, json.loads(line))
        except Exception as error:
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"[:2000]}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def answer(cases, request):
    if request.get("list"):
        return {"cases": sorted(cases)}
    name = request.get("case")
    if name not in cases:
        raise ValueError(f"unknown case {name!r}; this worker has {sorted(cases)}")
    times, facts = cases[name](int(request.get("repeat", 1)))
    return {"times_ns": times, "facts": facts}


def timed(repeat, once):
    """Times `once()` `repeat` times, with the garbage of earlier runs collected first and outside the clock."""
    times = []
    for _ in range(repeat):
        gc.collect()
        start = time.perf_counter_ns()
        once()
        times.append(time.perf_counter_ns() - start)
    return times


def timed_in_batches(repeat, once, calls=500):
    """Times `repeat` batches of `calls` calls and returns the nanoseconds of one call in each."""
    times = []
    for _ in range(repeat):
        gc.collect()
        start = time.perf_counter_ns()
        for _ in range(calls):
            once()
        times.append((time.perf_counter_ns() - start) / calls)
    return times


def memory_bytes(key):
    """Reads VmRSS or VmHWM (the high-water mark) of this process."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {key}")


def allocation_peak(once):
    """Runs `once()` and returns how far the live bytes of torch's CPU allocator rose above their number before."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        once()
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def step_facts(start_rss, once):
    """Returns the memory of a training step; the high-water mark is read before the profiler adds its own."""
    peak = memory_bytes("VmHWM")
    return {
        "peak_rss_bytes": peak,
        "peak_rss_over_start_bytes": peak - start_rss,
        "peak_allocated_bytes": allocation_peak(once),
    }
