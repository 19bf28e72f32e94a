"""The pages and sections that are made of several results: growth, the year on one machine, how many machines.

Like all figures they come from bench/results, never by hand: where something was not measured nothing is said.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "bench" / "results"
CAPACITY_BEGIN = "<!-- capacity: written by docs/generate.py from bench/results -->"
CAPACITY_END = "<!-- /capacity -->"
TOKENS_BEGIN = "<!-- tokens: written by docs/generate.py from bench/results -->"
TOKENS_END = "<!-- /tokens -->"
MEASURES = ("statements", "rows", "steps", "pages", "vectors", "calls")


def results(name: str) -> Any:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def short(value: float) -> str:
    """Three digits, since no measurement is worth more."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def rows_of(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def on_what(machine: Mapping[str, Any]) -> str:
    load = machine["load_average"][0]
    busy = (
        " It was busy with other work: times by the clock say little, and those of the processor were up to twice what"
        " they are on an idle machine."
    )
    return (
        f"On {machine['cores']} cores ({machine['processor']}), {machine['memory_gib']:.0f} GB of memory, Python"
        f" {machine['python']}; the load of the machine was {load:g} when it began."
        f"{busy if load > machine['cores'] else ''}"
    )


# -- growth ----------------------------------------------------------------------------------------------------------


def growth_page() -> str:
    """What a call takes as the store grows: by the clock, by the processor, and counted."""
    timed, counted = results("sessions"), results("growth")
    parts = [
        "# Growth\n\nWritten by `make docs` from bench/results: `bench/sessions.py` (part of `make bench`) and `make"
        " bench-growth`. Memories in sessions of fifty with authors and dates, a hundred users, on SQLite.\n"
    ]
    parts += _timed(timed) if timed else []
    parts += _counted(counted) if counted else []
    return "\n".join(parts)


def _timed(report: Mapping[str, Any]) -> list[str]:
    sizes = list(report["sizes"])
    names = list(report["sizes"][sizes[0]]["operations"])
    cells = {size: cell["operations"] for size, cell in report["sizes"].items()}
    rows = [
        [name, *(f"{short(cells[size][name]['cpu_ms'])} / {short(cells[size][name]['p50_ms'])}" for size in sizes)]
        for name in names
    ]
    heads = ["ms of one call: processor / median by the clock", *(f"{int(size):,} memories" for size in sizes)]
    return [
        "![What a call takes as the store grows](../bench/results/sessions.svg)\n",
        rows_of(heads, rows),
        "`bulk` is one memory of a batch of a thousand. No model runs in these figures: vectors are looked up.\n",
        "## The floors\n\nWhat is measured in the same run, and below which nothing can go.\n",
        rows_of(["floor, ms", *(f"{int(size):,} memories" for size in sizes)], _floors(report, sizes)),
        "## Cold, and several processes\n\nCold: a fresh process, the files out of the page cache.\n",
        rows_of(["", *(f"{int(size):,} memories" for size in sizes)], _cold(report, sizes)),
        *_shell(report.get("shell")),
        rows_of(
            (
                "processes that ask one store at once, one user's",
                "recalls a second",
                "processor ms",
                "median ms",
                "p99 ms",
            ),
            [
                [count, *(short(one[part]) for part in ("per_second", "cpu_ms", "p50_ms", "p99_ms"))]
                for count, one in report["processes"].items()
            ],
        ),
        on_what(report["machine"]) + "\n",
    ]


def _shell(found: Mapping[str, float] | None) -> list[str]:
    """One line on the command; nothing where it was not measured."""
    if found is None:
        return []
    told = f"{short(found['cpu_ms'])} ms of processor, {short(found['wall_ms'])} by the clock, {found['rss_mb']} MB"
    return [f"`recollect recall` from the shell, with the built-in model, 200 memories, median: {told}.\n"]


