"""Core memory: short labelled texts that are always in the prompt of the agents they are attached to.

A block is one record however many agents share it, so one write is seen by all. It is never longer than its limit,
whoever writes and whichever of the two changes. Writes that build on what is there (append, replace) are repeated
when somebody else was quicker; a write that names a version is refused instead. The last hundred values are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from pydantic import Field

from recollect.domain.agents import Agent, Block, BlockLink, BlockRevision
from recollect.domain.record import Id, Json, JsonObject, Name, QueryText, Text, new_id
from recollect.errors import Conflict, DuplicateKey, InvalidInput, NotFound, RequirementFailed, TooLarge
from recollect.ports.query import Compare, Filter, Linked, Order, Query, equal
from recollect.ports.steps import Absent, DeleteWhere, Insert, Require, Step, Update
from recollect.retry import retry_unless_pinned
from recollect.services.agents.agents import at_work
from recollect.services.parties import restorable_until, shown
from recollect.services.requests import ListReply, PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import as_of_version, commit, load, load_named, logged, made, rewritten

REVISIONS_KEPT = 100
DEFAULT_LIMIT = 2000


class BlockView(Reply):
    """A block and who has it."""

    id: str
    label: str
    value: str
    characters: int
    limit: int
    description: str = ""
    user: str | None = None
    template_name: str | None = None
    is_template: bool = False
    metadata: JsonObject = Field(default_factory=dict)
    agents: list[str] = Field(default_factory=list)
    created_at: datetime
    updated_at: datetime
    created_by: str | None = None
    updated_by: str | None = None
    version: int
    restorable_until: datetime | None = Field(None, description="Set for a removed one: `block.restore` until then")


class AddBlockRequest(Request):
    """A new block, from nothing or from a template."""

    label: Name | None = Field(None, description="human, persona, system, …; the template's if left out")
    value: Text | None = Field(None, description="What it says; the template's if left out")
    limit: int | None = Field(None, ge=1, description="How many characters it may have; 2000 by default")
    description: Text | None = Field(None, description="What it is for")
    user: Id | None = Field(None, description="The user it is about")
    agents: list[Id] = Field(default_factory=list, description="The agents to attach it to")
    template: Text | None = Field(None, description="The id or template_name of the template to make it from")
    is_template: bool = Field(False, description="Whether it is a template for others, itself never in a prompt")
    template_name: Text | None = Field(None, description="The name of the template")
    metadata: Json | None = Field(None, description="Anything else")
    id: Id | None = Field(None, description="An id of your own; made for you if left out")


def add(tenant: Tenant, request: AddBlockRequest) -> BlockView:
    """Make a block and attach it to agents."""
    model = _template(tenant, request.template) if request.template else None
    names = ("label", "value", "limit", "description", "metadata")
    given = {name: value for name in names if (value := getattr(request, name)) is not None}
    base = model.model_dump(include={*names, "template_name"}) if model else {}
    if request.template_name is not None:
        base["template_name"] = request.template_name
    fields = {"limit": DEFAULT_LIMIT, **base, **given, "user_id": request.user, "is_template": request.is_template}
    if "label" not in fields:
        raise InvalidInput("a block needs a label", remedy="give a label such as human or persona, or a template")
    _refuse_too_long(fields.get("value", ""), fields["limit"])
    block: Block = made(Block, tenant, id=request.id or new_id(), **fields)
    steps: list[Step] = [Insert(block)]
    for agent in dict.fromkeys(request.agents):
        steps += _attach_steps(tenant, block, agent)
    steps.append(logged(tenant, "create", "add block", None, id=block.id, agents=request.agents))
    try:
        commit(tenant, steps)
    except RequirementFailed as conflict:
        raise _label_taken(block, conflict) from None
    return block_view(tenant, block)


def _template(tenant: Tenant, name: str) -> Block:
    found = tenant.get(Block, name)
    if found is None or not found.is_template:
        wanted = Query(Block, (equal("template_name", name), equal("is_template", True)), (Order("id"),), limit=1)
        found = next(iter(tenant.find(wanted).records), None)
    if found is None:
        raise NotFound(f"there is no template '{name[:80]}'", remedy="give the id or template_name of a template block")
    return found


class BlockRequest(Request):
    """One block."""

    id: Id = Field(description="The block")


def show(tenant: Tenant, request: BlockRequest) -> BlockView:
    """A block and the agents that share it."""
    return block_view(tenant, load(tenant, Block, request.id))


class ListBlocksRequest(Request):
    """Which blocks to list."""

    agent: Id | None = Field(None, description="Only of this agent")
    user: Id | None = Field(None, description="Only about this user")
    label: Name | None = Field(None, description="Only with this label")
    templates: bool = Field(False, description="List the templates instead")
    removed: bool = Field(False, description="List removed ones that can be restored instead")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class BlockPage(PageReply[BlockView]):
    """Blocks, the newest first."""

    blocks: list[BlockView]


def list_blocks(tenant: Tenant, request: ListBlocksRequest) -> BlockPage:
    """Blocks, the newest first."""
    where: list[Filter] = [equal("is_template", request.templates)]
    where += [equal(name, value) for name, value in (("user_id", request.user), ("label", request.label)) if value]
    if request.agent is not None:
        where.append(Linked(BlockLink, "block_id", (equal("agent_id", request.agent),)))
    newest = (Order("id", descending=True),)
    page = tenant.find(Query(Block, tuple(where), newest, request.limit, request.after, shown(request.removed)))
    return BlockPage(blocks=[block_view(tenant, block) for block in page.records], next=page.next)


class WriteBlockRequest(BlockRequest):
    """Say something else in a block."""

    value: Text = Field(description="What it says from now on")
    version: int | None = Field(None, ge=1, description="Only if it still has this version")


def write(tenant: Tenant, request: WriteBlockRequest) -> BlockView:
    """Replace what a block says."""
    return _rewritten(tenant, request.id, request.version, "write block", lambda block: {"value": request.value})


class AppendBlockRequest(BlockRequest):
    """Add to a block."""

    text: Text = Field(min_length=1, description="What to add at the end")
    separator: Text = Field("\n", description="What stands between, where there is something already")
    version: int | None = Field(None, ge=1, description="Only if it still has this version")


def append(tenant: Tenant, request: AppendBlockRequest) -> BlockView:
    """Add to what a block says; nothing another writer added is lost."""

    def longer(block: Block) -> JsonObject:
        return {"value": f"{block.value}{request.separator if block.value else ''}{request.text}"}

    return _rewritten(tenant, request.id, request.version, "append block", longer)


class ReplaceInBlockRequest(BlockRequest):
    """Change a piece of a block."""

    old: Text = Field(min_length=1, description="The piece as it stands there, once")
    new: Text = Field(description="What to put in its place; nothing deletes it")
    everywhere: bool = Field(False, description="Wherever it stands, not just once")
    version: int | None = Field(None, ge=1, description="Only if it still has this version")


def replace(tenant: Tenant, request: ReplaceInBlockRequest) -> BlockView:
    """Change a piece of what a block says, which must be there."""

    def exchanged(block: Block) -> JsonObject:
        times = block.value.count(request.old)
        if not times:
            raise InvalidInput("that text is not in the block", remedy="read the block again", id=block.id)
        if times > 1 and not request.everywhere:
            raise InvalidInput(
                f"that text is {times} times in the block", remedy="give more of it, or everywhere=True", id=block.id
            )
        return {"value": block.value.replace(request.old, request.new)}

    return _rewritten(tenant, request.id, request.version, "replace in block", exchanged)


class ReviseBlockRequest(BlockRequest):
    """Change what a block is; what is left out stays."""

    label: Name | None = Field(None, description="human, persona, system, …")
    limit: int | None = Field(None, ge=1, description="How many characters it may have; not fewer than it has")
    description: Text | None = Field(None, description="What it is for")
    template_name: Text | None = Field(None, description="The name of the template")
    metadata: Json | None = Field(None, description="Its metadata from now on")
    version: int | None = Field(None, ge=1, description="Only if it still has this version")


def revise(tenant: Tenant, request: ReviseBlockRequest) -> BlockView:
    """Change a block's label, limit, description or metadata."""
    given = request.model_dump(exclude={"id", "version"}, exclude_none=True)
    if not given:
        raise InvalidInput("nothing to change was given", remedy="give label, limit, description or metadata")
    return _rewritten(tenant, request.id, request.version, "revise block", lambda block: given)


