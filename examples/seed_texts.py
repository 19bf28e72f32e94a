"""What the team of seed_console.py talks about: a shop for coffee gear, and what was learned of it."""

from __future__ import annotations

from typing import NamedTuple


class Talk(NamedTuple):
    """A conversation: who had it with which agent how many days ago, and what was remembered of it."""

    days_ago: int
    title: str
    person: str
    agent: str
    said: tuple[tuple[str, str], ...]
    kept: tuple[tuple[str, str, str], ...]
    """(kind, tags, text)"""


TALKS = (
    Talk(41, "Checkout: why carts were empty", "Jonas", "Watchman", (
        ("Jonas", "Three customers wrote that their cart was empty after they signed in. Is that us?"),
        ("Watchman", "Likely. Carts of guests are keyed by the session cookie, and signing in makes a new one."),
        ("Jonas", "So we copy the cart before the old cookie goes?"),
        ("Watchman", "Yes: gateway has both ids in that request. After it, nobody can tell whose cart it was."),
        ("Jonas", "I will do it in gateway, then, and keep guest carts for 30 days."),
    ), (
        ("fact", "checkout, gateway", "Signing in makes a new session cookie; gateway copies the guest's cart first"),
        ("fact", "checkout", "Carts of guests are kept for 30 days, then deleted"),
    )),
    Talk(36, "Index for order search", "Priya", "Librarian", (
        ("Priya", "Order search takes four seconds for support. What did we try before?"),
        ("Librarian", "In spring an index on (customer_id, created_at). It was dropped with the partitioning in June."),
        ("Priya", "Nobody put it back on the partitions?"),
        ("Librarian", "No memory says so, and the schema of 3 October has none."),
        ("Priya", "Then that is it. I add it per partition, concurrently, starting with the newest."),
    ), (
        ("fact", "search, database", "The index on orders (customer_id, created_at) was lost with the partitioning"),
        ("reflection", "database", "After partitioning a table, compare its indexes with those from before"),
    )),
    Talk(30, "How Aiko likes reviews", "Aiko", "Scribe", (
        ("Aiko", "Please split large changes; I cannot review more than 300 lines well."),
        ("Scribe", "Noted. Shall I suggest a split when a pull request is larger?"),
        ("Aiko", "Yes, and put the tests into the same commit as what they test."),
    ), (
        ("user_preference", "review", "Aiko reviews pull requests of at most 300 lines; larger ones should be split"),
        ("user_preference", "review, testing", "Aiko wants tests in the same commit as the code they test"),
    )),
    Talk(24, "Black Friday: what load to expect", "Maya", "Librarian", (
        ("Maya", "How much traffic did we have on Black Friday last year?"),
        ("Librarian", "2,140 requests a second, eleven times a usual evening. Billing ran out of connections."),
        ("Maya", "And the pool was 20 then, too?"),
        ("Librarian", "It was 50. A pool of 50 made the database slower, not faster; 20 came after the incident."),
        ("Maya", "Good that it is written down. We load test at 3,000 a second, two weeks before."),
    ), (
        ("fact", "load", "Black Friday 2025 peaked at 2,140 requests a second at 20:10 UTC"),
        ("fact", "load, testing", "The load test runs at 3,000 requests a second, two weeks before Black Friday"),
    )),
    Talk(17, "Refunds that need a second look", "Tomás", "Scribe", (
        ("Tomás", "An agent refunded 400 euros yesterday without asking. Above what amount do we want to decide?"),
        ("Scribe", "The policy of the finance team says 50 euros; nothing enforces it for agents."),
        ("Tomás", "Then every refund of an agent waits for approval until that is built."),
        ("Scribe", "I start refunds with approval for tools from now on."),
    ), (
        ("fact", "refunds, policy", "Refunds by agents wait for a person's approval, whatever the amount"),
        ("fact", "refunds, policy", "Finance wants to decide about refunds above 50 euros"),
    )),
    Talk(11, "Mailer sends letters twice", "Jonas", "Watchman", (
        ("Jonas", "Twelve customers got the same invoice twice on Monday."),
        ("Watchman", "Mailer was restarted at 09:14. A letter is marked as sent after the answer; 12 were in flight."),
        ("Jonas", "So we need a key per letter that the provider knows."),
        ("Watchman", "The provider takes an Idempotency-Key and keeps it for 24 hours."),
        ("Jonas", "Perfect, we use the id of the letter."),
    ), (
        ("fact", "mailer", "Mailer marks a letter as sent after the answer; a restart sends those in flight again"),
        ("fact", "mailer", "The mail provider keeps an Idempotency-Key for 24 hours"),
    )),
    Talk(6, "Moving the release to Thursday", "Maya", "Scribe", (
        ("Maya", "Can we move the release of the service for exports to Thursday? The migration is not reviewed yet."),
        ("Scribe", "Thursday is free. Release of search is on Wednesday; both need the migration job."),
        ("Maya", "Then search first. Tell Priya that exports are read only on Thursday from 05:00 to 06:00 UTC."),
        ("Scribe", "Told her, and it is in the calendar of the team."),
    ), (
        ("fact", "release", "The release of the export service is on Thursday, after that of search on Wednesday"),
        ("observation", "release, export", "Exports are read only on Thursday from 05:00 to 06:00 UTC"),
    )),
    Talk(2, "Grinder that is always out of stock", "Tomás", "Librarian", (
        ("Tomás", "The small grinder shows as out of stock, but there are 40 in the warehouse."),
        ("Librarian", "Ingest reads the warehouse file. Since Saturday it has a new column before `sku`."),
        ("Tomás", "And ingest reads columns by position?"),
        ("Librarian", "By position, yes. Profile and search read by name, so only stock is wrong."),
        ("Tomás", "I open a ticket for Jonas and tell the customers that it is back."),
    ), (
        ("fact", "ingest, stock", "Ingest reads the columns of the warehouse file by position"),
        ("observation", "ingest, stock", "Since Saturday the warehouse file has a new column before sku"),
    )),
)  # fmt: skip