def _floors(report: Mapping[str, Any], sizes: Sequence[str]) -> list[list[str]]:
    floors = report["floors"]
    everywhere = {
        "embedding of a question by the built-in model, processor": floors["embedding of a question"]["cpu_ms"],
        "an empty request to a bare web endpoint, median": floors["bare HTTP"]["p50_ms"],
    }
    known = {
        "codes, all": f"the codes of all vectors read once ({floors['bandwidth_gb_per_second']:g} GB/s)",
        "codes, one user's": "the codes of one user's vectors read once",
        "sync of 4 kB": "a write of 4 kB that is synced",
    }
    found = [
        [known[name], *(short(report["sizes"][size]["floors"][name]) for size in sizes)]
        for name in report["sizes"][sizes[0]]["floors"]
    ]
    return [*found, *([name, *[short(value)] * len(sizes)] for name, value in everywhere.items())]


def _cold(report: Mapping[str, Any], sizes: Sequence[str]) -> list[list[str]]:
    cold = [report["sizes"][size]["cold"] for size in sizes]
    steps = [name for name, one in cold[0].items() if isinstance(one, dict)]
    rows = [
        [
            f"{step}, ms: processor / by the clock",
            *(f"{short(one[step]['cpu_ms'])} / {short(one[step]['wall_ms'])}" for one in cold),
        ]
        for step in steps
    ]
    rows.append(["memory of that process, MB", *(short(one["rss_mb"]) for one in cold)])
    rows.append(["disk, bytes a memory", *(short(report["sizes"][size]["disk_bytes_a_memory"]) for size in sizes)])
    return rows


def _counted(report: Mapping[str, Any]) -> list[str]:
    before, after = report["sizes"][0], report["sizes"][-1]
    rows = []
    for name, counts in report["operations"].items():
        small, large = counts[str(before)], counts[str(after)]
        cells = [
            short(small[one]) if small[one] == large[one] else f"{short(small[one])} → {short(large[one])}"
            for one in MEASURES
        ]
        growing = [one for one, shape in report["shapes"][name].items() if shape == "linear"]
        rows.append([name, *cells, ", ".join(growing) or "nothing"])
    return [
        f"## Counted\n\nWork of one call at {before:,} and at {after:,} memories, where a user has a hundred at either"
        " size. Statements, rows handed to Python, steps of SQLite's machine, pages looked at, vectors compared, calls"
        " of functions. `make bench-growth` fails where something grows faster than the last column says: all else"
        " stays, or grows with the depth of a tree.\n",
        rows_of(("", *MEASURES, "may grow with the store"), rows),
    ]


# -- a year ----------------------------------------------------------------------------------------------------------

_ONCE = {"seconds": "s", "cpu_seconds": "s of processor", "rss_mb": "MB", "gb": "GB", "memories": "memories"}
_OTHER = {
    "codes_ms": "ms to read the codes",
    "sync_ms": "ms for a synced write",
    "bandwidth_gb_per_second": "GB/s",
    "rss_mb": "MB resident",
    "anonymous_mb": "MB of its own",
    "store_gb": "GB",
    "index_gb": "GB of index",
    "bytes_a_memory": "bytes a memory",
}


def year_section() -> str:
    reports = results("year")
    if not reports:
        return ""
    first = reports[0]
    share = "a whole year" if first["share"] == 1 else f"{100 * first['share']:g}% of a year, not the whole"
    said = (
        f"## A year on one machine\n\n`make bench-year`, run for **{share}**: {first['memories']:,} memories,"
        f" {first['vectors']:,} vectors of {first['dimensions']} numbers, up to {first['reads']:,} reads in the log;"
        " memories in sessions of fifty by a hundred users over 365 days. A call: processor / median by the clock /"
        " p99, in ms (PostgreSQL: processor of ours + of the server's).\n"
    )
    names = list(dict.fromkeys(name for report in reports for name in report["measured"]))
    rows = [["loaded, memories a second", *(short(report["load_per_second"]) for report in reports)]]
    rows += [[name, *(_year_cell(report["measured"].get(name)) for report in reports)] for name in names]
    notes = [f"{report['store']}: {report['note']}\n" for report in reports if "note" in report]
    shown = rows_of(["", *(report["store"] for report in reports)], rows)
    return "\n".join([said, shown, *notes, on_what(first["machine"]) + "\n"])


