"""Turns what run.py measured into aligned Markdown tables."""

import statistics

#: The engine that the ratios of a section divide by. A section holds the cases whose names begin with its own.
REFERENCE = {
    "capture": "Diptych",
    "call": "C++ eager",
    "step": "C++ eager",
    "scan/time": "C++ eager",
    "scan/capture": "Diptych",
    "layers/capture": "Diptych, one block",
    "layers/step": "C++ eager",
    "checkpoint": "Diptych",
    "xla/step": "JAX",
    "xla/train": "JAX",
    "xla/lower": "Diptych, XLA",
    "xla/compile": "JAX",
}
TITLES = {
    "capture": "Capture of the joint forward and backward graph",
    "call": "One call of a five-operator function on two elements",
    "step": "One training step (forward and backward, no optimizer)",
    "residuals": "Bytes saved for the backward",
    "scan/time": "A recurrent network of so many steps, forward and backward",
    "scan/capture": "Capture and compilation of a scan of so many steps",
    "scan/memory": "Bytes that a scan of so many steps saves for its backward, and the least that it needs",
    "layers/capture": "Capture of a GPT of so many blocks",
    "layers/step": "One training step of a GPT of so many blocks, and the memory that it takes",
    "checkpoint": "A scan of so many steps that keeps few carries: time and memory",
    "xla/step": "Value and gradients by XLA",
    "xla/train": "A training step with AdamW, its state on the device",
    "xla/lower": "From the function to StableHLO",
    "xla/compile": "XLA's compilation of what was lowered",
}
#: Sections that are not timed: what a graph saves is the same each time.
UNTIMED = ("residuals", "scan/memory")


def report(results, machine):
    """Returns all tables, each under its own heading, with the machine first."""
    parts = ["# Benchmark report", describe(machine)]
    for section, title in TITLES.items():
        rows = [row for row in results if row["case"].startswith(section + "/")]
        if rows:
            parts += [f"## {title}", *section_tables(section, rows)]
    return "\n\n".join(parts) + "\n"


def section_tables(section, rows):
    """Returns the tables of a section: one of times unless it is not timed, and one of memory if theory predicts the
    bytes."""
    if section == "residuals":
        return [residual_table(rows)]
    rows = sorted(rows, key=lambda row: natural(row["case"]))
    timed = [] if section in UNTIMED else [time_table(section, rows)]
    has_theory = section in UNTIMED or any("predicted_bytes" in row["facts"] for row in rows)
    factors = [factor_table(section, rows)] if section == "checkpoint" else []
    return timed + factors + ([memory_table(section, rows)] if has_theory else [])


def natural(case):
    """Returns a sort key that orders cases by their numbers, not by their digits."""
    return [int(part) if part.isdigit() else part for part in case.split("/")]


def describe(machine):
    load = f"{machine['load_average'][0]:.1f} before, {machine['load_average_after'][0]:.1f} after"
    busy = machine["load_average"][0] > machine["cores"] / 2
    warning = " The machine was busy before the first case: trust no time below." if busy else ""
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}; load average {load}.{warning}"


def time_table(section, rows):
    """Shows the median and the spread over all samples, and the ratio of each engine's turn to the reference's in that
    round."""
    reference = REFERENCE[section]
    header = ["case", "engine", "median", "quartiles", "min..max", f"times {reference}", "ratio's quartiles", "notes"]
    lines = []
    for row in rows:
        line = [row["case"].removeprefix(section + "/"), row["engine"]]
        if "error" in row:
            lines.append(line + ["failed"] + [""] * 4 + [row["error"].splitlines()[0][:80]])
            continue
        samples = [sample for turn in row["turns"] for sample in turn]
        low, middle, high = quartiles(samples)
        line += [duration(middle), f"{duration(low)}..{duration(high)}"]
        line += [f"{duration(min(samples))}..{duration(max(samples))}"]
        lines.append(line + ratio_cells(row, rows, reference) + [notes(row["facts"])])
    return markdown(header, lines)


def ratio_cells(row, rows, reference):
    base = next((r for r in rows if r["case"] == row["case"] and r["engine"] == reference and "error" not in r), None)
    if base is None:
        return ["", ""]
    pairs = [statistics.median(a) / statistics.median(b) for a, b in zip(row["turns"], base["turns"])]
    if row is base or not pairs:
        return ["1", ""] if row is base else ["", ""]
    low, middle, high = quartiles(pairs)
    return [f"{middle:.3g}x", f"{low:.3g}x..{high:.3g}x"]


