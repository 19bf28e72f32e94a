"""Every operation of Recollect, one line each: client, command line, HTTP and MCP follow from it.

A line gives the name, where the function lives, the permission it needs, its HTTP route, which field may be given
without its name, and what it does in one sentence. The request and reply types are read off the function. To add
an operation, write the function in a service and one line here.

A name with a dot belongs to a group: `run.show` is `mem.run.show(...)` and `recollect run show`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, get_type_hints
from warnings import warn

if TYPE_CHECKING:
    from pydantic import BaseModel

    from recollect.services.requests import Reply, Request
    from recollect.services.tenant import Core, Tenant
    from recollect.services.times import RequestTimeZone

Flag = Literal["progress", "local", "unlogged", "takes_password", "needs_confirmation"]
"""The attributes of an operation that are true; `Operation` says what each means."""
Permission = Literal["read", "write", "govern", "delete", "admin", "operate"]


@dataclass(frozen=True)
class Operation:
    name: str
    home: str
    permission: Permission
    route: str
    positional: tuple[str, ...]
    summary: str
    progress: bool = False
    """It may take long, and reports how far it is."""
    local: bool = False
    """It reads or writes files on the caller's own machine, so it is not offered over HTTP or MCP."""
    unlogged: bool = False
    """Its success is not in the access log, since what it writes already says who did it and when."""
    takes_password: bool = False
    """Few attempts a minute are allowed, so that nobody guesses the password."""
    needs_confirmation: bool = False
    """The command line shows its dry run first, and asks."""
    package: ClassVar[str] = "recollect.services"

    @cached_property
    def function(self) -> Any:
        module, _, name = self.home.partition(":")
        return getattr(import_module(f"{self.package}.{module}"), name)

    @cached_property
    def request(self) -> type[Request]:
        request: type[Request] = get_type_hints(self.function)["request"]
        return request

    @cached_property
    def reply(self) -> type[Reply]:
        reply: type[Reply] = get_type_hints(self.function)["return"]
        return reply

    @property
    def group(self) -> str:
        """The group it belongs to, such as `run`; empty for the operations on memories."""
        return self.name.rpartition(".")[0]

    @property
    def verb(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def access(self) -> Literal["create", "read", "update", "delete"]:
        """What the access log calls it."""
        method, _, path = self.route.partition(" ")
        if method == "GET" or (method == "POST" and self.permission == "read"):
            return "read"
        if method == "DELETE" or self.permission == "delete":
            return "delete"
        return "create" if method == "POST" and "{" not in path else "update"

    @property
    def only_reads(self) -> bool:
        """It changes nothing in a store, unless it is told to mend what it finds."""
        return self.access == "read" or self.name in _LOOKING

    @property
    def reads_data(self) -> bool:
        """It may wait long for files and for the processes that read them; the service gives such work threads of its
        own."""
        return self.home.startswith("data.")

    @property
    def command(self) -> str:
        return self.name.rstrip("_").replace("_", "-").replace(".", " ")


_LOOKING = frozenset({"audit.verify", "doctor", "export", "privacy.find", "privacy.verify", "sql", "verify"})
"""Operations that are asked by POST and need more than permission to read, and change nothing all the same."""


def _op(
    name: str, home: str, permission: Permission, route: str, positional: str, summary: str, *flags: Flag
) -> Operation:
    given = dict.fromkeys(flags, True)
    return Operation(name, home, permission, route, tuple(positional.split()), summary, **given)


_LINES = (
    _op("remember", "memories.remember:remember", "write", "POST /memories", "content", "Store a memory with its citations."),
    _op("remember_many", "memories.remember:remember_many", "write", "POST /memories/batch", "memories", "Store many memories at once: all or none.", "progress"),
    _op("recall", "recall.recall:recall", "read", "POST /recall", "query", "Find memories by words and meaning, with the reasons for each hit."),
    _op("context", "recall.context:context", "read", "POST /context", "query", "Pack recalled memories into a prompt, within a token budget."),
    _op("why_not", "recall.why_not:why_not", "read", "POST /recall/why-not", "query id", "Explain why a memory is not in an answer."),
    _op("show", "recall.browse:show", "read", "GET /memories/{id}", "id", "Show one memory with its citations, tags and links."),
    _op("list", "recall.browse:list_memories", "read", "GET /memories", "", "List memories, newest first or in another order."),
    _op("review.list", "recall.review:review", "read", "GET /review", "reason", "List hypotheses to review, the most urgent first, with the reasons."),
    _op("revise", "memories.revise:revise", "write", "PATCH /memories/{id}", "id content", "Change a memory; its history keeps the previous version."),
    _op("history", "memories.lifecycle:history", "read", "GET /memories/{id}/history", "id", "Show every version of a memory."),
    _op("relate", "memories.relations:relate", "write", "POST /memories/{id}/links", "id to type", "Link one memory to another."),
    _op("unrelate", "memories.relations:unrelate", "write", "DELETE /memories/{id}/links", "id to type", "Delete a link between two memories."),
    _op("relations", "memories.relations:relations", "read", "GET /relations", "of", "List the links between memories, newest first."),
    _op("relations.graph", "recall.linked:graph", "read", "GET /relations/graph", "of", "Show the memories around one, and the links between them."),
    _op("tag.add", "memories.tags:add_tags", "write", "POST /memories/{id}/tags", "id tags", "Add tags to a memory."),
    _op("tag.remove", "memories.tags:remove_tags", "write", "DELETE /memories/{id}/tags", "id tags", "Remove tags from a memory."),
    _op("tag.list", "memories.tags:list_tags", "read", "GET /tags", "prefix", "List tags by name, with the number of their memories."),
    _op("tag.rename", "memories.tags:rename_tag", "write", "POST /tags/rename", "tag to", "Rename a tag on every memory that has it."),
    _op("cite", "trust.governance:cite_memory", "write", "POST /memories/{id}/citations", "id cites", "Add citations to a memory."),
    _op("confirm", "trust.confirmation:confirm", "write", "POST /memories/{id}/citations/{citation}/confirm", "id citation", "Confirm that you said what a memory cites you for."),
    _op("uncite", "trust.governance:uncite", "govern", "DELETE /memories/{id}/citations/{citation}", "id citation", "Remove a citation from a memory."),
    _op("citation.list", "trust.citations:list_citations", "read", "GET /citations", "state", "List citations with their memories, newest first."),
    _op("check", "trust.governance:check", "govern", "POST /check", "id", "Check citations again; a memory with a broken one is demoted."),
    _op("promote", "trust.governance:promote", "govern", "POST /memories/{id}/promote", "id to", "Mark a memory as verified or published, if its citations hold."),
    _op("demote", "trust.governance:demote", "govern", "POST /memories/{id}/demote", "id", "Make a memory a hypothesis again."),
    _op("archive", "trust.governance:archive", "govern", "POST /memories/{id}/archive", "id", "Archive a memory: it is kept, but no longer recalled."),
    _op("merge", "trust.merge:merge", "govern", "POST /memories/{id}/merge", "id others", "Merge memories that say the same thing into one."),
    _op("unmerge", "trust.merge:unmerge", "govern", "POST /memories/{id}/unmerge", "id", "Undo a merge and bring the merged memory back."),
    _op("roll_back", "trust.governance:roll_back", "govern", "POST /roll-back", "source", "Archive every memory that depends on a source."),
    _op("forget", "memories.lifecycle:forget", "delete", "POST /memories/{id}/forget", "id", "Forget a memory; it can be restored."),
    _op("restore", "memories.lifecycle:restore", "delete", "POST /memories/{id}/restore", "id", "Restore a forgotten memory."),
    _op("erase", "memories.lifecycle:erase", "delete", "DELETE /memories/{id}", "id", "Delete a memory for good and overwrite its traces on disk."),
    _op("forget_many", "admin.bulk_changes:forget_many", "delete", "POST /memories/forget", "", "Forget every memory that passes a filter; each can be restored.", "progress", "needs_confirmation"),
    _op("erase_many", "admin.bulk_changes:erase_many", "delete", "POST /memories/erase", "", "Delete every memory that passes a filter for good.", "progress", "needs_confirmation"),
    _op("archive_many", "admin.bulk_changes:archive_many", "govern", "POST /memories/archive", "", "Archive every memory that passes a filter.", "progress", "needs_confirmation"),
    _op("promote_many", "admin.bulk_changes:promote_many", "govern", "POST /memories/promote", "", "Promote every memory that passes a filter, if its citations hold.", "progress", "needs_confirmation"),
    _op("demote_many", "admin.bulk_changes:demote_many", "govern", "POST /memories/demote", "", "Demote every memory that passes a filter.", "progress", "needs_confirmation"),
    _op("sweep", "admin.expiry:sweep", "delete", "POST /sweep", "", "Delete everything that has expired."),
    _op("prune", "memories.lifecycle:prune", "delete", "POST /prune", "", "Forget the memories that are least worth keeping."),
    _op("cold.store", "cold.store_sessions:store", "admin", "POST /cold/store", "", "Move old sessions to cold storage: compressed files in a folder or bucket.", "progress"),
    _op("cold.list", "cold.archives:list_archives", "read", "GET /cold", "", "List the sessions in cold storage, newest first."),
    _op("cold.show", "cold.archives:show", "read", "GET /cold/{id}", "id", "Show a session in cold storage, and check its files."),
    _op("cold.search", "cold.search:search", "read", "POST /cold/search", "query", "Find words in cold storage, without restoring anything."),
    _op("cold.restore", "cold.restore_sessions:restore", "admin", "POST /cold/{id}/restore", "id", "Restore a session from cold storage, as it was."),
    _op("retention.set", "retention.rules:set_rule", "admin", "POST /retention", "", "Store a retention rule: what to keep for how long, and what happens then."),
    _op("retention.list", "retention.rules:list_rules", "read", "GET /retention", "", "List the retention rules, the most specific first."),
    _op("retention.remove", "retention.rules:remove_rule", "admin", "DELETE /retention/{id}", "id", "Remove a stored retention rule."),
    _op("retention.preview", "retention.application:preview", "admin", "GET /retention/preview", "rule", "Show what the retention rules would do now, and why."),
    _op("retention.apply", "retention.application:apply", "admin", "POST /retention/apply", "rule", "Apply the retention rules now."),
    _op("hold.place", "retention.holds:place", "admin", "POST /holds", "", "Put a user, agent, session or project on legal hold."),
    _op("hold.list", "retention.holds:list_holds", "admin", "GET /holds", "", "List legal holds, newest first."),
    _op("hold.release", "retention.holds:release", "admin", "POST /holds/{id}/release", "id", "Release a legal hold."),
    _op("episode.record", "learning.episodes:record_episode", "write", "POST /episodes", "task success", "Record a task that was tried, and how it went."),
    _op("episode.from_run", "learning.episodes:episode_from_run", "write", "POST /episodes/from-run", "run", "Record a run as an episode that cites it."),
    _op("pattern.learn", "learning.patterns:learn", "write", "POST /patterns/learn", "", "Learn patterns from episodes.", "progress"),
    _op("pattern.suggest", "learning.pattern_use:suggest", "read", "POST /patterns/suggest", "task", "Suggest patterns for a task, by meaning and success rate."),
    _op("pattern.show", "learning.pattern_use:show_pattern", "read", "GET /patterns/{id}", "id", "Show a pattern with the evidence for and against it."),
    _op("pattern.apply", "learning.pattern_use:apply", "write", "POST /patterns/{id}/apply", "id task", "Apply a pattern to a task: fill in its template."),
    _op("pattern.report", "learning.pattern_use:report", "write", "POST /applications/{application}/report", "application success", "Report whether an applied pattern worked."),
    _op("summary.make", "learning.rollup:make", "write", "POST /summaries", "session", "Summarise part of a session, or some memories."),
    _op("summary.roll_up", "learning.rollup:roll_up", "write", "POST /summaries/roll-up", "", "Write every summary that is due, lowest level first.", "progress"),
    _op("summary.show", "learning.summaries:show_summary", "read", "GET /summaries/{id}", "id", "Show a summary and what it covers."),
    _op("summary.tree", "learning.summary_tree:tree", "read", "GET /summary-tree", "", "Show summaries as a tree, from the top down."),
    _op("summary.undo", "learning.summaries:undo", "write", "DELETE /summaries/{id}", "id", "Delete a summary; what it covers is kept."),
    _op("run.list", "runs.history:runs", "read", "GET /runs", "", "List runs of agents, newest first."),
    _op("run.start", "runs.start:start", "write", "POST /runs", "goal", "Queue a task for an agent; a worker picks it up."),
    _op("run.show", "runs.history:show", "read", "GET /runs/{id}", "id", "Show the status and steps of a run."),
    _op("run.claim", "runs.queue:claim", "write", "POST /runs/claim", "worker", "Claim the next run that no worker holds."),
    _op("run.renew", "runs.queue:renew", "write", "POST /runs/{id}/renew", "id fence", "Renew the lease of a run during a long step."),
    _op("run.release", "runs.queue:release", "write", "POST /runs/{id}/release", "id fence", "Release a run, so that another worker can continue it."),
    _op("run.propose", "runs.execution:propose", "write", "POST /runs/{id}/propose", "id fence", "Store the next step before it is carried out."),
    _op("run.record", "runs.execution:record", "write", "POST /runs/{id}/record", "id fence", "Store the result of a step."),
    _op("run.finish", "runs.execution:finish", "write", "POST /runs/{id}/finish", "id fence", "End a run that has reached its goal."),
    _op("run.fail", "runs.execution:fail", "write", "POST /runs/{id}/fail", "id fence", "End a run that cannot reach its goal."),
    _op("run.pause", "runs.control:pause", "write", "POST /runs/{id}/pause", "id", "Pause a run before its next step."),
    _op("run.resume", "runs.control:resume", "write", "POST /runs/{id}/resume", "id", "Resume a run; the reply says what happens next."),
    _op("run.cancel", "runs.control:cancel", "write", "POST /runs/{id}/cancel", "id", "Cancel a run."),
    _op("run.fork", "runs.control:fork", "write", "POST /runs/{id}/fork", "id", "Start another run from any step of this one."),
    _op("run.rewind", "runs.control:rewind", "write", "POST /runs/{id}/rewind", "id to", "Go back to an earlier step; later steps stay visible."),
    _op("run.settle", "runs.control:settle", "write", "POST /runs/{id}/settle", "id verdict", "Say whether an uncertain step happened."),
    _op("run.waiting", "runs.approval:waiting", "read", "GET /approvals", "", "List the steps that wait for approval."),
    _op("run.approve", "runs.approval:approve", "govern", "POST /runs/{id}/approve", "id", "Approve a step that waits, so that it is carried out."),
    _op("run.reject", "runs.approval:reject", "govern", "POST /runs/{id}/reject", "id why", "Reject a step that waits; the agent is told why."),
    _op("cycle.list", "runs.cycles:list_cycles", "read", "GET /cycles", "", "List the cycles of agents, latest first."),
    _op("cycle.show", "runs.cycles:show_cycle", "read", "GET /agents/{agent}/cycles/{index}", "agent index", "Show one cycle of an agent by its number."),
    _op("run.remove", "admin.record_removal:remove_run", "delete", "DELETE /runs/{id}", "id", "Remove a run and its steps; restorable for 30 days by default."),
    _op("run.restore", "admin.record_removal:restore_run", "delete", "POST /runs/{id}/restore", "id", "Restore a removed run."),
    _op("run.erase", "admin.record_removal:erase_run", "delete", "POST /runs/{id}/erase", "id", "Delete a run and its steps for good."),
    _op("user.add", "access.users:add_user", "write", "POST /users", "name", "Add a user."),
    _op("user.list", "access.users:list_users", "read", "GET /users", "", "List users, newest first."),
    _op("user.show", "access.users:show_user", "read", "GET /users/{id}", "id", "Show a user's profile, role and preferences."),
    _op("user.revise", "access.users:revise_user", "admin", "PATCH /users/{id}", "id", "Change a user's profile, role, status or password."),
    _op("user.remove", "admin.removal:remove_user", "admin", "DELETE /users/{id}", "id", "Remove a user and their memories; restorable for 30 days by default.", "needs_confirmation"),
    _op("user.restore", "admin.removal:restore_user", "admin", "POST /users/{id}/restore", "id", "Restore a removed user."),
    _op("user.erase", "admin.removal:erase_user", "admin", "POST /users/{id}/erase", "id", "Delete a user and their memories for good.", "needs_confirmation"),
    _op("user.searches", "access.saved_searches:searches", "read", "GET /users/me/searches", "", "List your own saved searches."),
    _op("user.save_search", "access.saved_searches:save_search", "read", "PUT /users/me/searches", "name search", "Save a search under a name, for yourself."),
    _op("user.remove_search", "access.saved_searches:remove_search", "read", "POST /users/me/searches/remove", "name", "Remove one of your saved searches."),
    _op("user.change_password", "access.passwords:change_password", "read", "PUT /users/me/password", "", "Change your own password.", "takes_password"),
    _op("embedding.add", "memories.stored_embeddings:add_embedding", "write", "POST /memories/{id}/embeddings", "id vector model", "Store a vector of a memory, made by a model of yours."),
    _op("embedding.list", "memories.stored_embeddings:list_embeddings", "read", "GET /memories/{id}/embeddings", "id", "List the stored vectors of a memory, by model."),
    _op("embedding.remove", "memories.stored_embeddings:remove_embedding", "write", "DELETE /memories/{id}/embeddings", "id model", "Remove the vectors of a memory by one model."),
    _op("kind.add", "memories.kinds:add_kind", "govern", "POST /kinds", "name description", "Declare a kind of memory."),
    _op("kind.list", "memories.kinds:list_kinds", "read", "GET /kinds", "", "List the kinds of memory, by name."),
    _op("kind.remove", "memories.kinds:remove_kind", "govern", "DELETE /kinds/{name}", "name", "Remove a kind that no memory is of."),
    _op("key.add", "access.keys:add_key", "admin", "POST /keys", "name", "Create an API key; it is shown only once."),
    _op("key.list", "access.keys:list_keys", "admin", "GET /keys", "", "List API keys, newest first, with permissions and last use."),
    _op("key.revoke", "access.keys:revoke_key", "admin", "POST /keys/{id}/revoke", "id", "Revoke an API key at once."),
    _op("encryption.rewrap", "admin.encryption:rewrap_keys", "operate", "POST /encryption/rewrap", "", "Wrap all data keys with the current master key.", "progress"),
    _op("encryption.rotate", "admin.encryption:rotate_key", "operate", "POST /encryption/rotate", "", "Give the organization a new data key, and seal everything with it.", "progress"),
    _op("encryption.reseal", "admin.encryption:reseal", "operate", "POST /encryption/reseal", "", "Seal encrypted fields that are in the clear or have a former key.", "progress"),
    _op("encryption.text", "admin.encryption:encrypt_texts", "admin", "PUT /encryption/text", "switch", "Encrypt the texts of the organization, or decrypt them.", "progress"),
    _op("organization.add", "admin.organizations:add_organization", "operate", "POST /organizations", "name", "Add an organization."),
    _op("organization.list", "admin.organizations:list_organizations", "operate", "GET /organizations", "", "List the organizations of the store, by id."),
    _op("organization.show", "admin.organizations:show_organization", "read", "GET /organization", "id", "Show an organization."),
    _op("organization.revise", "admin.organizations:revise_organization", "admin", "PATCH /organization", "id name", "Change the name of an organization."),
    _op("organization.suspend", "admin.organizations:suspend_organization", "operate", "POST /organizations/{id}/suspend", "id", "Suspend an organization: its keys and users are refused, its data are kept."),
    _op("organization.resume", "admin.organizations:resume_organization", "operate", "POST /organizations/{id}/resume", "id", "Resume a suspended organization."),
    _op("organization.remove", "admin.organizations:remove_organization", "operate", "DELETE /organizations/{id}", "id", "Delete an organization with everything in it, for good.", "progress", "unlogged", "needs_confirmation"),
    _op("audit.seal", "admin.audit:seal", "admin", "POST /audit/seal", "", "Seal the new entries of the access log."),
    _op("audit.verify", "admin.audit:verify_log", "admin", "POST /audit/verify", "anchor", "Verify that the access log was not tampered with."),
    _op("privacy.find", "privacy.find:find", "admin", "POST /privacy/find", "", "Find everything that is stored about a person.", "progress"),
    _op("privacy.export", "privacy.export:export", "admin", "POST /privacy/export", "path", "Write everything about a person to a folder they can read.", "progress", "local"),
    _op("privacy.erase", "privacy.erase:erase", "admin", "POST /privacy/erase", "", "Erase a person for good, everywhere, with a signed certificate.", "progress", "unlogged", "needs_confirmation"),
    _op("privacy.certificates", "privacy.certificate:certificates", "admin", "GET /privacy/certificates", "", "List the certificates of erasures, newest first."),
    _op("privacy.verify", "privacy.certificate:verify", "admin", "POST /privacy/verify", "id", "Verify a certificate: its signature, and what the log says."),
    _op("stats", "admin.maintenance:stats", "read", "GET /stats", "", "Count memories by kind, status and evidence."),
    _op("activity", "admin.activity:activity", "read", "GET /activity", "days", "Show how much was remembered and used, day by day."),
    _op("sql", "recall.user_sql:sql", "admin", "POST /sql", "statement", "Run a SQL SELECT over your own records (DuckDB only)."),
    _op("log", "admin.audit:show_log", "admin", "GET /log", "memory", "Show who did what to which memory, newest first."),
    _op("verify", "admin.maintenance:verify", "admin", "POST /verify", "", "Check every record and index, and list the problems."),
    _op("doctor", "admin.maintenance:doctor", "admin", "POST /doctor", "", "Find problems in the store; with fix, repair them."),
    _op("reindex", "memories.indexing:reindex", "admin", "POST /reindex", "", "Create the vectors that are missing.", "progress"),
    _op("export", "admin.export:export", "admin", "POST /export", "path", "Export everything to a JSON Lines file.", "progress", "local"),
    _op("import_", "admin.import_:import_", "admin", "POST /import", "path", "Import an exported file, or the memories of another product.", "progress", "local"),
    _op("partitions", "admin.partitions:partitions", "operate", "POST /partitions", "", "List monthly partitions, create future ones, drop old ones."),
    _op("migrate", "admin.partitions:migrate", "operate", "POST /migrate", "", "Bring the tables up to date, or spread them over a cluster."),
    _op("backup", "backups.backup:backup", "operate", "POST /backup", "path", "Back up the whole store while it is in use.", "progress", "local"),
    _op("backup.list", "backups.history:list_backups", "operate", "GET /backups", "", "List backups, newest first."),
    _op("backup.drill", "backups.drill:drill", "operate", "POST /backups/drill", "id", "Prove a backup: restore it to a temporary place and try it.", "progress", "local"),
    _op("backup.remove", "backups.history:remove_backup", "operate", "DELETE /backups/{id}", "id", "Delete a backup, with what no other one needs.", "local"),
    _op("project.add", "access.projects:add_project", "write", "POST /projects", "name", "Add a project."),
    _op("project.list", "access.projects:list_projects", "read", "GET /projects", "", "List projects, newest first."),
    _op("project.show", "access.projects:show_project", "read", "GET /projects/{id}", "id", "Show a project."),
    _op("project.revise", "access.projects:revise_project", "write", "PATCH /projects/{id}", "id", "Change a project's name, description or owner."),
    _op("project.members", "access.projects:list_members", "read", "GET /projects/{id}/members", "id", "List the members of a project with their roles, newest first."),
    _op("project.add_member", "access.projects:add_member", "admin", "POST /projects/{id}/members", "id user role", "Take a user into a project, with a role."),
    _op("project.remove_member", "access.projects:remove_member", "admin", "DELETE /projects/{id}/members/{user}", "id user", "Take a user out of a project."),
    _op("project.remove", "admin.removal:remove_project", "admin", "DELETE /projects/{id}", "id", "Remove a project; restorable for 30 days by default.", "needs_confirmation"),
    _op("project.restore", "admin.removal:restore_project", "admin", "POST /projects/{id}/restore", "id", "Restore a removed project."),
    _op("project.erase", "admin.removal:erase_project", "admin", "POST /projects/{id}/erase", "id", "Delete a project for good.", "needs_confirmation"),
    _op("session.add", "conversations.sessions:add_session", "write", "POST /sessions", "title", "Start a session."),
    _op("session.list", "conversations.sessions:list_sessions", "read", "GET /sessions", "", "List sessions, newest first."),
    _op("session.show", "conversations.sessions:show_session", "read", "GET /sessions/{id}", "id", "Show a session."),
    _op("session.revise", "conversations.sessions:revise_session", "write", "PATCH /sessions/{id}", "id", "Change a session's title, type, summary or metadata."),
    _op("session.remove", "admin.removal:remove_session", "admin", "DELETE /sessions/{id}", "id", "Remove a session and its messages; restorable for 30 days by default.", "needs_confirmation"),
    _op("session.restore", "admin.removal:restore_session", "admin", "POST /sessions/{id}/restore", "id", "Restore a removed session."),
    _op("session.erase", "admin.removal:erase_session", "admin", "POST /sessions/{id}/erase", "id", "Delete a session and its messages for good.", "needs_confirmation"),
    _op("session.end", "conversations.sessions:end", "write", "POST /sessions/{id}/end", "id", "Mark a session as ended, with a summary if you like."),
    _op("session.extract", "learning.extraction:extract", "write", "POST /sessions/{id}/extract", "id", "Propose memories from what was said in a session, each citing its messages."),
    _op("session.archive", "conversations.sessions:archive_session", "write", "POST /sessions/{id}/archive", "id", "Archive a session; it takes no messages until it is unarchived."),
    _op("session.unarchive", "conversations.sessions:unarchive_session", "write", "POST /sessions/{id}/unarchive", "id", "Unarchive a session."),
    _op("message.add", "conversations.messages:add", "write", "POST /messages", "role text", "Add a message."),
    _op("message.add_many", "conversations.messages:add_many", "write", "POST /messages/batch", "messages", "Add several messages in order: all or none."),
    _op("message.show", "conversations.messages:show", "read", "GET /messages/{id}", "id", "Show one message."),
    _op("message.list", "conversations.messages:list_messages", "read", "GET /messages", "session", "List messages, oldest first unless you ask for the newest."),
    _op("message.search", "conversations.message_search:search", "read", "POST /messages/search", "query", "Find messages by their words, or by what they mean."),
    _op("message.revise", "conversations.message_revisions:revise", "write", "PATCH /messages/{id}", "id text", "Change a message; its history keeps what it said before."),
    _op("message.history", "conversations.message_revisions:history", "read", "GET /messages/{id}/history", "id", "Show everything a message has said."),
    _op("message.remember", "conversations.message_revisions:remember_message", "write", "POST /messages/{id}/remember", "id", "Remember a message as a memory that cites it."),
    _op("message.remove", "admin.record_removal:remove_message", "delete", "DELETE /messages/{id}", "id", "Remove a message; restorable for 30 days by default."),
    _op("message.restore", "admin.record_removal:restore_message", "delete", "POST /messages/{id}/restore", "id", "Restore a removed message."),
    _op("message.erase", "admin.record_removal:erase_message", "delete", "POST /messages/{id}/erase", "id", "Delete a message for good."),
    _op("message.pop", "conversations.messages:pop", "delete", "POST /messages/pop", "session", "Remove the last message and return it."),
    _op("message.clear", "conversations.messages:clear", "delete", "POST /messages/clear", "session", "Delete all messages of a session, agent or user."),
    _op("agent.add", "agents.agents:add_agent", "write", "POST /agents", "name", "Add an agent."),
    _op("agent.list", "agents.agents:list_agents", "read", "GET /agents", "", "List agents, newest first."),
    _op("agent.show", "agents.agents:show_agent", "read", "GET /agents/{id}", "id", "Show an agent with its blocks and tools."),
    _op("agent.revise", "agents.agents:revise_agent", "write", "PATCH /agents/{id}", "id", "Change an agent's prompt, directives or configuration."),
    _op("agent.remove", "admin.removal:remove_agent", "admin", "DELETE /agents/{id}", "id", "Remove an agent and its memories; restorable for 30 days by default.", "needs_confirmation"),
    _op("agent.restore", "admin.removal:restore_agent", "admin", "POST /agents/{id}/restore", "id", "Restore a removed agent."),
    _op("agent.erase", "admin.removal:erase_agent", "admin", "POST /agents/{id}/erase", "id", "Delete an agent and its memories for good.", "needs_confirmation"),
    _op("agent.pause", "agents.agents:pause_agent", "write", "POST /agents/{id}/pause", "id", "Pause an agent."),
    _op("agent.activate", "agents.agents:activate_agent", "write", "POST /agents/{id}/activate", "id", "Activate a paused or retired agent."),
    _op("agent.retire", "agents.agents:retire_agent", "write", "POST /agents/{id}/retire", "id", "Retire an agent: it takes no new work."),
    _op("agent.in_context", "agents.agents:in_context", "write", "POST /agents/{id}/in-context", "id messages", "Set, add to or trim the messages in an agent's context."),
    _op("agent.prompt", "conversations.prompts:prompt", "read", "GET /agents/{id}/prompt", "id", "Show the prompt for an agent's next step."),
    _op("block.add", "agents.blocks:add", "write", "POST /blocks", "label value", "Create a block of core memory."),
    _op("block.show", "agents.blocks:show", "read", "GET /blocks/{id}", "id", "Show a block and the agents that share it."),
    _op("block.list", "agents.blocks:list_blocks", "read", "GET /blocks", "", "List blocks or templates, newest first."),
    _op("block.write", "agents.blocks:write", "write", "PUT /blocks/{id}/value", "id value", "Replace the text of a block."),
    _op("block.append", "agents.blocks:append", "write", "POST /blocks/{id}/append", "id text", "Append to the text of a block."),
    _op("block.replace", "agents.blocks:replace", "write", "POST /blocks/{id}/replace", "id old new", "Replace part of the text of a block."),
    _op("block.revise", "agents.blocks:revise", "write", "PATCH /blocks/{id}", "id", "Change a block's label, limit or description."),
    _op("block.history", "agents.blocks:history", "read", "GET /blocks/{id}/history", "id", "Show the previous texts of a block."),
    _op("block.remove", "admin.record_removal:remove_block", "delete", "DELETE /blocks/{id}", "id", "Remove a block; restorable for 30 days by default."),
    _op("block.restore", "admin.record_removal:restore_block", "delete", "POST /blocks/{id}/restore", "id", "Restore a removed block."),
    _op("block.erase", "admin.record_removal:erase_block", "delete", "POST /blocks/{id}/erase", "id", "Delete a block for good."),
    _op("block.attach", "agents.blocks:attach", "write", "POST /blocks/{id}/agents", "id agent", "Attach a block to an agent."),
    _op("block.detach", "agents.blocks:detach", "write", "DELETE /blocks/{id}/agents/{agent}", "id agent", "Detach a block from an agent."),
    _op("tool.add", "agents.tools:add", "write", "POST /tools", "name description", "Add a tool."),
    _op("tool.show", "agents.tools:show", "read", "GET /tools/{id}", "id", "Show a tool and the agents that have it."),
    _op("tool.list", "agents.tools:list_tools", "read", "GET /tools", "", "List tools, newest first."),
    _op("tool.revise", "agents.tools:revise", "write", "PATCH /tools/{id}", "id", "Change a tool."),
    _op("tool.remove", "admin.record_removal:remove_tool", "delete", "DELETE /tools/{id}", "id", "Remove a tool; restorable for 30 days by default."),
    _op("tool.restore", "admin.record_removal:restore_tool", "delete", "POST /tools/{id}/restore", "id", "Restore a removed tool."),
    _op("tool.erase", "admin.record_removal:erase_tool", "delete", "POST /tools/{id}/erase", "id", "Delete a tool for good."),
    _op("tool.attach", "agents.tools:attach", "write", "POST /tools/{id}/agents", "id agent", "Attach a tool to an agent."),
    _op("tool.detach", "agents.tools:detach", "write", "DELETE /tools/{id}/agents/{agent}", "id agent", "Detach a tool from an agent."),
    _op("state.save", "agents.states:save", "write", "PUT /agents/{agent}/state", "agent data", "Save the state of an agent."),
    _op("state.load", "agents.states:load_state", "read", "GET /agents/{agent}/state", "agent", "Load the state of an agent."),
    _op("state.list", "agents.states:list_states", "read", "GET /states", "", "List states that have not expired, newest first."),
    _op("state.drop", "agents.states:drop", "delete", "DELETE /agents/{agent}/state", "agent", "Delete the state of an agent for good."),
    _op("workspace.add", "workspaces.files:add", "write", "POST /workspaces", "agent name", "Create a workspace for an agent."),
    _op("workspace.list", "workspaces.files:list_workspaces", "read", "GET /workspaces", "", "List workspaces, newest first."),
    _op("workspace.show", "workspaces.files:show", "read", "GET /workspaces/{id}", "id", "Show a workspace."),
    _op("workspace.remove", "admin.record_removal:remove_workspace", "write", "DELETE /workspaces/{id}", "id path", "Remove a workspace; restorable for 30 days by default."),
    _op("workspace.erase", "admin.record_removal:erase_workspace", "delete", "POST /workspaces/{id}/erase", "id", "Delete a workspace for good."),
    _op("workspace.write", "workspaces.files:write", "write", "PUT /workspaces/{id}/files/{path}", "id path text", "Write a file."),
    _op("workspace.read", "workspaces.file_reading:read", "read", "GET /workspaces/{id}/files/{path}", "id path", "Read a file, now or in a snapshot."),
    _op("workspace.files", "workspaces.files:list_files", "read", "GET /workspaces/{id}/files", "id", "List the files of a workspace, by path."),
    _op("workspace.remove_file", "workspaces.files:remove_file", "write", "DELETE /workspaces/{id}/files/{path}", "id path", "Delete a file or folder."),
    _op("workspace.move", "workspaces.files:move", "write", "POST /workspaces/{id}/move", "id path to", "Move or rename a file or folder."),
    _op("workspace.pull", "workspaces.folder_sync:pull", "admin", "POST /workspaces/{id}/pull", "id folder", "Copy a folder on disk into a workspace.", "local"),
    _op("workspace.push", "workspaces.folder_sync:push", "admin", "POST /workspaces/{id}/push", "id folder", "Copy a workspace to a folder on disk.", "local"),
    _op("workspace.snapshot", "workspaces.snapshots:snapshot", "write", "POST /workspaces/{id}/snapshots", "id label", "Take a snapshot of a workspace."),
    _op("workspace.snapshots", "workspaces.snapshots:list_snapshots", "read", "GET /workspaces/{id}/snapshots", "id", "List the snapshots of a workspace, newest first."),
    _op("workspace.diff", "workspaces.snapshots:diff", "read", "GET /workspaces/{id}/diff", "id since to", "Show what changed between two snapshots, or since one."),
    _op("workspace.restore", "admin.record_removal:restore_workspace", "write", "POST /workspaces/{id}/restore", "id snapshot", "Restore a snapshot, or a removed workspace."),
    _op("workspace.prune", "workspaces.snapshots:prune", "delete", "POST /workspaces/{id}/prune", "id", "Delete old snapshots and unused content."),
    _op("checkpoint.put", "frameworks.checkpoints:put", "write", "POST /checkpoints", "thread id", "Save a checkpoint of a program that runs in steps.", "unlogged"),
    _op("checkpoint.write", "frameworks.checkpoints:write", "write", "POST /checkpoints/writes", "thread id", "Save what a task wrote for the next checkpoint.", "unlogged"),
    _op("checkpoint.get", "frameworks.checkpoint_reading:get", "read", "POST /checkpoints/get", "thread id", "Read one checkpoint."),
    _op("checkpoint.list", "frameworks.checkpoint_reading:list_checkpoints", "read", "POST /checkpoints/list", "thread", "List checkpoints, newest first."),
    _op("checkpoint.threads", "frameworks.checkpoint_reading:threads", "read", "GET /checkpoints/threads", "thread", "List the threads that have checkpoints, by name."),
    _op("checkpoint.delete", "frameworks.checkpoint_retention:delete", "delete", "POST /checkpoints/delete", "thread", "Delete a thread, or the checkpoints of some runs."),
    _op("checkpoint.copy", "frameworks.checkpoints:copy", "write", "POST /checkpoints/copy", "source target", "Copy a thread with all its checkpoints."),
    _op("checkpoint.prune", "frameworks.checkpoint_retention:prune", "delete", "POST /checkpoints/prune", "", "Delete old checkpoints."),
    _op("item.put", "frameworks.key_value:put", "write", "POST /items", "namespace key", "Store a value under a namespace and a key, replacing the old one."),
    _op("item.put_many", "frameworks.key_value:put_many", "write", "POST /items/batch", "items", "Store and delete several items: all or none."),
    _op("item.get", "frameworks.key_value:get", "read", "POST /items/get", "namespace key", "Read one item."),
    _op("item.search", "frameworks.key_value:search", "read", "POST /items/search", "prefix", "Find items by filter and meaning."),
    _op("item.namespaces", "frameworks.key_value:namespaces", "read", "POST /items/namespaces", "", "List the namespaces that have items, by name."),
    _op("item.sweep", "frameworks.key_value:sweep", "delete", "POST /items/sweep", "", "Delete items that have expired."),
    _op("source.add", "data.uploads:add_source", "write", "POST /sources", "path", "Add a file or a data frame to ask questions of.", "progress"),
    _op("source.list", "data.sources:list_sources", "read", "GET /sources", "", "List sources with their tables, newest first."),
    _op("source.find", "data.find:find", "read", "POST /sources/find", "query", "Find tables, fields and values by words and meaning, each with its reason."),
    _op("source.show", "data.sources:show_source", "read", "GET /sources/{id}", "id", "Show a source: its tables, and the profile of their columns."),
    _op("source.versions", "data.sources:list_versions", "read", "GET /sources/{id}/versions", "id", "List the versions of a source, with what each changed."),
    _op("source.revise", "data.sources:revise_source", "write", "PATCH /sources/{id}", "id", "Change the name and the descriptions of a source."),
    _op("source.profile", "data.sources:profile_source", "write", "POST /sources/{id}/profile", "id", "Profile every row of a source that was only sampled.", "progress"),
    _op("source.remove", "data.sources:remove_source", "delete", "DELETE /sources/{id}", "id", "Remove a source; restorable for 30 days by default."),
    _op("source.restore", "data.sources:restore_source", "delete", "POST /sources/{id}/restore", "id", "Restore a removed source."),
    _op("connection.add", "data.connections:add_connection", "admin", "POST /connections", "name address", "Connect to an outside database to ask questions of it.", "progress"),
    _op("connection.list", "data.connections:list_connections", "read", "GET /connections", "", "List the connections to outside databases, by name."),
    _op("connection.show", "data.connections:show_connection", "read", "GET /connections/{id}", "id", "Show a connection: its server and its tables."),
    _op("connection.check", "data.connections:check_connection", "write", "POST /connections/{id}/check", "id", "Try a connection now, and say what was found."),
    _op("connection.refresh", "data.connections:refresh_connection", "write", "POST /connections/{id}/refresh", "id", "Read the tables of a connection again, and say what changed.", "progress"),
    _op("connection.remove", "data.connections:remove_connection", "admin", "DELETE /connections/{id}", "id", "Remove a connection; the database itself is not touched."),
    _op("ask", "data.ask:ask", "read", "POST /ask", "question", "Answer a question about your data in plain words, with the SQL."),
    _op("query.run", "data.queries:run_query", "read", "POST /queries", "sql", "Run one SELECT over your sources, safely."),
    _op("query.list", "data.queries:list_queries", "read", "GET /queries", "", "List the queries that were run, newest first."),
    _op("query.show", "data.queries:show_query", "read", "GET /queries/{run}", "run", "Show a query that was run, with the first rows of its result."),
    _op("query.remove", "data.queries:remove_query", "delete", "DELETE /queries/{run}", "run", "Delete a query and the rows it returned for good."),
    _op("query.judge", "data.patterns:judge", "write", "POST /queries/{run}/judge", "run verdict", "Say whether the answer of a query was right."),
    _op("query.patterns", "data.patterns:list_patterns", "read", "GET /query-patterns", "", "List the questions that were judged, newest first."),
    _op("query.remember", "data.answers:remember_answer", "write", "POST /queries/{run}/remember", "run", "Remember the answer of a query as a memory that cites it."),
    _op("query.chart", "data.charts:chart_query", "read", "POST /queries/{run}/chart", "run kind", "Draw the result of a query."),
    _op("query.export", "data.exports:export_query", "read", "POST /queries/export", "run", "Write the whole result of a query to a file."),
    _op("query.cancel", "data.queries:cancel_query", "read", "POST /queries/cancel", "job", "End a query that is running."),
)  # fmt: skip

GROUPS: dict[str, str] = {
    "agent": "Agents: their prompt, status and configuration.",
    "block": "Blocks of core memory: short texts that are always in an agent's prompt.",
    "tool": "Tools that agents may call.",
    "state": "The saved states of agents.",
    "workspace": "Workspaces: the files of agents, with snapshots.",
    "session": "Sessions: conversations, or stretches of work.",
    "message": "Messages: what was said in sessions.",
    "episode": "Episodes: tasks that were tried, and how they went.",
    "pattern": "Patterns: know-how learned from episodes, with success rates.",
    "summary": "Summaries of sessions, days and projects.",
    "run": "Runs of agents: start, carry out, approve, watch and control them.",
    "cycle": "Cycles: the steps of an agent, through all its runs.",
    "source": "Sources: files and databases that questions can be asked of.",
    "connection": "Connections: outside databases that are read where they are.",
    "query": "Queries over sources: run, judged, charted, remembered.",
    "user": "Users: their profiles, roles and passwords.",
    "organization": "Organizations: the tenants of a store.",
    "project": "Projects: work that spans many sessions.",
    "review": "Review: hypotheses that wait for a decision.",
    "citation": "Citations: the evidence for memories.",
    "relations": "Links between memories.",
    "tag": "Tags of memories: added, removed, counted, renamed.",
    "embedding": "Embeddings: the stored vectors of memories, by model.",
    "kind": "Kinds of memory: built in, or your own.",
    "key": "API keys: permissions, limits and expiry.",
    "encryption": "Encryption at rest: its keys, made and changed.",
    "privacy": "Privacy: find, hand over and erase what is stored about a person.",
    "audit": "The access log: seal it, and verify that nobody changed it.",
    "retention": "Retention rules: how long memories and sessions are kept, and what happens then.",
    "hold": "Legal holds: nothing of a user, agent, session or project is deleted.",
    "cold": "Cold storage: old sessions in files, which can be searched and restored.",
    "backup": "Backups of the store: made, listed, proven, restored.",
    "checkpoint": "Checkpoints of programs that run in steps, such as LangGraph graphs.",
    "item": "Items: values under a namespace and a key, as in LangGraph's store.",
}
"""What each group is about, in one sentence."""

OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in _LINES}
SYNONYMS: dict[str, str] = {"get": "show"}
"""Second names of methods of the client, to stay."""