def _rewritten(
    tenant: Tenant, id: str, version: int | None, action: str, change: Callable[[Block], JsonObject]
) -> BlockView:
    def attempt() -> BlockView:
        block = as_of_version(load(tenant, Block, id), version)
        fields = change(block)
        _refuse_too_long(fields.get("value", block.value), fields.get("limit", block.limit))
        after = rewritten(block, tenant, **fields)
        steps: list[Step] = [Update(after), *_kept(tenant, block, after)]
        if after.label != block.label:
            steps += _relabel_steps(tenant, after)
        entry = logged(tenant, "update", action, None, id=id, fields=sorted(fields))
        try:
            commit(tenant, [*steps, entry])
        except RequirementFailed as conflict:
            raise _label_taken(after, conflict) from None
        return block_view(tenant, after.changed(version=block.version + 1))

    return retry_unless_pinned(version, attempt)


def _kept(tenant: Tenant, before: Block, after: Block) -> list[Step]:
    """Keep the former value where it changes, and drop the oldest ones."""
    if before.value == after.value:
        return []
    revision = made(
        BlockRevision,
        tenant,
        block_id=before.id,
        number=before.version,
        value=before.value,
        limit=before.limit,
        held_from=before.updated_at,
        held_to=after.updated_at,
    )
    steps: list[Step] = [Insert(revision)]
    if before.version > REVISIONS_KEPT:
        old = Compare("number", "<=", before.version - REVISIONS_KEPT)
        steps.append(DeleteWhere(BlockRevision, (equal("block_id", before.id), old)))
    return steps


