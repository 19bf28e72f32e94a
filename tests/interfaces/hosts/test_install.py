"""`recollect install`: settings files of hosts keep all that is not ours, and get back to what they were."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path

import pytest

from recollect.errors import InvalidInput
from recollect.interfaces.cli.main import run
from recollect.interfaces.hosts import json_text
from recollect.interfaces.hosts.hosts import HOSTS
from recollect.interfaces.hosts.install import InstallRequest, UninstallRequest, install, uninstall

COMMENTED = """\ufeff{
\t// my servers
\t"servers": {
\t\t"other": {"url": "http://127.0.0.1//x", /* keep */ "note": "\\"quoted\\""},
\t},
\t"inputs": [], // none
}
"""
CODEX = """# mine
model = "gpt-5"
note = '''
[mcp_servers.recollect]
not a table
'''

[mcp_servers.other]
command = "x"  # keep
[mcp_servers.other.env]
A = "1"
"""
SETTINGS = {
    ".claude.json": '{"numStartups": 3, "mcpServers": {"other": {"command": "x"}}}',
    ".claude/settings.json": '{\r\n  "hooks": {\r\n    "Stop": [\r\n      {"hooks": [{"type": "command",'
    ' "command": "say done"}]}\r\n    ]\r\n  }\r\n}\r\n',
    ".codex/config.toml": CODEX,
    ".gemini/settings.json": '{\n    "theme": "默认",\n    "hooks": {"disabled": []}\n}',
    ".cursor/mcp.json": '{"mcpServers": {"x": {"url": "y"}}}',
    ".config/Code/User/mcp.json": COMMENTED,
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home of mine"
    for name, text in SETTINGS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
        (folder / name).chmod(0o640)
    monkeypatch.setenv("HOME", str(folder))
    for name in ("CODEX_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return folder


def texts(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_bytes().decode() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("host", HOSTS)
def test_installing_twice_is_the_same_as_once_and_undoing_it_leaves_every_byte(host: str, home: Path) -> None:
    before = texts(home)
    changed = install(InstallRequest(host=host, yes=True)).changed
    assert changed
    once = texts(home)
    assert install(InstallRequest(host=host, yes=True)).changed == []
    assert texts(home) == once
    for file in changed:
        if Path(file).relative_to(home).as_posix() in SETTINGS:
            assert stat.S_IMODE(os.stat(file).st_mode) == 0o640
    state = next(one for one in install(InstallRequest()).hosts if one.host == host)
    assert (state.yours, state.project) == ("installed", "not installed")
    uninstall(UninstallRequest(host=host, yes=True))
    assert texts(home) == before
    assert uninstall(UninstallRequest(host=host, yes=True)).changed == []


def test_what_is_written_is_what_the_hosts_read(home: Path) -> None:
    for host in HOSTS:
        install(InstallRequest(host=host, yes=True, store="mem ory.db"))
    settings = json.loads((home / ".claude/settings.json").read_text())
    assert settings["hooks"]["Stop"][0]["hooks"][0]["command"] == "say done"
    assert settings["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"].endswith("'")  # the path has a space
    server = json.loads((home / ".claude.json").read_text())["mcpServers"]
    assert server["recollect"]["args"][-1] == str(Path.cwd() / "mem ory.db")
    assert server["other"] == {"command": "x"}
    codex = tomllib.loads((home / ".codex/config.toml").read_text())
    assert set(codex["mcp_servers"]) == {"other", "recollect"}
    assert codex["note"].startswith("[mcp_servers.recollect]")
    gemini = json.loads((home / ".gemini/settings.json").read_text())
    assert gemini["hooks"]["BeforeAgent"][0]["hooks"][0]["timeout"] == 10_000
    assert json.loads((home / ".cursor/hooks.json").read_text())["version"] == 1
    code = json_text.read((home / ".config/Code/User/mcp.json").read_text()).value
    assert set(code["servers"]) == {"other", "recollect"}


def test_a_project_gets_files_that_others_can_use(home: Path, tmp_path: Path) -> None:
    for host in HOSTS:
        install(InstallRequest(host=host, project=True, yes=True))
    written = texts(tmp_path)
    assert json.loads(written[".mcp.json"])["mcpServers"]["recollect"]["command"] == "recollect"
    assert {".codex/config.toml", ".gemini/settings.json", ".cursor/hooks.json", ".vscode/mcp.json"} <= set(written)
    for host in HOSTS:
        uninstall(UninstallRequest(host=host, project=True, yes=True))
    assert {name for name in texts(tmp_path) if not name.startswith("home")} == set()


@pytest.mark.parametrize(
    ("host", "file", "broken"),
    [
        ("claude-code", ".claude/settings.json", '{"hooks": {"Stop": [}'),
        ("claude-code", ".claude.json", '{"mcpServers": []}'),
        ("claude-code", ".claude.json", '{"mcpServers": {"recollect": {"command": "mine", "args": []}}}'),
        ("codex", ".codex/config.toml", "a = = 1"),
        ("codex", ".codex/config.toml", "mcp_servers = {recollect = {command = 'other', args = []}}"),
        ("codex", ".codex/config.toml", "mcp_servers = {other = {command = 'x'}}"),
        ("vscode", ".config/Code/User/mcp.json", "[1, 2]"),
        ("gemini", ".gemini/settings.json", "\udcff"),
    ],
)
def test_a_broken_file_is_refused_and_nothing_is_changed(host: str, file: str, broken: str, home: Path) -> None:
    (home / file).write_bytes(broken.encode("utf-8", "surrogateescape"))
    before = {name: (home / name).read_bytes() for name in SETTINGS}
    with pytest.raises(InvalidInput, match=Path(file).name) as refused:
        install(InstallRequest(host=host, yes=True))
    assert refused.value.remedy
    assert {name: (home / name).read_bytes() for name in SETTINGS} == before


def test_without_a_yes_nothing_is_written_but_the_diff_is_shown(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = texts(home)
    assert run(["install", "claude-code"]) == 2
    said = capsys.readouterr().err
    assert '+    "recollect"' in said.replace("\t", " ")
    assert "--yes" in said
    assert run(["install", "gemini", "--dry-run"]) == 0
    assert texts(home) == before
    assert run(["install"]) == 0
    assert "not installed" in capsys.readouterr().out


def test_what_a_user_adds_later_stays_and_a_link_stays_one(home: Path) -> None:
    kept = home / "dotfiles.json"
    kept.write_text('{"theme": "dark"}')
    (home / ".gemini/settings.json").unlink()
    (home / ".gemini/settings.json").symlink_to(kept)
    install(InstallRequest(host="gemini", yes=True))
    assert (home / ".gemini/settings.json").is_symlink()
    changed = json.loads(kept.read_text())
    changed["hooks"]["AfterAgent"].append({"hooks": [{"type": "command", "command": "say done"}]})
    changed["mcpServers"]["later"] = {"command": "y"}
    kept.write_text(json.dumps(changed))
    uninstall(UninstallRequest(host="gemini", yes=True))
    assert json.loads(kept.read_text()) == {
        "theme": "dark",
        "mcpServers": {"later": {"command": "y"}},
        "hooks": {"AfterAgent": [{"hooks": [{"type": "command", "command": "say done"}]}]},
    }
