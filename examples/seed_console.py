"""Fill a store with a believable team's memory, to look at the console with: python examples/seed_console.py team.db

It needs recollect[server] and recollect[data]. `--hostile` adds markup, controls and endless words in every field, to
see that the console shows them as text.

Then `recollect serve team.db`, and sign in as maya@example.com with the password `correct horse battery`.
"""

from __future__ import annotations

import csv
import json
import random
import sys
import tempfile
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import seed_hostile
from seed_texts import CORRECTED, FACTS, SERVICES, TALKS, WATCHED, Talk

import recollect

PASSWORD = "correct horse battery"
PEOPLE = {"Maya": "owner", "Jonas": "curator", "Priya": "reader", "Tomás": "writer", "Aiko": None}
AGENTS = (
    ("Scribe", "Writes down what the team decides"),
    ("Watchman", "Watches the services and tells what changed"),
    ("Librarian", "Answers questions from what is remembered"),
)
WEEKS = 6


def fill(
    mem: Any, memories: int = 200, seed: int = 7, notes: Path | None = None, *, hostile: bool = False
) -> dict[str, str]:
    """Fill an open memory; gives the ids of something worth looking at."""
    chance = random.Random(seed)
    for name, role in PEOPLE.items():
        mem.user.add(name, id=name, email=f"{name.lower()}@example.com")
        if role:
            mem.user.revise(name, role=role, password=PASSWORD)
    agents = {name: mem.agent.add(name, description=what, system=_system(name, what)).id for name, what in AGENTS}
    project = mem.project.add("Shop", owner="Maya", description="The shop and the services behind it").id
    sessions = _talked(mem, agents, project)
    facts = [*_kept(mem, sessions, agents, project), *_facts(mem, chance, agents, project)]
    facts += _watched(mem, chance, max(0, memories - len(facts)), agents["Watchman"], project)
    found = {"memory": _story(mem, notes), "session": _today(mem, agents["Scribe"], project)}
    found |= {"agent": agents["Scribe"], "user": "Maya"}
    _corrections(mem)
    _lived(mem, chance, facts)
    found |= _agents_work(mem, agents["Scribe"], found["session"])
    with tempfile.TemporaryDirectory() as folder:
        found |= _data(mem, chance, Path(folder))
        if hostile:
            found |= seed_hostile.fill(mem, Path(folder))
    return found


def _system(name: str, what: str) -> str:
    return f"You are {name}, one of the agents of a shop for coffee gear. {what}. Say what you rest on."


# -- what was said, over weeks ---------------------------------------------------------------------------------------


def _talked(mem: Any, agents: dict[str, str], project: str) -> dict[str, str]:
    """The conversations of the last weeks, as the export of a chat product has them: with their own dates."""
    exported = [_exported(talk) for talk in TALKS]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "conversations.json"
        file.write_text(json.dumps(exported), encoding="utf-8")
        mem.import_(str(file), source="claude")
    return {talk.title: one["uuid"] for talk, one in zip(TALKS, exported, strict=True)}


def _exported(talk: Talk) -> dict[str, Any]:
    began = _moment(talk)
    said = [
        {
            "uuid": _id(began + timedelta(minutes=2 * number)),
            "sender": "human" if who == talk.person else "assistant",
            "text": text,
            "created_at": (began + timedelta(minutes=2 * number)).isoformat(),
        }
        for number, (who, text) in enumerate(talk.said)
    ]
    times = {"created_at": began.isoformat(), "updated_at": said[-1]["created_at"]}
    return {"uuid": _id(began), "name": talk.title, "account": {"uuid": talk.person}, "chat_messages": said, **times}


def _id(at: datetime) -> str:
    """An id as the store would have made it then: lists are in the order of ids, the newest first."""
    random_part = uuid.uuid4().hex
    return str(uuid.UUID(f"{int(at.timestamp() * 1000):012x}7{random_part[:3]}b{random_part[3:18]}"))


def _moment(talk: Talk) -> datetime:
    today = datetime.now(UTC).replace(hour=8, minute=0, second=0, microsecond=0)
    return today - timedelta(days=talk.days_ago) + timedelta(minutes=37 * (talk.days_ago % 11))