def _relabel_steps(tenant: Tenant, block: Block) -> list[Step]:
    """Links carry the label; no agent may end up with two blocks of one label."""
    steps: list[Step] = []
    for link in tenant.find(Query(BlockLink, (equal("block_id", block.id),))).records:
        steps += [_label_is_free(link.agent_id, block.label), Update(rewritten(link, tenant, block_label=block.label))]
    return steps


def _label_is_free(agent: str, label: str) -> Absent:
    return Absent(BlockLink, (equal("agent_id", agent), equal("block_label", label)))


def _refuse_too_long(value: str, limit: int) -> None:
    if len(value) > limit:
        raise TooLarge(
            f"{len(value)} characters do not fit into a block of {limit}",
            remedy="shorten it, or raise the block's limit first",
            characters=len(value),
            limit=limit,
        )


class BlockState(Reply):
    """What a block said for a while."""

    number: int
    value: str
    limit: int
    held_from: datetime
    held_to: datetime | None = None
    by: str | None = None


class BlockHistory(ListReply[BlockState]):
    """What a block said, the oldest first; the last is what it says now."""

    id: str
    states: list[BlockState]


def history(tenant: Tenant, request: BlockRequest) -> BlockHistory:
    """What a block said before, oldest first; the last is what it says now. The last hundred are kept."""
    block = load(tenant, Block, request.id)
    kept = tenant.find(Query(BlockRevision, (equal("block_id", block.id),), (Order("number"),))).records
    fields = {"number", "value", "limit", "held_from", "held_to"}
    states = [BlockState(**one.model_dump(include=fields), by=one.created_by) for one in kept]
    now_says = BlockState(number=block.version, value=block.value, limit=block.limit, held_from=block.updated_at)
    return BlockHistory(id=block.id, states=[*states, now_says])


class AttachBlockRequest(BlockRequest):
    """A block and an agent."""

    agent: Id = Field(description="The agent")


def attach(tenant: Tenant, request: AttachBlockRequest) -> BlockView:
    """Give an agent a block; shared, if others have it. Giving it twice is giving it once."""
    block = load(tenant, Block, request.id)
    load_named(tenant, Agent, request.agent)
    if not tenant.count(Query(BlockLink, _link(request))):
        entry = logged(tenant, "update", "attach block", None, id=block.id, agent=request.agent)
        try:
            commit(tenant, [*_attach_steps(tenant, block, request.agent), entry])
        except (RequirementFailed, DuplicateKey) as conflict:
            if not tenant.count(Query(BlockLink, _link(request))):
                raise _label_taken(block, conflict) from None
    return block_view(tenant, block)


def detach(tenant: Tenant, request: AttachBlockRequest) -> BlockView:
    """Take a block away from an agent; the block stays."""
    block = load(tenant, Block, request.id)
    if not tenant.count(Query(BlockLink, _link(request))):
        raise NotFound(f"agent '{request.agent[:80]}' does not have that block", remedy="see the blocks of the agent")
    entry = logged(tenant, "update", "detach block", None, id=block.id, agent=request.agent)
    commit(tenant, [DeleteWhere(BlockLink, _link(request)), entry])
    return block_view(tenant, block)


def _link(request: AttachBlockRequest) -> tuple[Filter, ...]:
    return (equal("block_id", request.id), equal("agent_id", request.agent))


def _attach_steps(tenant: Tenant, block: Block, agent: str) -> list[Step]:
    if block.is_template:
        raise InvalidInput("a template is never in a prompt", remedy="make a block from it: block add --template ID")
    link = made(BlockLink, tenant, block_id=block.id, block_label=block.label, agent_id=agent)
    taken = _label_is_free(agent, block.label)
    label_stays = Require(Block, block.id, {"label": block.label})
    return [*at_work(tenant, agent), label_stays, taken, Insert(link)]


def _label_taken(block: Block, conflict: Conflict) -> Conflict:
    if conflict.details.get("table", "block_link") != "block_link":
        return conflict
    return Conflict(
        f"an agent has a block '{block.label}' already", remedy="detach that one first, or choose another label"
    )


def block_view(tenant: Tenant, block: Block) -> BlockView:
    links = tenant.select(Query(BlockLink, (equal("block_id", block.id),)), ("agent_id",))
    fields = block.model_dump(include=set(BlockView.model_fields))
    agents: Sequence[str] = [agent for (agent,) in links]
    until = restorable_until(tenant, block)
    return BlockView(
        **fields, user=block.user_id, characters=len(block.value), agents=list(agents), restorable_until=until
    )