def notes(facts):
    found = []
    if "joint_nodes" in facts:
        found.append(f"{facts['joint_nodes']} nodes")
    if "peak_allocated_bytes" in facts:
        found.append(f"{size(facts['peak_allocated_bytes'])} allocated at the peak")
    if "peak_rss_over_start_bytes" in facts:
        found.append(f"RSS rose {size(facts['peak_rss_over_start_bytes'])} to {size(facts['peak_rss_bytes'])}")
    if "text_bytes" in facts:
        found.append(f"{size(facts['text_bytes'])} of text")
    if "trace_ns" in facts:
        found.append(f"trace {duration(facts['trace_ns'])}")
    if "first_call_ns" in facts:
        found.append(f"first call {duration(facts['first_call_ns'])}")
    return ", ".join(found)


def memory_table(section, rows):
    """Shows the bytes measured beside those that theory predicts, which are a sum of terms."""
    header = ["case", "engine", "measured", "predicted", "measured / predicted", "notes"]
    lines = []
    for row in rows:
        facts = row["facts"]
        if "error" in row:
            lines.append([row["case"].removeprefix(section + "/"), row["engine"], "failed", "", "", row["error"][:80]])
        if "predicted_bytes" not in facts:
            continue
        measured = facts.get("new_bytes", facts.get("peak_allocated_bytes"))
        terms = ", ".join(f"{name} {size(count)}" for name, count in facts.get("predicted_terms", {}).items())
        lines.append(
            [row["case"].removeprefix(section + "/"), row["engine"], size(measured), size(facts["predicted_bytes"])]
            + [f"{measured / facts['predicted_bytes']:.3f}", terms]
        )
    return markdown(header, lines)


def factor_table(section, rows):
    """Shows how much longer a scan takes if it keeps few carries: measured, and predicted from how often steps are run
    again.

    A step that is run again is assumed to cost as much as in the plain scan's forward, whose share of the time is
    measured.
    """
    header = ["case", "engine", "segment", "steps run again", "plain forward's share", "predicted", "measured", "quartiles"]
    lines = []
    for row in rows:
        base = next((r for r in rows if r["case"] == row["case"] and "forward_share" in r["facts"]), None)
        if base is None or "extra_forwards" not in row["facts"]:
            continue
        again, share = row["facts"]["extra_forwards"], base["facts"]["forward_share"]
        line = [row["case"].removeprefix(section + "/"), row["engine"], str(row["facts"]["segment"])]
        line += [f"{again:.3f} of each", f"{share:.3f}", f"{1 + again * share:.3g}x"]
        lines.append(line + ratio_cells(row, rows, REFERENCE[section]))
    return markdown(header, lines)


def residual_table(rows):
    """Shows saved bytes. New bytes are in storages that are not a parameter's, the data's or a result's, each counted
    once."""
    header = ["model", "engine", "partition", "saved", "new bytes", "with inputs", "times PyTorch's min-cut"]
    lines = []
    for row in sorted(rows, key=lambda row: row["case"].split("/")[1]):
        _, model, partition = row["case"].split("/", 2)
        line = [model, row["engine"], partition]
        if "error" in row:
            lines.append(line + ["failed", "", "", row["error"].splitlines()[0][:80]])
            continue
        facts = row["facts"]
        base = next((r["facts"] for r in rows if is_min_cut_of_pytorch(r, model)), None)
        ratio = f"{facts['new_bytes'] / base['new_bytes']:.4f}x" if base else ""
        lines.append(
            line + [f"{facts['saved']}", f"{facts['new_bytes']:,}", f"{facts['bytes_with_inputs']:,}", ratio]
        )
    return markdown(header, lines)


def is_min_cut_of_pytorch(row, model):
    return row["case"] == f"residuals/{model}/min_cut" and row["engine"] == "aot_function" and "error" not in row


def quartiles(values):
    if len(values) == 1:
        return values[0], values[0], values[0]
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def duration(nanoseconds):
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= scale:
            return f"{nanoseconds / scale:.3g} {unit}" if nanoseconds < 999.5 * scale else f"{nanoseconds / scale:.0f} {unit}"
    return f"{nanoseconds:.0f} ns"


def size(count):
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count:,} B"


def markdown(header, lines):
    """Returns a Markdown table whose columns also line up in a terminal; words to the left, numbers to the right."""
    lines = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    words = [title == "notes" or not any(line[i][:1].isdigit() for line in lines) for i, title in enumerate(header)]

    def fill(line):
        cells = (cell.ljust(w) if word else cell.rjust(w) for cell, w, word in zip(line, widths, words))
        return "| " + " | ".join(cells) + " |"

    rule = ["-" * w if word else "-" * (w - 1) + ":" for w, word in zip(widths, words)]
    return "\n".join([fill(header), fill(rule), *map(fill, lines)])