def _kept(mem: Any, sessions: dict[str, str], agents: dict[str, str], project: str) -> list[str]:
    """What agents remembered of the conversations, each resting on the message that says it."""
    made = []
    for talk in TALKS:
        session, at = sessions[talk.title], _moment(talk) + timedelta(minutes=20)
        messages = mem.message.list(session=session).messages
        for number, (kind, tags, text) in enumerate(talk.kept):
            rests_on = messages[-1 - number]
            cites = [recollect.cite.log(rests_on.id, context=rests_on.text[:120])]
            cites += [recollect.cite.user(talk.person, "decided in the conversation")] if number == 0 else []
            fields = {"session": session, "agent": agents[talk.agent], "user": talk.person, "project": project}
            given = {"kind": kind, "tags": tags.split(", "), "cites": cites, "author": talk.agent}
            one = mem.remember(text, **given, **fields, **_dated(at), priority=7 - number)
            made.append(str(one.id))
        mem.relate(made[-1], made[-2], "supports")
    return made


def _facts(mem: Any, chance: random.Random, agents: dict[str, str], project: str) -> list[str]:
    made = []
    for number, (kind, person, tags, text) in enumerate(FACTS):
        at = _past(chance)
        cites = [recollect.cite.user(person, "said so in review")] if number % 4 else []
        agent = list(agents.values())[number % len(agents)]
        fields = {"author": person, "agent": agent, "project": project, "tags": tags.split(", ")}
        one = mem.remember(text, kind=kind, cites=cites, priority=1 + number % 10, **_dated(at), **fields)
        made.append(str(one.id))
    return made


def _watched(mem: Any, chance: random.Random, number: int, agent: str, project: str) -> list[str]:
    """What an agent noted of the services, day by day; somebody confirmed a part of it."""
    noted = []
    for at in sorted(_past(chance) for _ in range(number)):
        service, template = chance.choice(SERVICES), chance.choice(WATCHED)
        text = template.format(service=service, n=chance.randint(40, 900), p=chance.randint(2, 60), day=f"{at:%d %B}")
        cites = [recollect.cite.user("Jonas", "seen on the dashboard")] if chance.random() < 0.5 else []
        more = {"author": "Watchman", "agent": agent, "project": project, "tags": [service], "cites": cites}
        noted.append({"content": text, "kind": "observation", "priority": 4, **_dated(at), **more})
    return [str(one.id) for one in mem.remember_many(noted).receipts] if noted else []


def _dated(at: datetime) -> dict[str, object]:
    return {"at": at, "created_at": at, "id": _id(at)}


def _past(chance: random.Random) -> datetime:
    """Some time of the last weeks, more of it lately, in working hours."""
    day = datetime.now(UTC) - timedelta(days=1 + 7 * WEEKS * chance.random() ** 1.6)
    return day.replace(hour=chance.randint(7, 17), minute=chance.randint(0, 59))


# -- what was believed, checked and corrected ------------------------------------------------------------------------


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


def _corrections(mem: Any) -> None:
    """What turned out to be wrong: replaced by what is true, which keeps the link to it."""
    for person, before, after, why in CORRECTED:
        said = recollect.cite.user(person, why)
        old = mem.remember(before, author=person, cites=[said], tags=["corrected"])
        new = mem.remember(after, author=person, cites=[said], supersedes=old.id, metadata={"why": why})
        mem.relate(new.id, old.id, "contradicts")


def _lived(mem: Any, chance: random.Random, facts: list[str]) -> None:
    """Some were verified or published, some put aside or forgotten, and people asked."""
    cited = {one.memory for one in mem.citation.list(memories=facts[:1000], limit=1000).citations}
    for id in facts:
        luck = chance.random()
        if luck < 0.35 and id in cited:
            mem.promote(id)
            if luck < 0.1:
                mem.promote(id, to="published")
        elif luck > 0.97:
            mem.archive(id, why="no longer true")
        elif luck > 0.95:
            mem.forget(id, why="said twice")
    for service in SERVICES:
        mem.recall(f"what do we know about {service}?")


# -- what agents do --------------------------------------------------------------------------------------------------


