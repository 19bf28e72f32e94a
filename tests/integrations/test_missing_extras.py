"""Without its package an adapter says what to install, and nothing else needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("langgraph", "langgraph", "langgraph"),
        ("langchain", "langchain_core", "langchain"),
        ("llamaindex", "llama_index", "llamaindex"),
        ("openai_agents", "agents", "openai-agents"),
        ("anthropic_memory", "anthropic", "anthropic"),
        ("google_adk", "google.adk", "google-adk"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("agent_framework", "agent_framework", "agent-framework"),
        ("autogen", "autogen_core", "autogen"),
        ("strands", "strands", "strands"),
        ("smolagents", "smolagents", "smolagents"),
        ("crewai", "crewai", "crewai"),
    ],
)
def test_a_missing_package_is_named_with_its_cure(module: str, package: str, extra: str) -> None:
    script = (
        f"import sys; sys.modules[{package!r}] = None; import recollect, recollect.integrations\n"
        f"try:\n    import recollect.integrations.{module}\n"
        "except recollect.errors.MissingExtra as error:\n    print(error.remedy)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == f"pip install 'recollect[{extra}]'", done.stderr


def test_opening_a_memory_imports_no_framework() -> None:
    script = (
        "import sys, recollect\nwith recollect.open('memory://', embedder='hash') as mem: mem.checkpoint.threads()\n"
        "print(sorted({'langgraph', 'langchain_core', 'agents', 'openai', 'anthropic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "[]", done.stderr
