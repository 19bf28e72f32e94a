"""The commands about a person: whom they are about is an option, and an erasure is not done by mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

import recollect
from recollect.interfaces.cli import main


def test_a_person_is_found_handed_over_and_erased_by_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(tmp_path / "a.db")
    monkeypatch.setenv("RECOLLECT_EMBEDDER", "hash")
    with recollect.open(store, embedder="hash") as mem:
        mem.user.add("Ann Lee", id="ann-lee-1")
        mem.remember("She likes tea", user="ann-lee-1")
    whom = ["--user", "ann-lee-1", "--store", store]
    assert main.run(["privacy", "find", *whom]) == 0
    assert "She likes tea" in capsys.readouterr().out
    assert main.run(["privacy", "export", str(tmp_path / "out"), *whom]) == 0
    assert (tmp_path / "out" / "README.md").exists()
    assert main.run(["privacy", "erase", *whom]) != 0
    assert "--yes" in capsys.readouterr().err
    assert main.run(["privacy", "erase", *whom, "--yes", "--reason", "a letter"]) == 0
    assert "nothing of it was found" in capsys.readouterr().out
    assert main.run(["privacy", "certificates", "--store", store]) == 0
    assert "done" in capsys.readouterr().out