def _today(mem: Any, agent: str, project: str) -> str:
    """The conversation of this morning, with the agent that has tools."""
    session = mem.session.add("Billing: how large the pool is", user="Maya", agent=agent, project=project).id
    mem.message.add("user", "What is the pool size of billing?", session=session, name="Maya")
    mem.message.add("assistant", "20 connections; it waits 30 s for one.", session=session, name="Scribe")
    mem.message.add("user", "And who decided that?", session=session, name="Maya")
    said = "Priya measured it after Black Friday: with 50 the database was slower."
    mem.message.add("assistant", said, session=session, name="Scribe", tool_calls=[{"name": "look_up"}])
    text = "Maya asks who decided a limit, not only what it is"
    mem.remember(text, kind="user_preference", session=session, author="Scribe", user="Maya")
    mem.session.end(session, summary="Maya asked for the pool of billing and who decided its size.")
    return str(session)


def _agents_work(mem: Any, agent: str, session: str) -> dict[str, str]:
    mem.block.add("persona", "Scribe is brief, exact and kind.", agents=[agent])
    mem.block.add("human", "The team is five people in four time zones.", agents=[agent], limit=200)
    mem.tool.add("look_up", "Finds a page of the handbook", agents=[agent])
    space = mem.workspace.add(agent, "reports")
    mem.workspace.write(space.id, "weekly.md", "# Week 12\n\nBilling: stable.\nSearch: slow.\n")
    found = {"since": mem.workspace.snapshot(space.id, "draft").id, "workspace": space.id}
    mem.workspace.write(space.id, "weekly.md", "# Week 12\n\nBilling: stable.\nSearch: mended on Thursday.\n")
    mem.workspace.write(space.id, "figures.csv", "service,errors\nbilling,2\nsearch,41\n")
    _finished(mem, agent)
    found |= {"run": _run(mem, agent, session)} | _troubled_runs(mem, agent)
    for number, service in enumerate(SERVICES):
        task, plan = f"Restart the {service} service", [f"drain {service}", f"restart {service}", "watch errors"]
        mem.episode.record(task, number != 5, action_plan=plan)
    learned = mem.pattern.learn(alike=0.3)
    if learned.founded:
        found["pattern"] = learned.founded[0]
    mem.summary.make(session)
    return found


def _finished(mem: Any, agent: str) -> None:
    """Runs that went well: what most of them look like."""
    for goal, steps in (
        ("Answer the letters about the grinder that is back", ("read_letters", "look_up", "send_mail")),
        ("Compare the indexes of orders with those from before", ("query", "query", "write_file")),
        ("Tell Priya when exports are read only", ("send_message",)),
    ):
        run = mem.run.start(goal, agent=agent)
        held = mem.run.claim("worker-1", id=run.id)
        for number, tool in enumerate(steps, 1):
            mem.run.propose(run.id, held.fence, tool=tool, arguments={"part": number}, reasoning="Next of the plan")
            mem.run.record(run.id, held.fence, outcome="success", summary=f"{tool} worked", seconds=1.5 * number)
        mem.run.finish(run.id, held.fence, result={"done": goal}, summary=f"Done: {goal}")


def _run(mem: Any, agent: str, session: str) -> str:
    run = mem.run.start("Write the weekly report", agent=agent, session=session)
    held = mem.run.claim("worker-1", id=run.id)
    for tool, said in (("look_up", "Found the figures of week 12"), ("write_file", "Wrote weekly.md")):
        mem.run.propose(run.id, held.fence, tool=tool, arguments={"week": 12}, reasoning=f"{tool} comes next")
        mem.run.record(run.id, held.fence, outcome="success", summary=said)
    mem.run.pause(run.id)
    return str(run.id)