def _year_cell(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "not measured"
    if "p50_ms" in found:
        server = f" + {short(found['server_cpu_ms'])}" if "server_cpu_ms" in found else ""
        return f"{short(found['cpu_ms'])}{server} / {short(found['p50_ms'])} / {short(found['p99_ms'])}"
    units = _ONCE if "seconds" in found else _OTHER
    return ", ".join(f"{short(found[name])} {unit}" for name, unit in units.items() if name in found)


# -- how many machines -----------------------------------------------------------------------------------------------


def with_capacity(page: str) -> str:
    """docs/scale.md with its section on machines made anew."""
    if CAPACITY_BEGIN not in page or CAPACITY_END not in page:
        return page
    before, _, rest = page.partition(CAPACITY_BEGIN)
    _, _, after = rest.partition(CAPACITY_END)
    plans = results("capacity")
    return f"{before}{CAPACITY_BEGIN}\n{_plans(plans) if plans else ''}{CAPACITY_END}{after}"


def _plans(plans: Sequence[Mapping[str, Any]]) -> str:
    machine = plans[0]["machine"]
    rows = []
    for one in plans:
        for count, needed in one["organizations"].items():
            rows.append(
                [
                    f"{int(count):,}",
                    one["store"],
                    f"{needed['machines']:,}",
                    f"{needed['organizations_each']:,}",
                    short(needed["disk_tb_a_year"]),
                    f"{100 * needed['busy_at_peak']:.0f}%",
                    short(needed["recall_p99_ms"]),
                ]
            )
    heads = ("organizations", "store", "machines", "on each", "TB a year", "busy at the peak", "recall p99, ms")
    limits = ", ".join(
        f"{one['store']}: {one['holds']['processor']:,} by its cores, {one['holds']['memory']:,} by its memory,"
        f" {one['holds']['disk']:,} by its disk"
        for one in plans
    )
    sizes = ", ".join(
        f"{short(one['cores_at_peak'])} cores busy at its peak and takes {short(one['gb_a_year'])} GB a year on"
        f" {one['store']}"
        for one in plans
    )
    whole = plans[0]["share"] == 1
    return (
        f"\nMachines of {machine['cores']} cores, {machine['memory_gb']:g} GB of memory and"
        f" {machine['disk_gb'] / 1000:g} TB of disk, after a year:\n\n"
        + rows_of(heads, rows)
        + f"\nOne such machine holds so many organizations ({limits}); what binds first counts. An organization keeps"
        f" {sizes}. Measured at {100 * plans[0]['share']:g}% of a year"
        + ("" if whole else ": after a whole one, recalls over everybody's memories take longer")
        + ".\n"
        + "".join(
            f"\n**On {one['store']} not even one is answered in time**: after a year its recalls take longer than half"
            " a second too often, whatever the number of machines.\n"
            for one in plans
            if not one["holds"]["processor"]
        )
    )


# -- tokens over MCP -------------------------------------------------------------------------------------------------


def with_tokens(page: str) -> str:
    """docs/mcp.md with its table of tokens made anew."""
    if TOKENS_BEGIN not in page or TOKENS_END not in page:
        return page
    before, _, rest = page.partition(TOKENS_BEGIN)
    _, _, after = rest.partition(TOKENS_END)
    report = results("mcp_tokens")
    return f"{before}{TOKENS_BEGIN}\n{_tokens(report) if report else ''}{TOKENS_END}{after}"


def _tokens(report: Mapping[str, Any]) -> str:
    ours, theirs = report["recollect"], report["server-memory"]
    official = theirs["lists"]["all of it"]
    rows = [
        [f"tool list, profile `{name}` ({cost['tools']} tools)", f"{cost['tokens']:,}", "" if place else
         f"{official['tokens']:,} ({official['tools']} tools)"]
        for place, (name, cost) in enumerate(ours["lists"].items())
    ]  # fmt: skip
    rows += [
        [f"reply: {name}", *(f"{cost['text']} / {cost['structured']}" for cost in (mine, theirs["replies"][name]))]
        for name, mine in ours["replies"].items()
    ]
    return (
        "\n"
        + rows_of(("tokens", "Recollect", "official memory server"), rows)
        + f"\nCounted with the tokenizer of {report['tokenizer']} by `make bench-mcp`; of a reply, the text / the"
        " structured content. A reply of ours is longer, since each memory comes with an id (about 27 of these tokens),"
        " a status and a date.\n"
    )
