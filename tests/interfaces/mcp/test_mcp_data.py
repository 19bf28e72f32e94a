"""Data over MCP: a model lists tables, finds fields, asks and runs SQL, and is never sent more than it can use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import recollect
from mcp_hosts import over_stdio, run, tools_of
from recollect.interfaces.mcp import gateway, tools
from recollect.interfaces.mcp.shortening import MOST_CHARACTERS, MOST_FIELDS, MOST_ROWS, shortened
from recollect.services.data.results import QueryReply, ResultColumn

SALES = "region,amount\n" + "".join(f"{['North', 'South'][n % 2]},{n}\n" for n in range(1, 501))


def test_a_model_looks_at_data_and_asks_about_it(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text(SALES)
    with recollect.open(tmp_path / "m.db", embedder="hash", background=False) as mem:
        mem.source.add(str(tmp_path / "sales.csv"))

    async def talk() -> None:
        async with over_stdio(tmp_path / "m.db", "--profile", "data") as client:

            async def told(tool: str, **fields: object) -> Any:
                answer = await client.call_tool(tool, fields)
                assert not answer.is_error, answer.content
                if tool != "query_remember":
                    assert json.loads(answer.content[0].text) == answer.structured_content
                return answer.structured_content

            wanted = {name.replace(".", "_") for name in [*tools.DAILY, *tools.DATA]}
            assert set(await tools_of(client)) == wanted | gateway.GATEWAYS.keys()
            listed = await told("source_list")
            assert [table["name"] for table in listed["sources"][0]["tables"]] == ["sales"]
            found = await told("source_find", query="amount by region")
            assert {field["name"] for field in found["fields"]} >= {"amount", "region"}
            shown = await told("source_show", id="sales")
            assert "histogram" not in json.dumps(shown)
            answer = await told("ask", question="total amount by region")
            assert sorted(row[0] for row in answer["rows"]) == ["North", "South"]
            assert "chart" not in answer
            rows = await told("query_run", sql="select * from sales")
            assert (len(rows["rows"]), rows["is_cut"], rows["row_count"]) == (MOST_ROWS, True, 500)
            assert "the first 100 of 500 rows" in rows["notes"][-1]
            kept = await told("query_remember", run=answer["run"])
            assert kept["id"]
            refused = await client.call_tool("query_run", {"sql": "drop table sales"})
            assert refused.is_error

    run(talk)


def test_a_model_may_not_add_files_or_connections() -> None:
    assert not {"source_add", "connection_add", "query_export"} & tools.offered("data").keys()
    assert "changes" not in tools.offered("data")["ask"].input_schema["properties"]


def test_descriptions_cost_little() -> None:
    sizes = {name: len(json.dumps(tool.input_schema)) for name, tool in tools.offered("data").items()}
    assert all(sizes[name.replace(".", "_")] < 2_500 for name in tools.DATA), sizes


def test_long_rows_are_cut_by_their_size() -> None:
    reply = QueryReply(run="r", sql="select 1", columns=[ResultColumn(name="t")], rows=[["x" * 5_000]] * 50)
    short = shortened(reply)
    assert isinstance(short, QueryReply)
    assert 0 < len(short.rows) * 5_000 <= MOST_CHARACTERS
    assert len(reply.rows) == 50
    assert MOST_FIELDS < 200