def _troubled_runs(mem: Any, agent: str) -> dict[str, str]:
    """A run that failed, one whose worker died amid a step, one rewound and forked, and two that wait for approval."""
    failed = mem.run.start("Mend the mailer that sends each letter twice", agent=agent)
    held = mem.run.claim("worker-2", id=failed.id)
    mem.run.propose(failed.id, held.fence, tool="query", arguments={"table": "letters"}, reasoning="Look first")
    mem.run.record(failed.id, held.fence, outcome="error", summary="Refused", error={"message": "permission denied"})
    mem.run.fail(failed.id, held.fence, error={"message": "no permission on letters"}, note="needs a grant")
    asks = mem.run.start("Send the invoice of November", agent=agent)
    held = mem.run.claim("worker-2", id=asks.id)
    mem.run.propose(asks.id, held.fence, tool="send_mail", arguments={"to": "customer"}, reasoning="It is due today")
    mem.run.release(asks.id, held.fence)
    mem.run.resume(asks.id)
    rewound = mem.run.start("Write the release notes", agent=agent)
    held = mem.run.claim("worker-2", id=rewound.id)
    for number in range(4):
        mem.run.propose(rewound.id, held.fence, tool="write", arguments={"paragraph": number})
        mem.run.record(rewound.id, held.fence, outcome="success", summary=f"Wrote paragraph {number}")
    mem.run.release(rewound.id, held.fence)
    mem.run.rewind(rewound.id, 2, why="paragraph 3 is wrong", paused=True)
    mem.run.fork(rewound.id, after=1, why="another way")
    waiting = [mem.run.start(f"Refund order {number}", agent=agent, approve="tools") for number in (17, 18)]
    for run in waiting:
        held = mem.run.claim("worker-2", id=run.id)
        arguments = {"order": run.goal.split()[-1], "euros": 40}
        mem.run.propose(run.id, held.fence, tool="refund", arguments=arguments, reasoning="It arrived broken")
    return {"failed": failed.id, "asks": asks.id, "rewound": rewound.id, "waiting": waiting[0].id}


# -- what is in its tables -------------------------------------------------------------------------------------------


def _data(mem: Any, chance: random.Random, folder: Path) -> dict[str, str]:
    """Files with a history, one with rows that cannot be read, one that is very wide; and questions about them."""
    orders: list[list[object]] = [
        [number, f"{chance.choice((2024, 2025))}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
         chance.choice(("North", "South", "East", "West")), chance.choice(("Kettle", "Grinder", "Mug", "Scale")),
         chance.randint(1, 80), round(chance.lognormvariate(4, 0.7), 2), chance.choice(("", "ok", "call back", "很好"))]
        for number in range(1, 1501)
    ]  # fmt: skip
    columns: list[object] = ["order_id", "order_date", "region", "product", "customer_id", "amount", "comment"]
    customers = [[number, f"Customer {number}", chance.choice(("Berlin", "上海", "Lima"))] for number in range(1, 81)]
    _add(mem, folder / "customers.csv", [["customer_id", "name", "city"], *customers])
    _add(mem, folder / "sales.csv", [columns, *orders[:1200]])
    rows = [[*row, chance.choice(("web", "shop"))] for row in orders]
    sales = _add(mem, folder / "sales.csv", [[*columns, "channel"], *rows], description="Orders, a row each")
    wide: list[Sequence[object]] = [[f"measure_{number}" for number in range(200)]]
    wide += [[chance.random()] * 200 for _ in range(40)]
    _add(mem, folder / "wide.csv", wide)
    _add(mem, folder / "ragged.csv", [["a", "b"], *([n, 2 * n] for n in range(200)), [1, 2, 3, 4], [5, 6]])
    question = "Total amount by region"
    run = mem.query.run("select region, sum(amount) as total from sales group by 1 order by 2 desc", question=question)
    mem.query.remember(run.run)
    asked = mem.ask("how many customers are there", sources=["customers"])
    return {"source": sales.id, "query": run.run, "asked": asked.run}


def _add(mem: Any, file: Path, rows: Sequence[Sequence[object]], **more: str) -> Any:
    with file.open("w", newline="", encoding="utf-8") as written:
        csv.writer(written).writerows(rows)
    return mem.source.add(str(file), **more)


if __name__ == "__main__":
    arguments = [one for one in sys.argv[1:] if one != "--hostile"]
    if any(one.startswith("-") for one in arguments):
        sys.exit(__doc__)
    target = Path(arguments[0] if arguments else "team.db")
    with recollect.open(target) as opened:
        fill(opened, notes=target.absolute().parent / "pool.yaml", hostile="--hostile" in sys.argv)
    print(f"now: recollect serve {target}; sign in as maya@example.com with the password '{PASSWORD}'")
