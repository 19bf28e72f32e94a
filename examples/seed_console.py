"""Fill a store with a believable team's memory, to look at the console with: python examples/seed_console.py team.db

It needs recollect[server] and recollect[data].

Then `recollect serve team.db`, and sign in as maya@example.com with the password `correct horse battery`.
"""

from __future__ import annotations

import csv
import random
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import recollect
from recollect.catalogue import OPERATIONS

PASSWORD = "correct horse battery"
PEOPLE = ("Maya", "Jonas", "Priya", "Tomás", "Aiko")
SERVICES = ("billing", "search", "ingest", "gateway", "mailer", "scheduler", "export", "profile")
FACTS = (
    "The {s} service talks to PostgreSQL through a pool of {n} connections",
    "Deploys of {s} need the migration job to finish first, which takes about {n} minutes",
    "{s} retries a failed call {n} times with growing pauses, then gives up and writes to the dead letter queue",
    "The nightly export of {s} runs at 0{d}:30 UTC and must not overlap with the backup",
    "Customers on the {s} plan may upload files of up to {n} MB",
    "Errors of {s} are paged to the on-call engineer only above {n} a minute",
    "The {s} tests need the variable {u}_URL and fail without saying why",
    "{s} keeps its sessions for {n} hours; after that people sign in again",
)
TALK = (
    "Can we move the {s} release to Thursday? The migration is not reviewed yet.",
    "I looked at the {s} latency: p99 went from {n}0 ms to {n}00 ms after the index was dropped.",
    "Let us keep {s} on the old version until the customer has signed off.",
    "I prefer small pull requests, please split the {s} change into {d}.",
    "The {s} dashboard shows nothing since the rename, somebody should fix the query.",
    "Agreed. I will write down what we decided about {s} and close the ticket.",
)
HOSTILE = (
    '<script>alert("owned")</script><img src=x onerror=alert(1)>',
    "مرحبا \u202eevil\u202c هذا نص من اليمين إلى اليسار מימין לשמאל",
    "Averylongwordwithoutanyplacetobreak" * 9,
    "🦄🔥 emoji 👩‍👩‍👧‍👦 and a zero\u200bwidth space, ‘quotes’ & ampersands; DROP TABLE memory;--",
)


