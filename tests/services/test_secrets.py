"""What the settings say of secrets: masked, refused or kept, and what the caller is told."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from pathlib import Path
from typing import Annotated, Any

import pytest

import recollect
from recollect.domain.sources import Field, QueryRun
from recollect.domain.text.secrets import SecretPolicy
from recollect.errors import InvalidInput, InvalidSettings, SecretFound
from recollect.ports.query import Query
from recollect.services import secrets
from recollect.services.memories.remember import RememberManyRequest
from recollect.services.requests import AS_GIVEN, Request
from recollect.services.secrets import Masking
from recollect.settings import load
from recollect.testing.made_secrets import TEMPLATES, made

KEY, _ = made("GitHub token")
OTHER, _ = made("GitHub token", 1)
CARD, _ = made("Visa card")


def test_a_receipt_says_what_was_masked_where(every: Any) -> None:
    told = every.remember(
        f"deploy with {KEY} or {OTHER}", tags=[f"key {KEY}"], metadata={"deep": [{"password": "Tr0ub4dor&3x"}]}
    )
    assert [one.model_dump() for one in told.masked] == [
        {"field": "content", "kind": "GitHub token", "count": 2},
        {"field": "tags.0", "kind": "GitHub token", "count": 1},
        {"field": "metadata.deep.0.password", "kind": "password", "count": 1},
    ]
    shown = every.show(told.id)
    assert KEY not in repr(shown)
    assert shown.text.startswith("deploy with [secret: GitHub token ")
    assert shown.metadata == {"deep": [{"password": "[secret: password]"}]}
    assert every.verify().sound


def test_requests_looked_at_together_are_masked_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(5)
    texts = [
        "tea is hot",
        "the key is under the mat",
        "a https://example.com/a/long/path/of/many/words",
        "K İ 漢字",
        "",
    ]

    def one() -> dict[str, Any]:
        secret = made(chance.choice(list(TEMPLATES)), chance.randrange(9))[1]
        text = chance.choice([secret, *texts]) if chance.random() < 0.1 else "tea is hot"
        fields: dict[str, Any] = {"content": text, "author": "Ann", "at": "2024-05-08"}
        if chance.random() < 0.1:
            fields |= chance.choice(
                [
                    {"author": secret},
                    {"tags": [secret, "blue"]},
                    {"metadata": {"password": "Tr0ub4dor&3x"}},
                    {"content": {"text": secret}},
                ]
            )
        return fields

    def masked(request: RememberManyRequest) -> tuple[Any, Any]:
        masking = Masking(SecretPolicy(), lambda hash: hash)
        return masking.model(request, "").model_dump(), masking.found

    for size in (1, 7, 8, 9, 40, 200):
        request = RememberManyRequest(memories=[one() for _ in range(size)])
        together = masked(request)
        with monkeypatch.context() as alone:
            alone.setattr(secrets, "FEWEST_TOGETHER", 10**9)
            assert masked(request) == together
    assert len(together[1]) > 10


def test_a_reply_without_secrets_says_nothing_of_them(each: Any) -> None:
    told = each.remember("tea is hot")
    assert told.masked == []
    assert "masked" not in told.model_dump_json()
    assert "masked" not in repr(told)


def test_equal_secrets_have_equal_marks_and_another_organization_has_others(each: Any) -> None:
    first, second = each.remember(f"one {KEY}"), each.remember(f"two {KEY} and {OTHER}")
    texts = [each.show(one.id).text for one in (first, second)]
    marks = [part.split("]")[0] for text in texts for part in text.split("[")[1:]]
    assert marks[0] == marks[1] != marks[2]
    elsewhere = each.within("elsewhere")
    assert marks[0] not in elsewhere.show(elsewhere.remember(f"one {KEY}").id).text


def test_nobody_can_guess_a_card_or_a_password_from_its_mark(each: Any) -> None:
    told = each.remember(f"card {CARD}, postgresql://app:hunter22@db/shop")
    assert each.show(told.id).text == "card [secret: card number], postgresql://app:[secret: password in a URL]@db/shop"


def test_what_was_stored_under_a_secret_is_found_by_it(each: Any) -> None:
    each.item.put([KEY], KEY, value={"n": 1})
    assert each.item.get([KEY], KEY).item.value == {"n": 1}
    assert each.item.get([KEY], OTHER).item is None
    told = each.remember(f"the token is {KEY}")
    found = each.recall(f"what is {KEY}?")
    assert [hit.id for hit in found.hits] == [told.id]
    assert found.masked[0].field == "query"


def test_what_the_caller_gave_stays_as_it_is(each: Any) -> None:
    metadata: dict[str, Any] = {"inner": {"token": KEY}, "list": [KEY]}
    before = json.dumps(metadata)
    each.remember("x", metadata=metadata)
    assert json.dumps(metadata) == before


def test_bytes_keep_their_length(each: Any) -> None:
    body = b"\x82\xa3key\xd9" + bytes([len(KEY)]) + KEY.encode() + b"\xa4more\x01"
    told = each.checkpoint.put("t", "1", body=body, items={"s": [KEY.encode(), b"plain"]})
    assert {one.field for one in told.masked} == {"body", "items.s.0"}
    (kept,) = each.checkpoint.get("t", "1").checkpoints
    assert len(kept.body) == len(body)
    assert kept.body.startswith(body[:7] + b"[secret: GitHub token***")
    assert kept.body.endswith(b"]\xa4more\x01")


def test_refused(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "store.db", embedder="hash", secrets="refuse") as mem:
        with pytest.raises(SecretFound) as refused:
            mem.remember_many(["fine", f"not {KEY}"])
        assert refused.value.message == "remember_many: there are secrets in memories.1.content (GitHub token)"
        assert KEY not in json.dumps(refused.value.as_dict())
        assert refused.value.details["found"] == [{"field": "memories.1.content", "kind": "GitHub token", "count": 1}]
        assert mem.stats().memories == 0
        assert mem.recall(f"who has {KEY}?").masked  # a question is answered, without the secret
        agent = mem.agent.add("Bee").id
        place = mem.workspace.add(agent).id
        with pytest.raises(SecretFound):
            mem.workspace.write(place, ".env", f"TOKEN={KEY}")
        logged = [(one.action, one.success) for one in mem.log().entries]
        assert ("remember_many", False) in logged


def test_kept_and_allowed(tmp_path: Path) -> None:
    hashed = f"sha256:{hashlib.sha256(OTHER.encode()).hexdigest()}"
    with recollect.open(tmp_path / "kept.db", embedder="hash", secrets="keep") as mem:
        assert mem.show(mem.remember(f"it is {KEY}").id).text == f"it is {KEY}"
    with recollect.open(tmp_path / "allowed.db", embedder="hash", secrets_allow=["4111.*", hashed]) as mem:
        text = f"card 4111111111111111, token {OTHER}"
        assert mem.show(mem.remember(text).id).text == text
        assert mem.remember(f"token {KEY}").masked


def test_the_settings_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSettings, match="secrets_allow"):
        load(secrets_allow=["("])
    with pytest.raises(InvalidSettings, match="secrets"):
        load(secrets="hide")
    monkeypatch.setenv("RECOLLECT_SECRETS", "refuse")
    monkeypatch.setenv("RECOLLECT_SECRETS_ALLOW", "a+,b+")
    monkeypatch.setenv("RECOLLECT_CONNECTIONS__SECRETS", "ONE,TWO")
    settings = load()
    assert (settings.secrets, settings.secrets_allow) == ("refuse", ["a+", "b+"])
    assert settings.connections.secrets == ["ONE", "TWO"]


def test_passwords_of_users_are_used_as_they_are(each: Any) -> None:
    each.user.add("Ann", id="ann", email="ann@example.com")
    each.user.revise("ann", role="writer", password=KEY)
    each.within(actor="ann").user.change_password(password=KEY, new_password=OTHER)


def test_a_value_that_is_nested_too_deep_is_refused(each: Any) -> None:
    deep: Any = KEY
    for _ in range(300):
        deep = [deep]
    with pytest.raises(InvalidInput):
        each.remember("x", metadata={"deep": deep})


def test_a_field_is_marked_as_given_whether_it_may_be_empty_or_not() -> None:
    class Example(Request):
        one: Annotated[str, AS_GIVEN]
        two: Annotated[str, AS_GIVEN] | None = None
        three: Annotated[str | None, AS_GIVEN] = None
        four: str | None = None

    given = Example(one=KEY, two=KEY, three=KEY, four=KEY)
    masked = Masking(SecretPolicy(), str).model(given, "")
    assert (masked.one, masked.two, masked.three) == (KEY, KEY, KEY)
    assert masked.four != KEY


# -- files -------------------------------------------------------------------------------------------------------------


def test_files_of_a_workspace(each: Any, tmp_path: Path) -> None:
    place = each.workspace.add(each.agent.add("Bee").id).id
    told = each.workspace.write(place, "deploy.sh", f"export TOKEN={KEY}\n密钥\n")
    assert [(one.field, one.kind) for one in told.masked] == [("deploy.sh", "GitHub token")]
    assert KEY not in each.workspace.read(place, "deploy.sh").text
    binary = b"\x00\xff" + KEY.encode()
    each.workspace.write(place, "a.bin", base64=base64.b64encode(binary).decode())
    assert each.workspace.read(place, "a.bin").base64 is not None


def test_a_folder_keeps_its_secrets_when_it_was_pulled_and_is_pushed(each: Any, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".env").write_text(f"TOKEN={KEY}\n")
    (folder / "plain.txt").write_text("plain")
    place = each.workspace.add(each.agent.add("Bee").id).id
    pulled = each.workspace.pull(place, str(folder))
    assert [(one.field, one.count) for one in pulled.masked] == [(".env", 1)]
    assert KEY not in each.workspace.read(place, ".env").text
    each.workspace.write(place, "plain.txt", "changed")
    pushed = each.workspace.push(place, str(folder))
    assert [one.path for one in pushed.left_out] == [".env"]
    assert (folder / ".env").read_text() == f"TOKEN={KEY}\n"
    assert (folder / "plain.txt").read_text() == "changed"
    assert each.workspace.pull(place, str(folder)).changed == 0


def test_files_by_a_setting_of_their_own(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "store.db", embedder="hash", secrets_in_files="keep") as mem:
        place = mem.workspace.add(mem.agent.add("Bee").id).id
        assert mem.workspace.write(place, ".env", f"TOKEN={KEY}").masked == []
        assert mem.workspace.read(place, ".env").text == f"TOKEN={KEY}"
        assert mem.remember(f"token {KEY}").masked


# -- data --------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("one_engine")
def test_samples_of_a_source_are_masked_and_its_rows_are_not(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("name,token\n" + f"ann,{KEY}\n" * 3 + f"bob,{OTHER}\n")
    with recollect.open(tmp_path / "store.db", embedder="hash") as mem:
        mem.source.add(str(tmp_path / "users.csv"))
        store, scope = mem._core.store, mem._scope
        assert KEY not in repr(store.find(scope, Query(Field)).records)
        assert KEY not in repr(mem.source.find(KEY))
        asked = mem.query.run("select token, count(*) as n from users group by token order by n desc")
        assert asked.rows[0] == [KEY, 3]
        assert KEY not in repr(store.find(scope, Query(QueryRun)).records)
        assert KEY not in mem.query.remember(str(asked.run)).text
        nothing = mem.query.run(f"select * from users where token = '{KEY}'")
        assert (nothing.rows, nothing.masked[0].field) == ([], "sql")


@pytest.mark.parametrize("format", sorted(TEMPLATES))
def test_a_mark_is_no_secret(each: Any, format: str) -> None:
    """What is shown and stored again stays as it is."""
    secret, text = made(format)
    first = each.show(each.remember(text).id)
    assert secret not in repr(first)
    assert each.remember(f"again: {first.text}").masked == []


# -- imports -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """An export of a store that kept its secrets."""
    with recollect.open(tmp_path / "kept.db", embedder="hash", secrets="keep") as mem:
        mem.remember(f"deploy with {KEY}", id="one", tags=[KEY], cites=[f"user:ann:said {KEY}"])
        mem.revise("one", f"deploy with {OTHER}", why=f"{KEY} is over")
        mem.remember("nothing to hide", id="two")
        mem.message.add("user", f"my card is {CARD}", session=mem.session.add("Talk").id)
        mem.item.put(["a"], "k", value={"password": "Tr0ub4dor&3x"})
        mem.export(str(tmp_path / "export.jsonl"))
    return tmp_path / "export.jsonl"


def test_an_import_masks_what_an_older_store_kept(exported: Path, tmp_path: Path) -> None:
    with recollect.open(tmp_path / "new.db", embedder="hash") as mem:
        told = mem.import_(str(exported))
        kinds = {(one.field, one.kind) for one in told.masked}
        assert {("memory.content.text", "GitHub token"), ("message.text", "card number")} <= kinds
        assert mem.verify().sound
        assert mem.show("one").text.startswith("deploy with [secret: GitHub token")
        assert KEY not in repr(mem.history("one"))
        mem.reindex()
        assert mem.doctor().well
        assert mem.recall(OTHER, by="meaning").hits[0].id == "one"
        assert mem.import_(str(exported)).records == 0
        mem.export(str(tmp_path / "again.jsonl"))
    data = (tmp_path / "again.jsonl").read_text() + (tmp_path / "new.db").read_bytes().decode("latin-1")
    for secret in (KEY, OTHER, CARD, "Tr0ub4dor&3x"):
        assert secret not in data


def test_an_import_with_secrets_is_refused_before_anything_is_written(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "deploy.md").write_text(f"# Deploy\n\nuse {KEY}\n")
    with recollect.open(tmp_path / "new.db", embedder="hash", secrets="refuse") as mem:
        with pytest.raises(SecretFound) as refused:
            mem.import_(str(exported))
        assert KEY not in json.dumps(refused.value.as_dict())
        with pytest.raises(SecretFound):
            mem.call("import_", path=str(tmp_path / "notes"), source="markdown")
        assert mem.stats().memories == 0


def test_an_import_of_another_product_is_masked(each: Any, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "deploy.md").write_text(f"# Deploy\n\nuse {KEY}\n")
    told = each.call("import_", path=str(tmp_path / "notes"), source="markdown")
    assert told.masked
    assert KEY not in repr(told) + repr(each.list())
    assert each.call("import_", path=str(tmp_path / "notes"), source="markdown").records == 0


def test_what_was_kept_before_is_found_for_a_person_by_the_secret_itself(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "store.db", embedder="hash", secrets="keep") as mem:
        mem.user.add("Ann", id="ann")
        kept = mem.remember(f"pays with {CARD}").id
    with recollect.open(tmp_path / "store.db", embedder="hash") as mem:
        assert kept in repr(mem.call("privacy.find", user="ann", also=[CARD]))
