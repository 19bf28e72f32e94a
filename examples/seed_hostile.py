"""What nobody should be able to do to the console by storing it: markup, controls and endless words in every field."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import recollect

TEXTS = (
    '<script>alert("owned")</script><img src=x onerror=alert(1)>',
    "مرحبا \u202eevil\u202c هذا نص من اليمين إلى اليسار מימין לשמאל",
    "Averylongwordwithoutanyplacetobreak" * 9,
    "🦄🔥 emoji 👩‍👩‍👧‍👦 and a zero\u200bwidth space, ‘quotes’ & ampersands; DROP TABLE memory;--",
)
MARKUP = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>{{7*7}}"


def fill(mem: Any, folder: Path) -> dict[str, str]:
    """Markup in every field that a page shows; gives the id of one of each, by the page that shows it."""
    for one in TEXTS:
        mem.user.add(one[:60], id=one[:60])
        mem.remember(one, author=one[:60], tags=[one[:20]], cites=[recollect.cite.user(one[:60], one)])
    agent = mem.agent.add(MARKUP, description=MARKUP, system=MARKUP)
    found = {"agents": agent.id, "sessions": _session(mem, agent.id), "runs": _run(mem, agent.id)}
    mem.block.add(MARKUP[:40], MARKUP, agents=[agent.id], description=MARKUP)
    mem.tool.add("markup", MARKUP, agents=[agent.id], tags=[MARKUP[:40]], json_schema={"description": MARKUP})
    mem.user.add(MARKUP[:80], id=MARKUP[:60], email="markup@example.com")
    mem.key.add(MARKUP[:70])
    found |= {"memories": _memory(mem), "workspaces": _workspace(mem, agent.id)}
    markup, run = _source(mem, folder)
    return {f"hostile {page}": id for page, id in (found | {"sources": markup}).items()} | {"markup query": run}


def _session(mem: Any, agent: str) -> str:
    session = mem.session.add(MARKUP, agent=agent)
    mem.message.add("user", MARKUP, session=session.id, name=MARKUP, tool_calls=[{"name": MARKUP}])
    mem.message.add("assistant", f"```\n{MARKUP}\n```", session=session.id)
    return str(session.id)


def _run(mem: Any, agent: str) -> str:
    run = mem.run.start(MARKUP, agent=agent)
    held = mem.run.claim(MARKUP[:20], id=run.id)
    mem.run.propose(run.id, held.fence, tool=MARKUP[:50], arguments={"a": MARKUP}, reasoning=MARKUP, plan=[MARKUP])
    mem.run.record(run.id, held.fence, outcome="error", summary=MARKUP, error={MARKUP: MARKUP})
    mem.run.fail(run.id, held.fence, error={MARKUP: MARKUP}, note=MARKUP)
    return str(run.id)


def _memory(mem: Any) -> str:
    cites = [recollect.cite.user(MARKUP[:60], MARKUP), recollect.cite.url("https://example.com/?<b>", title=MARKUP)]
    content = {"text": MARKUP, "more": MARKUP}
    memory = mem.remember(content, metadata={MARKUP: MARKUP}, author=MARKUP[:60], tags=[MARKUP[:40]], cites=cites)
    mem.revise(memory.id, f"{MARKUP} changed", why=MARKUP)
    mem.relate(mem.remember(f"near {MARKUP}").id, memory.id, "supports")
    return str(memory.id)


def _workspace(mem: Any, agent: str) -> str:
    space = mem.workspace.add(agent, MARKUP)
    mem.workspace.write(space.id, "a<b>&.md", MARKUP)
    taken = mem.workspace.snapshot(space.id, MARKUP)
    mem.workspace.write(space.id, "a<b>&.md", MARKUP * 2)
    return f"{space.id}?since={taken.id}"


def _source(mem: Any, folder: Path) -> tuple[str, str]:
    file = folder / "markup.csv"
    with file.open("w", newline="", encoding="utf-8") as written:
        csv.writer(written).writerows([[f"the {MARKUP}", "n"], [MARKUP, 1], ["b", 2], ["c", 3]])
    source = mem.source.add(str(file), name=MARKUP)
    run = mem.query.run(f'select * from "{source.tables[0].name}"', question=MARKUP)
    return str(source.id), str(run.run)
