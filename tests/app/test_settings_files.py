"""Settings files that are found by themselves: which counts, and what one that came with a project may not do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.app import show_settings
from recollect.errors import InvalidSettings
from recollect.interfaces.cli import main as cli
from recollect.settings import load, loaded, service_key

KEY = "rk.ZGVmYXVsdA.team.0123456789012345678901234567890123456789012"
TEAM = "https://memory.example.com"
PROFILES = f"""
profile: home
profiles:
  team: {{store: {TEAM}, api_key_file: team.key}}
  home: {{store: notes.db, organization: me}}
"""
Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home directory with a project in it, two folders deep."""
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work" / "project" / "src").mkdir(parents=True)
    (tmp_path / ".config" / "recollect").mkdir(parents=True)
    (tmp_path / ".config" / "recollect" / "team.key").write_text(KEY)
    monkeypatch.chdir(tmp_path / "work" / "project" / "src")


@pytest.fixture
def project(tmp_path: Path) -> Write:
    return lambda text: _written(tmp_path / "work" / "project" / "recollect.yaml", text)


@pytest.fixture
def user(tmp_path: Path) -> Write:
    return lambda text: _written(tmp_path / ".config" / "recollect" / "config.yaml", text)


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_is_found_where_nothing_is() -> None:
    assert load().store == "recollect.db"


def test_the_file_of_a_project_is_found_from_any_folder_in_it(project: Write) -> None:
    file = project("store: team.db\norganization: acme\n")
    assert load().store == str(file.parent / "team.db")
    assert load().organization == "acme"
    assert loaded().origins["store"] == str(file)


def test_nothing_is_looked_for_above_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "work" / "project"))
    (tmp_path / "work" / "recollect.yaml").write_text("store: above.db\n")
    assert load().store == "recollect.db"


def test_who_names_a_store_is_not_given_settings_of_a_project(project: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    project("store: team.db\norganization: acme\n")
    assert (load("mine.db").store, load("mine.db").organization) == ("mine.db", "default")
    monkeypatch.setenv("RECOLLECT_STORE", "other.db")
    assert (load().store, load().organization) == ("other.db", "default")


def test_profiles_are_chosen_by_argument_environment_project_and_by_themselves(
    tmp_path: Path, user: Write, project: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    user(PROFILES)
    folder = tmp_path / ".config" / "recollect"
    assert (load().store, load().organization) == (str(folder / "notes.db"), "me")
    project("profile: team\n")
    assert load().store == TEAM
    assert service_key(load()) == KEY
    monkeypatch.setenv("RECOLLECT_PROFILE", "home")
    assert load().organization == "me"
    assert load(profile="team").store == TEAM


def test_a_profile_that_was_asked_for_counts_more_than_the_environment(
    user: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    user(PROFILES)
    monkeypatch.setenv("RECOLLECT_STORE", "elsewhere.db")
    monkeypatch.setenv("RECOLLECT_API_KEY", "rk.of.another.service")
    assert service_key(load(profile="team")) == KEY
    monkeypatch.setenv("RECOLLECT_PROFILE", "team")
    with pytest.raises(InvalidSettings, match="both RECOLLECT_STORE and RECOLLECT_PROFILE"):
        load()


def test_the_key_of_a_profile_goes_to_its_address_however_that_was_named(user: Write) -> None:
    user(PROFILES)
    assert service_key(load(f"{TEAM}/")) == KEY
    with pytest.raises(InvalidSettings, match="no key for the service"):
        service_key(load("https://memory.example.com.evil.example"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("key_command: touch owned\n", "may not set key_command"),
        ("embedder: {provider: openai, base_url: 'https://evil.example'}\n", "may not set embedder"),
        ("profiles: {a: {store: b.db}}\n", "may not set profiles"),
        ("store: postgresql://evil.example/db\n", "may name a file"),
        ("store: https://evil.example/${HOME}\n", r"may not use \$"),
        ("store: a.db\nprofile: team\n", "a store and a profile"),
    ],
)
def test_the_file_of_a_project_may_not_say_everything(project: Write, text: str, said: str) -> None:
    project(text)
    with pytest.raises(InvalidSettings, match=said):
        load()


def test_no_project_gets_a_key_that_is_meant_for_another_service(
    project: Write, user: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_API_KEY", KEY)
    project("store: https://evil.example\n")
    with pytest.raises(InvalidSettings, match="no profile for"):
        load()
    user(PROFILES)
    project(f"store: {TEAM}\n")
    assert service_key(load()) == KEY


def test_the_key_that_encrypts_a_store_is_sent_to_no_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_KEY", "correct horse battery staple")
    with pytest.raises(InvalidSettings, match="no key for the service"):
        service_key(load(TEAM))
    monkeypatch.setenv("RECOLLECT_KEY", KEY)
    assert service_key(load(TEAM)) == KEY


def test_a_file_with_a_key_must_be_for_its_owner_alone(user: Write, tmp_path: Path) -> None:
    file = user(f"profiles: {{team: {{store: {TEAM}, api_key: {KEY}}}}}\n")
    file.chmod(0o644)
    with pytest.raises(InvalidSettings, match="others may read it") as refused:
        load(profile="team")
    assert "chmod 600" in refused.value.remedy
    assert KEY not in str(refused.value)
    file.chmod(0o600)
    assert service_key(load(profile="team")) == KEY
    named = _written(tmp_path / "named.yaml", f"store: {TEAM}\napi_key: {KEY}\n")
    named.chmod(0o640)
    with pytest.raises(InvalidSettings, match="others may read it"):
        load(named)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no such modes")
def test_a_file_that_anybody_may_write_does_not_count(project: Write) -> None:
    project("store: theirs.db\n").chmod(0o666)
    assert load().store == "recollect.db"
    assert any("everybody may write" in one.says for one in show_settings().files)


def test_an_unknown_profile_is_told_which_there_are(user: Write) -> None:
    user(PROFILES)
    with pytest.raises(InvalidSettings, match="no profile 'teem'") as refused:
        load(profile="teem")
    assert "team, home" in refused.value.remedy


def test_config_show_says_where_everything_is_from_and_no_key(
    user: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    user(PROFILES)
    monkeypatch.setenv("RECOLLECT_API_KEY", KEY)
    assert cli.run(["config", "show", "--profile", "team"]) == 0
    shown = capsys.readouterr().out
    assert KEY not in shown
    assert all(word in shown for word in ("profile team", TEAM, "the environment", "config.yaml", "home", "team"))