def fill(mem: Any, memories: int = 300, seed: int = 7, notes: Path | None = None) -> dict[str, str]:
    """Fill an open memory; gives the ids of something worth looking at."""
    chance = random.Random(seed)
    users = [mem.user.add(name, id=name, email=f"{name.lower()}@example.com") for name in PEOPLE]
    mem.user.revise(users[0].id, role="owner", password=PASSWORD)
    mem.user.revise(users[1].id, role="curator", password=PASSWORD)
    mem.user.revise(users[2].id, role="reader", password=PASSWORD)
    mem.user.revise(users[3].id, role="writer", password=PASSWORD)
    agents = [mem.agent.add(name, description=what, system=f"You are {name}. {what}.") for name, what in AGENTS]
    project = mem.project.add("Platform", owner=users[0].id, description="What everything runs on")
    sessions = [_conversation(mem, chance, users, agents, project.id) for _ in range(max(3, memories // 30))]
    facts = [_fact(mem, chance, agents, project.id) for _ in range(memories)]
    shown = _story(mem, notes)
    for one in HOSTILE:
        mem.user.add(one[:60], id=one[:60])
        mem.remember(one, author=one[:60], tags=[one[:20]], cites=[recollect.cite.user(one[:60], one)])
    _lived(mem, chance, facts)
    found = {"memory": shown, "session": sessions[0], "agent": agents[0].id, "user": users[0].id}
    return found | _more(mem, agents[0].id, sessions[0]) | _hostile(mem) | _data(mem, chance)


AGENTS = (
    ("Scribe", "Writes down what the team decides"),
    ("Watchman", "Watches the services and tells what changed"),
    ("Librarian", "Answers questions from what is remembered"),
)


def _filled(template: str, chance: random.Random) -> str:
    service = chance.choice(SERVICES)
    return template.format(s=service, u=service.upper(), n=chance.randint(2, 60), d=chance.randint(1, 5))


def _past(chance: random.Random, days: float = 40) -> datetime:
    return datetime.now(UTC) - timedelta(days=days * chance.random() ** 1.6)


def _conversation(mem: Any, chance: random.Random, users: Any, agents: Any, project: str) -> str:
    user, agent = chance.choice(users), chance.choice(agents)
    title = f"{chance.choice(SERVICES)}: {chance.choice(['release', 'incident', 'planning', 'review'])}"
    session = mem.session.add(title, user=user.id, agent=agent.id, project=project)
    began = _past(chance)
    for turn in range(chance.randint(4, 10)):
        mem.remember(
            {"text": _filled(chance.choice(TALK), chance), "role": "user" if turn % 2 else "assistant"},
            kind="conversation",
            session=session.id,
            author=chance.choice(PEOPLE),
            at=began + timedelta(minutes=turn * 3),
        )
    mem.session.end(session.id, summary=f"Agreed what to do about {title}.")
    return str(session.id)


def _fact(mem: Any, chance: random.Random, agents: Any, project: str) -> str:
    person = chance.choice(PEOPLE)
    cites = [recollect.cite.user(person, "said so in review")] if chance.random() < 0.7 else []
    made = mem.remember(
        _filled(chance.choice(FACTS), chance),
        kind=chance.choice(["fact", "fact", "fact", "observation", "reflection", "user_preference"]),
        author=person,
        agent=chance.choice(agents).id,
        project=project,
        cites=cites,
        tags=chance.sample(["deploy", "database", "on-call", "customer", "testing", "cost"], chance.randint(0, 3)),
        at=_past(chance),
        priority=chance.randint(1, 10),
    )
    return str(made.id)


def _story(mem: Any, notes: Path | None) -> str:
    """One memory with everything: several citations, a history, relations, one citation that broke."""
    cites = [recollect.cite.user("Priya", "measured it on Monday")]
    if notes is not None:
        notes.write_text("pool: 20\ntimeout: 30 s\n")
        cites.append(recollect.cite.file(str(notes), lines=(1, 2)))
    main = mem.remember("The billing pool has 20 connections and waits 10 s for one", cites=cites, tags=["database"])
    mem.revise(main.id, "The billing pool has 20 connections and waits 30 s for one", why="the time-out was raised")
    mem.promote(main.id, why="checked against the configuration")
    for text, link in (
        ("Billing ran out of connections on Black Friday", "explained_by"),
        ("The database allows 200 connections in all", "limited_by"),
        ("A pool of 50 made the database slower, not faster", "supports"),
        ("The pool should be as large as possible", "contradicts"),
        ("Time-outs are set per service", "part_of"),
    ):
        other = mem.remember(text, cites=[recollect.cite.user("Jonas", "from the incident report")])
        mem.relate(other.id, main.id, link)
    if notes is not None:
        notes.write_text("pool: 40\ntimeout: 30 s\n")
        mem.check(main.id)
    return str(main.id)


def _lived(mem: Any, chance: random.Random, facts: list[str]) -> None:
    """Some were verified or published, some put aside or forgotten, and people asked."""
    for id in facts:
        luck = chance.random()
        if luck < 0.35 and mem.show(id).citations and mem.show(id).status == "hypothesis":
            mem.promote(id)
            if luck < 0.1:
                mem.promote(id, to="published")
        elif luck > 0.97:
            mem.archive(id, why="no longer true")
        elif luck > 0.95:
            mem.forget(id, why="said twice")
    for service in SERVICES:
        mem.recall(f"what do we know about {service}?")


def _more(mem: Any, agent: str, session: str) -> dict[str, str]:
    """What only some installations have: blocks, tools, messages, workspaces, runs, patterns."""
    found: dict[str, str] = {}
    if "block.add" in OPERATIONS:
        mem.block.add("persona", "Scribe is brief, exact and kind.", agents=[agent])
        mem.block.add("human", "The team is five people in four time zones.", agents=[agent], limit=200)
        mem.tool.add("look_up", "Finds a page of the handbook", agents=[agent])
        mem.message.add("user", "What is the pool size of billing?", session=session)
        mem.message.add("assistant", "20 connections; it waits 30 s for one.", session=session)
    if "workspace.add" in OPERATIONS:
        space = mem.workspace.add(agent, "reports")
        mem.workspace.write(space.id, "weekly.md", "# Week 12\n\nBilling: stable.\nSearch: slow.\n")
        found["since"] = mem.workspace.snapshot(space.id, "draft").id
        mem.workspace.write(space.id, "weekly.md", "# Week 12\n\nBilling: stable.\nSearch: mended on Thursday.\n")
        mem.workspace.write(space.id, "figures.csv", "service,errors\nbilling,2\nsearch,41\n")
        found["workspace"] = space.id
    if "run.start" in OPERATIONS:
        found["run"] = _run(mem, agent)
        found |= _runs(mem, agent)
    if "episode.record" in OPERATIONS:
        for number, service in enumerate(SERVICES):
            task, plan = f"Restart the {service} service", [f"drain {service}", f"restart {service}", "watch errors"]
            mem.episode.record(task, number != 5, action_plan=plan)
        learned = mem.pattern.learn(alike=0.3)
        if learned.founded:
            found["pattern"] = learned.founded[0]
    if "summary.make" in OPERATIONS:
        mem.summary.make(session)
    return found


def _run(mem: Any, agent: str) -> str:
    run = mem.run.start("Write the weekly report", agent=agent)
    held = mem.run.claim("example")
    for tool, said in (("look_up", "Found the figures of week 12"), ("write_file", "Wrote weekly.md")):
        mem.run.propose(run.id, held.fence, tool=tool, arguments={"week": 12}, reasoning=f"{tool} comes next")
        mem.run.record(run.id, held.fence, outcome="success", summary=said)
    mem.run.pause(run.id)
    return str(run.id)


def _runs(mem: Any, agent: str) -> dict[str, str]:
    """A run that failed, one whose worker died amid a step, one rewound and forked, and two that wait for approval."""
    failed = mem.run.start("Mend the mailer that sends each letter twice", agent=agent)
    held = mem.run.claim("example", id=failed.id)
    mem.run.propose(failed.id, held.fence, tool="query", arguments={"table": "letters"}, reasoning="Look first")
    mem.run.record(failed.id, held.fence, outcome="error", summary="Refused", error={"message": "permission denied"})
    mem.run.fail(failed.id, held.fence, error={"message": "no permission on letters"}, note="needs a grant")
    asks = mem.run.start("Send the invoice of November", agent=agent)
    held = mem.run.claim("example", id=asks.id)
    mem.run.propose(asks.id, held.fence, tool="send_mail", arguments={"to": "customer"}, reasoning="It is due today")
    mem.run.release(asks.id, held.fence)
    mem.run.resume(asks.id)
    rewound = mem.run.start("Write the release notes", agent=agent)
    held = mem.run.claim("example", id=rewound.id)
    for number in range(4):
        mem.run.propose(rewound.id, held.fence, tool="write", arguments={"paragraph": number})
        mem.run.record(rewound.id, held.fence, outcome="success", summary=f"Wrote paragraph {number}")
    mem.run.release(rewound.id, held.fence)
    mem.run.rewind(rewound.id, 2, why="paragraph 3 is wrong", paused=True)
    mem.run.fork(rewound.id, after=1, why="another way")
    waiting = [mem.run.start(f"Refund order {number}", agent=agent, approve="tools") for number in (17, 18)]
    for run in waiting:
        held = mem.run.claim("example", id=run.id)
        arguments = {"order": run.goal.split()[-1], "euros": 40}
        mem.run.propose(run.id, held.fence, tool="refund", arguments=arguments, reasoning="It arrived broken")
    return {"failed": failed.id, "asks": asks.id, "rewound": rewound.id, "waiting": waiting[0].id}


MARKUP = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>{{7*7}}"


def _hostile(mem: Any) -> dict[str, str]:
    """Markup in every field that a page shows."""
    agent = mem.agent.add(MARKUP, description=MARKUP, system=MARKUP)
    session = mem.session.add(MARKUP, agent=agent.id)
    mem.message.add("user", MARKUP, session=session.id, name=MARKUP, tool_calls=[{"name": MARKUP}])
    mem.message.add("assistant", f"```\n{MARKUP}\n```", session=session.id)
    mem.block.add(MARKUP[:40], MARKUP, agents=[agent.id], description=MARKUP)
    mem.tool.add("markup", MARKUP, agents=[agent.id], tags=[MARKUP[:40]], json_schema={"description": MARKUP})
    space = mem.workspace.add(agent.id, MARKUP)
    mem.workspace.write(space.id, "a<b>&.md", MARKUP)
    taken = mem.workspace.snapshot(space.id, MARKUP)
    mem.workspace.write(space.id, "a<b>&.md", MARKUP * 2)
    run = mem.run.start(MARKUP, agent=agent.id)
    held = mem.run.claim(MARKUP[:20], id=run.id)
    mem.run.propose(run.id, held.fence, tool=MARKUP[:50], arguments={"a": MARKUP}, reasoning=MARKUP, plan=[MARKUP])
    mem.run.record(run.id, held.fence, outcome="error", summary=MARKUP, error={MARKUP: MARKUP})
    mem.run.fail(run.id, held.fence, error={MARKUP: MARKUP}, note=MARKUP)
    mem.user.add(MARKUP[:80], id=MARKUP[:60], email="markup@example.com")
    cites = [recollect.cite.user(MARKUP[:60], MARKUP), recollect.cite.url("https://example.com/?<b>", title=MARKUP)]
    content = {"text": MARKUP, "more": MARKUP}
    memory = mem.remember(content, metadata={MARKUP: MARKUP}, author=MARKUP[:60], tags=[MARKUP[:40]], cites=cites)
    mem.revise(memory.id, f"{MARKUP} changed", why=MARKUP)
    mem.relate(mem.remember(f"near {MARKUP}").id, memory.id, "supports")
    mem.key.add(MARKUP[:70])
    found = {"agents": agent.id, "sessions": session.id, "runs": run.id, "memories": memory.id}
    return {f"hostile {page}": id for page, id in (found | {"workspaces": f"{space.id}?since={taken.id}"}).items()}


def _data(mem: Any, chance: random.Random) -> dict[str, str]:
    """Files with a history, one with rows that cannot be read, one full of markup; and questions about them."""
    orders: list[list[object]] = [
        [number, f"{chance.choice((2024, 2025))}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
         chance.choice(("North", "South", "East", "West")), chance.choice(("Kettle", "Grinder", "Mug", "Scale")),
         chance.randint(1, 80), round(chance.lognormvariate(4, 0.7), 2), chance.choice(("", "ok", "call back", "很好"))]
        for number in range(1, 1501)
    ]  # fmt: skip
    columns: list[object] = ["order_id", "order_date", "region", "product", "customer_id", "amount", "comment"]
    customers = [[number, f"Customer {number}", chance.choice(("Berlin", "上海", "Lima"))] for number in range(1, 81)]
    with tempfile.TemporaryDirectory() as folder:
        _add(mem, Path(folder) / "customers.csv", [["customer_id", "name", "city"], *customers])
        _add(mem, Path(folder) / "sales.csv", [columns, *orders[:1200]])
        rows = [[*row, chance.choice(("web", "shop"))] for row in orders]
        sales = _add(mem, Path(folder) / "sales.csv", [[*columns, "channel"], *rows], description="Orders, a row each")
        wide: list[Sequence[object]] = [
            [f"measure_{number}" for number in range(200)],
            *([chance.random()] * 200 for _ in range(40)),
        ]
        _add(mem, Path(folder) / "wide.csv", wide)
        _add(mem, Path(folder) / "ragged.csv", [["a", "b"], *([n, 2 * n] for n in range(200)), [1, 2, 3, 4], [5, 6]])
        markup = _add(
            mem, Path(folder) / "markup.csv", [[f"the {MARKUP}", "n"], [MARKUP, 1], ["b", 2], ["c", 3]], name=MARKUP
        )
    question = "Total amount by region"
    run = mem.query.run("select region, sum(amount) as total from sales group by 1 order by 2 desc", question=question)
    hostile = mem.query.run(f'select * from "{markup.tables[0].name}"', question=MARKUP)
    asked = mem.ask("how many customers are there", sources=["customers"])
    ids = {"source": sales.id, "query": run.run, "asked": asked.run, "hostile sources": markup.id}
    return ids | {"markup query": hostile.run}


def _add(mem: Any, file: Path, rows: Sequence[Sequence[object]], **more: str) -> Any:
    with file.open("w", newline="", encoding="utf-8") as written:
        csv.writer(written).writerows(rows)
    return mem.source.add(str(file), **more)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "team.db")
    with recollect.open(target) as opened:
        print(fill(opened, notes=target.absolute().parent / "pool.yaml"))
    print(f"now: recollect serve {target}; sign in as maya@example.com with the password '{PASSWORD}'")
