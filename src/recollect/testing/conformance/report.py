"""The report of the conformance kit on one store: which verbs it has, which rules it keeps, what else it can do.

A plug-in for pytest, which `python -m recollect.testing.conformance package:make_store` runs in a process of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from recollect.ports.protocols import members
from recollect.ports.records import OPTIONAL, Capabilities, RecordStore, missing_verbs
from recollect.ports.vectors import TenantVectors, VectorTruth

MakeStore = Callable[[Path], RecordStore]
LONGEST = 110


def named_factory(name: str) -> MakeStore:
    """What `package.module:function` names."""
    module, _, function = name.partition(":")
    try:
        factory: MakeStore = getattr(import_module(module), function or "make_store")
    except (ImportError, AttributeError) as error:
        raise pytest.UsageError(f"'{name}' cannot be imported: {error}") from None
    return factory


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--make-store", help="package.module:function that makes an empty record store in a folder")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    factory = named_factory(config.getoption("--make-store"))
    terminal = config.pluginmanager.getplugin("terminalreporter")
    config.pluginmanager.unregister(terminal)  # the report says it shorter
    config.pluginmanager.register(Report(factory))


class Report:
    def __init__(self, factory: MakeStore) -> None:
        self._factory = factory
        self._outcomes: dict[str, Counter[str]] = {}
        self._failures: list[str] = []

    @pytest.fixture
    def make_store(self) -> MakeStore:
        return self._factory

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        *_, name = report.nodeid.split("::")
        rule = str(dict(report.user_properties).get("rules", "other"))
        self._outcomes.setdefault(rule, Counter())[report.outcome] += 1
        if report.failed:
            told = getattr(report.longrepr, "reprcrash", None)
            said = (told.message if told else report.longreprtext).strip().splitlines() or [""]
            self._failures.append(f"  {rule}: {name.removeprefix('test_').replace('_', ' ')}\n    {said[0][:LONGEST]}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        with TemporaryDirectory() as folder:
            store = self._factory(Path(folder))
            lacking = missing_verbs(store)
            lines = [*_verbs(store, lacking), "", *self._rules(), "", *([] if lacking else _optional(store))]
            if "close" not in lacking:
                store.close()
        failed = len(self._failures)
        if failed:
            lines += ["", "Rules that are broken", *self._failures]
        kept = sum(outcomes["passed"] for outcomes in self._outcomes.values())
        told = "does not pass" if failed else "passes"
        print("\n".join([*lines, "", f"The store {told} the kit: {kept} rules kept, {failed} broken."]), flush=True)

    def _rules(self) -> list[str]:
        rows = [f"{'Rules':20} {'kept':>6} {'broken':>7} {'left out':>9}"]
        for rule, outcomes in sorted(self._outcomes.items()):
            rows.append(f"{rule:20} {outcomes['passed']:6} {outcomes['failed']:7} {outcomes['skipped']:9}")
        return rows


def _verbs(store: RecordStore, lacking: Sequence[str]) -> list[str]:
    read_by = TenantVectors if isinstance(store, TenantVectors) else VectorTruth
    rows = [f"{'Verbs':20} {'there':>6}"]
    for verb in sorted(members(RecordStore) | members(read_by) | set(lacking)):
        rows.append(f"{verb:20} {'no' if verb in lacking else 'yes':>6}")
    return rows


def _optional(store: RecordStore) -> list[str]:
    """What the capabilities claim, with the verbs that each brings."""
    rows = [f"{'Capabilities':20} {'has it':>6}"]
    for one in fields(Capabilities):
        value = getattr(store.capabilities, one.name)
        if isinstance(value, bool):
            brings = sorted(members(OPTIONAL[one.name])) if one.name in OPTIONAL else []
            rows.append(f"{one.name:20} {'yes' if value else 'no':>6}  {', '.join(brings)}".rstrip())
    return rows
