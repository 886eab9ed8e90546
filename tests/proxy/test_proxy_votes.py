"""Votes through the whole endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.proxy.running import PORTS, run, running, scripted

PROCEDURE = """\
procedure pick(note: text) -> int
  extract n: int from note
    where n > 0
  twice = n * 2
  return twice
"""
CONFIG = """\
procedures: [pick.proc]
policies: {default: {votes: {ahead: 2, most: 5}}}
routes: [{model: pick, procedure: pick}]
"""
ASK: dict[str, Any] = {"model": "pick", "messages": [{"role": "user", "content": "Three, or four?"}]}
BEGIN = "@begin pick {nonce}\n"
REST = "2 twice = 3 * 2 = 6\n3 return 6\n@end {nonce}\n"


def test_the_client_reads_one_answer_and_how_the_votes_went(tmp_path: Path) -> None:
    (tmp_path / "pick.proc").write_text(PROCEDURE)
    votes = [f"{BEGIN}1 n = {n}\n" + (REST if n == 3 else "") for n in (3, 4, 3, 3)]
    service = scripted(tmp_path, *votes, f"{BEGIN}1 n = 3\n{REST}", config=CONFIG, server=PORTS)

    async def body() -> None:
        async with running(service) as endpoint, endpoint.client() as client:
            chunks = [chunk async for chunk in await client.chat.completions.create(stream=True, **ASK)]
            deltas: list[Any] = [chunk.choices[0].delta for chunk in chunks]
            steps = [delta.reasoning_content for delta in deltas if hasattr(delta, "reasoning_content")]
            assert steps == ["1 n = 3\n", *REST.splitlines(keepends=True)[:2]]
            assert "".join(delta.content or "" for delta in deltas) == "6"
            report: Any = chunks[-1].model_extra and chunks[-1].model_extra["stepguard"]
            assert report["votes"] == [{"step": "1", "cast": 4, "agreed": 3, "margin": "reached"}]
            assert (report["attempts"], report["generations"]) == (1, 5)
            assert report["outcome"] == "accepted_first"
            counted = await endpoint.counted('stepguard_votes_total{procedure="pick",vote="outvoted"}')
            assert counted == 1

    run(body())
