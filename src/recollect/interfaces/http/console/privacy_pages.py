"""Pages for the privacy officer and the operator: a person's data, retention and legal holds, cold storage, backups.

What deletes something is previewed first and confirmed by typing.
"""

from __future__ import annotations

from recollect.errors import InvalidInput, NotFound
from recollect.interfaces.http.console.page_context import Page, PageContext, TemplateValues

LISTED_AT_ONCE, MOST_OFFERED = 50, 200
ACTIONS = ("archive", "forget", "erase", "cold")


def privacy(context: PageContext) -> TemplateValues:
    """Everything about one person, and the certificates of those who were erased."""
    user = context.query("user").strip()
    also = [name.strip() for name in context.query("also").split(",") if name.strip()]
    known = context.ask("user.list", limit=MOST_OFFERED)
    facts: TemplateValues = {"user": user, "also": also, "found": None, "problem": None}
    facts |= {"people": known.users if known is not None else []}
    if user:
        try:
            asked = {"user": user, "also": also, "limit": LISTED_AT_ONCE, "after": context.query("after")}
            facts["found"] = context.call("privacy.find", **asked)
        except (InvalidInput, NotFound) as error:
            facts["problem"] = error
    page = context.call("privacy.certificates", limit=LISTED_AT_ONCE, after=context.query("certificates_after"))
    return facts | {"certificates": page.certificates, "public_key": page.public_key, "next_certificates": page.next}


def retention(context: PageContext) -> TemplateValues:
    """The rules, what they would do now if somebody asks for it, and the legal holds that stop them."""
    released = "yes" if context.query("released") else "no"
    holds = context.ask("hold.list", released=released, limit=LISTED_AT_ONCE, after=context.query("after"))
    if holds is not None:
        context.learn_names(one.placed_by for one in holds.holds)
    return {
        "rules": context.call("retention.list").rules,
        "preview": context.call("retention.preview") if context.query("preview") else None,
        "holds": holds.holds if holds is not None else [],
        "next": holds.next if holds is not None else None,
        "released": released,
        "actions": ACTIONS,
    }


def cold(context: PageContext) -> TemplateValues:
    """Sessions in cold storage, or what was found in them where they are."""
    query = context.query("q").strip()
    facts: TemplateValues = {"q": query, "archives": [], "next": None, "bytes": 0, "found": None, "problem": None}
    try:
        if query:
            return facts | {"found": context.call("cold.search", query=query, limit=LISTED_AT_ONCE)}
        page = context.call("cold.list", limit=LISTED_AT_ONCE, after=context.query("after"))
        return facts | {"archives": page.archives, "next": page.next, "bytes": page.bytes}
    except (InvalidInput, NotFound) as error:
        return facts | {"problem": error}


def backups(context: PageContext) -> TemplateValues:
    """The backups with what was proven of them, and what is owed: a backup, a drill, traces to be overwritten."""
    page = context.call("backup.list", limit=LISTED_AT_ONCE, after=context.query("after"))
    diagnosis = context.ask("doctor", parts=["pending", "backups"])  # all of it reads the whole store
    return {
        "backups": page.backups,
        "next": page.next,
        "findings": [one for one in diagnosis.findings if one.name in ("backups", "erasure")] if diagnosis else [],
        "last_drill": max((one for one in page.backups if one.drill), key=lambda one: one.drilled_at, default=None),
    }


PAGES = (
    Page("/privacy", "privacy.html", "privacy.find", privacy),
    Page("/retention", "retention.html", "retention.preview", retention),
    Page("/cold", "cold.html", "cold.list", cold),
    Page("/backups", "backups.html", "backup.list", backups),
)