FACTS = (
    ("fact", "Jonas", "billing, database", "The billing service talks to PostgreSQL through a pool of 20 connections"),
    ("fact", "Priya", "search, database", "The search service talks to PostgreSQL through a pool of 12 connections"),
    ("fact", "Jonas", "deploy", "Deploys of billing wait for the migration job, which takes about 6 minutes"),
    ("fact", "Aiko", "deploy, frontend", "The shop front is cached for 60 seconds; a deploy is seen a minute later"),
    ("fact", "Jonas", "mailer", "Mailer retries a failed call 5 times, then writes to the dead letter queue"),
    ("fact", "Priya", "export", "The nightly export runs at 02:30 UTC and must not overlap with the backup at 03:00"),
    ("fact", "Maya", "on-call", "Errors of gateway page the on-call engineer only above 20 a minute"),
    ("fact", "Maya", "on-call", "On-call changes hands on Tuesday at 10:00 UTC"),
    ("fact", "Priya", "testing", "The tests of ingest need the variable INGEST_URL and fail without saying why"),
    ("fact", "Aiko", "frontend", "Safari 17 ignores the second font; headings fall back to the system font there"),
    ("fact", "Tomás", "customer, policy", "Wholesale customers pay within 30 days, everybody else at once"),
    ("fact", "Tomás", "customer", "Customers may upload pictures of a broken part up to 12 MB"),
    ("fact", "Priya", "cost, database", "Analytics queries cost 310 euros a month since they run on the replica"),
    ("fact", "Maya", "policy", "Customer data stays in the region of the customer; exports follow the same rule"),
    ("user_preference", "Maya", "review", "Maya reads release notes on her phone: short lines, no tables"),
    ("user_preference", "Jonas", "testing", "Jonas prefers integration tests against a real PostgreSQL to mocks"),
    ("user_preference", "Tomás", "customer", "Tomás wants answers in the customer's language, with a first name"),
    ("reflection", "Priya", "database", "Most slow queries of this quarter had lost an index, not outgrown one"),
    ("reflection", "Maya", "on-call", "Two of five pages were about certificates; they must renew by themselves"),
    ("reflection", "Jonas", "mailer", "Anything sent to the outside world needs a key that makes it safe to repeat"),
    ("reflection", "Aiko", "frontend", "Empty states are seen by every new customer and were reviewed by none of us"),
    ("reflection", "Tomás", "customer", "Customers forgive a late parcel when they hear about it before they ask"),
    ("fact", "Priya", "gateway", "Gateway keeps sign-ins for 12 hours; after that people sign in again"),
    ("fact", "Jonas", "scheduler", "Scheduler runs on one machine; a second one would run every job twice"),
    ("fact", "Maya", "release", "A release needs two approvals, one of them by somebody who is on call"),
)  # fmt: skip

CORRECTED = (
    ("Priya", "Analytics queries run on the primary", "Analytics queries run on the replica", "moved last week"),
    ("Jonas", "Scheduler keeps its jobs in Redis", "Scheduler keeps its jobs in PostgreSQL", "Redis was shut down"),
    ("Maya", "On-call changes hands on Monday", "On-call changes hands on Tuesday at 10:00 UTC", "agreed in the retro"),
)
"""(who, what was believed, what is true, why)"""

SERVICES = ("billing", "search", "ingest", "gateway", "mailer", "scheduler", "export", "profile")
WATCHED = (
    "p95 of {service} was {n} ms on {day}, {p}% above the week before",
    "{service} had {p} errors in an hour on {day}, all after its deploy",
    "{service} used {p}% of its memory limit on {day}",
    "The queue of {service} was {n} jobs long at noon on {day}",
)
"""What the agent that watches the services writes down, a few each day."""