@dataclass(frozen=True)
class FormerName:
    """What an operation was called one version ago. It still works, and says what it is called now."""

    name: str
    now: str
    """The operation today; where one stood for four, its field `type` says which."""
    route: str = ""
    """The route it had, where that is another today."""

    @property
    def group(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def verb(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def command(self) -> str:
        return self.name.replace("_", "-").replace(".", " ")

    @property
    def types(self) -> tuple[str, ...]:
        return ("user", "agent", "session", "project") if "{type}" in self.now else ()

    @property
    def operations(self) -> list[Operation]:
        """All that it may mean."""
        return [OPERATIONS[self.now.format(type=type)] for type in self.types or ("",)]

    @property
    def positional(self) -> tuple[str, ...]:
        return (*(("type",) if self.types else ()), *self.operations[0].positional)

    def today(self, fields: dict[str, Any]) -> tuple[Operation, dict[str, Any]]:
        """The operation that is meant, and its fields."""
        if not self.types:
            return self.operations[0], fields
        type = fields.get("type")
        if type not in self.types:
            from recollect.errors import InvalidInput

            raise InvalidInput(f"{self.name}: type must be one of {', '.join(self.types)}", remedy=self.advice)
        return OPERATIONS[self.now.format(type=type)], {k: v for k, v in fields.items() if k != "type"}

    @property
    def advice(self) -> str:
        return f"use {', '.join(operation.name for operation in self.operations)}"


FORMER_NAMES: dict[str, FormerName] = {
    former.name: former
    for former in (
        FormerName("add_user", "user.add"),
        FormerName("add_agent", "agent.add"),
        FormerName("add_session", "session.add"),
        FormerName("add_project", "project.add"),
        FormerName("parties", "{type}.list", "GET /parties/{type}"),
        FormerName("remove", "{type}.remove", "DELETE /parties/{type}/{id}"),
        FormerName("unremove", "{type}.restore", "POST /parties/{type}/{id}/restore"),
        FormerName("runs", "run.list"),
        FormerName("citations", "citation.list"),
        FormerName("workspace.drop", "workspace.erase"),
        FormerName("erase_organization", "organization.remove", "POST /organizations/{id}/erase"),
    )
}


HABITS: dict[str, str] = {
    **dict.fromkeys(("search", "query", "retrieve", "similarity_search"), "recall"),
    **dict.fromkeys(("add", "store", "save", "insert", "create", "upsert", "put"), "remember"),
    **dict.fromkeys(("update", "edit"), "revise"),
    **dict.fromkeys(("get_all", "find", "all"), "list"),
    **dict.fromkeys(("delete", "remove_memory"), "forget, or erase for good"),
    **dict.fromkeys(("delete_all", "reset", "clear"), "user.remove or agent.remove, which take their memories along"),
    "n_results": "limit", "top_k": "limit", "k": "limit", "num_results": "limit", "top_n": "limit",
    "user_id": "user", "agent_id": "agent", "session_id": "session", "thread_id": "session", "project_id": "project",
    "memory_id": "id", "text": "content", "document": "content", "messages": "content", "q": "query",
    "filters": "tags, kinds, metadata or another filter by its name", "where": "metadata", "threshold": "min_match",
    "metadata": "tags", "sort": "order", "sort_by": "order", "order_by": "order",
}  # fmt: skip
"""What methods and fields are called elsewhere, and what is meant by them here."""


def meant(name: str, known: Iterable[str]) -> str:
    """What somebody may have meant by a name that is not known: one by habit, else one that is spelt alike."""
    from difflib import get_close_matches

    known = list(known)
    by_habit = HABITS.get(name, "")
    if by_habit == "content" and "query" in known:  # what is looked for, not a filter on what is stored
        by_habit = "query"
    if by_habit and any(word in known for word in (by_habit, by_habit.partition(" ")[0].rstrip(","))):
        return by_habit
    return " or ".join(get_close_matches(name, known, n=3))


def find_operation(name: str, fields: dict[str, Any]) -> tuple[Operation, dict[str, Any]]:
    """The operation of a name, and its fields; a former name warns, an unknown one is InvalidInput."""
    if name in OPERATIONS:
        return OPERATIONS[name], fields
    if name not in FORMER_NAMES:
        from recollect.errors import InvalidInput

        near = meant(name, OPERATIONS)
        remedy = f"did you mean {near}?" if near else f"use one of {', '.join(OPERATIONS)}"
        raise InvalidInput(f"there is no operation '{name}'", remedy=remedy)
    operation, given = FORMER_NAMES[name].today(fields)
    warn(f"{name} is deprecated, use {operation.name}", DeprecationWarning, stacklevel=4)
    return operation, given


def refuse_writing(operation: Operation, fields: dict[str, Any]) -> None:
    """StoreReadOnly for what would write to a memory that was opened to be read alone. The store refuses, too; here it
    is refused before anything is prepared for it, such as a file that is uploaded."""
    from recollect.errors import StoreReadOnly

    if (not operation.only_reads or fields.get("fix")) and fields.get("dry_run") is not True:
        raise StoreReadOnly(
            f"'{operation.command}' would write, and this memory was opened read-only",
            remedy="open it without readonly=True (on the command line: without --readonly), where it may be written",
        )


MOST_TRIES = 5
MOST_HINTS = 3


def invoke(operation: Operation, core: Core, scope: Any, fields: dict[str, Any], progress: Any = None) -> Any:
    """Validate the fields, run the operation; whatever is wrong with them comes back as InvalidInput.

    What an operation read may be changed before it commits, and then it commits nothing: it is asked again.
    """
    from recollect.errors import typed_os_errors
    from recollect.services.rare_collection import RareCollection

    # OS errors also when the operation's own module cannot be read, on its first use. The collector looks as often as
    # before when all that was made on the way is gone: it would look at it once more.
    with typed_os_errors(), RareCollection():
        return _invoked(operation, core, scope, fields, progress)


def _invoked(operation: Operation, core: Core, scope: Any, fields: dict[str, Any], progress: Any) -> Any:
    from recollect.services.times import RequestTimeZone

    tenant = _tenant(operation, core, scope)
    request = validated(operation, fields, RequestTimeZone(tenant))
    return carry_out(operation, core, scope, request, progress, tenant)


def _tenant(operation: Operation, core: Core, scope: Any) -> Tenant:
    return core.for_scope(scope, makes_owners=operation.permission == "write")


def carry_out(
    operation: Operation, core: Core, scope: Any, request: Request, progress: Any = None, tenant: Tenant | None = None
) -> Any:
    """Run the operation with a request that is valid; what comes of it is in the access log."""
    from recollect.domain.access import RESTRICTED
    from recollect.errors import Denied, RequirementFailed, typed_os_errors
    from recollect.retry import retry
    from recollect.services.access_journal import CONCERNED
    from recollect.services.requests import in_namespace, sanitized
    from recollect.services.secrets import masked_request, refuse_secrets
    from recollect.services.times import in_zone, zone_for

    if scope.restriction is not None and operation.permission not in RESTRICTED:
        raise Denied(f"{operation.name} concerns the whole organization", remedy="use a key that is not restricted")
    tenant = tenant or _tenant(operation, core, scope)
    request, masked = masked_request(tenant, in_namespace(request, scope.restriction))
    more = (progress,) if progress is not None and operation.progress else ()
    attended = core.journal.attend(
        scope,
        operation.access,
        operation.name,
        {} if operation.unlogged else sanitized(request, only=CONCERNED),
        failures_only=operation.unlogged,
        whole=lambda: sanitized(request),
        refused=lambda: {} if operation.unlogged else sanitized(request, refused=True),
    )
    with core.tracing.operation(operation.name), attended, typed_os_errors():
        if operation.access != "read":
            refuse_secrets(tenant.secrets, operation.name, masked)
        reply = retry(lambda: operation.function(tenant, request, *more), RequirementFailed, tries=MOST_TRIES)
    if masked or tenant.created:
        told = {"masked": [*masked, *reply.masked], "created": [*tenant.created, *reply.created]}
        reply = reply.model_copy(update=told)
    return in_zone(reply, zone_for(tenant, getattr(request, "user", None)))


def validated(operation: Operation, fields: dict[str, Any], asking: RequestTimeZone | None = None) -> Request:
    """The request; bare times in it are meant where `asking` says, in UTC without."""
    from pydantic import ValidationError

    from recollect.domain.kinds import describe
    from recollect.domain.text.secrets import without_secrets
    from recollect.errors import InvalidInput, TooLarge

    try:
        return operation.request.model_validate(fields, context={"asking": asking})
    except ValidationError as error:
        wrong = f"{operation.name}: {without_secrets(describe(error))}"
        if any(one["type"] == "too_long" for one in error.errors()):
            raise TooLarge(wrong, remedy="send fewer at a time") from None
        remedy = _other_names(operation, [one["loc"] for one in error.errors() if one["type"] == "extra_forbidden"])
        raise InvalidInput(wrong, remedy=remedy) from None


def _other_names(operation: Operation, unknown: Sequence[tuple[int | str, ...]]) -> str:
    """Which fields were meant by unknown ones, each name told once, and which there are."""
    from recollect.domain.text.secrets import without_secrets

    if not unknown:
        return ""
    hints: dict[tuple[str, str], str] = {}
    takes: dict[str, None] = {}
    for place in unknown:
        known, name = _fields_at(operation.request, place[:-1]), str(place[-1])
        if near := meant(name, known):
            hints.setdefault((near, name), f"give {near} instead of {without_secrets('.'.join(map(str, place)))}")
        inside = ".".join(str(part) for part in place[:-1] if isinstance(part, str))
        takes |= {f"{inside or operation.name} takes {', '.join(known)}": None} if known else {}
    return "; ".join([*list(hints.values())[:MOST_HINTS], *list(takes)[:MOST_HINTS]])


def _fields_at(model: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """The fields of the model at this place of a request; none where it is not known to be one."""
    for part in place:
        if isinstance(part, str):
            found = _model_in(model.model_fields[part].annotation) if part in model.model_fields else None
            if found is None:
                return []
            model = found
    return list(model.model_fields)


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The one model that a field holds, alone or in a list."""
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_in(one)) is not None), None)
