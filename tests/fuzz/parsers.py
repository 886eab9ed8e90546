"""Every parser of foreign text, with valid texts for it and what may come of any other.

A parser gives something or raises a documented error, whatever it reads; it takes no second of processor time for
a text of some ten thousand bytes, and keeps nothing of it.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import zlib
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

from guard.bench.chances import read_chances
from guard.check.checker import Checker
from guard.check.report import report
from guard.cli.given import json_object, nonce
from guard.config import load_config
from guard.config.folder import decoded
from guard.config.procedures import load_procedures
from guard.errors import GuardError
from guard.procedure.execute import Program
from guard.procedure.format import formatted
from guard.procedure.load import load
from guard.run.messages import Open, Strategy
from guard.trace.freeform import read_freely
from guard.upstream.answer import read_answer
from guard.upstream.backends import BACKENDS, backend_for
from guard.upstream.capabilities import Api, Backend, Place
from guard.upstream.reading import AnswerReader
from guard.upstream.scripted import load_script
from guard.wire.chat import parse_request
from guard.wire.encodings import UndecodableError, decoder
from tests import traces
from tests.fuzz.scenario import Manner, Mishap
from tests.fuzz.server import Answer, cut_into_reads, wire

ROOT: Final = Path(__file__).parent.parent.parent
# What a parser may say: the errors that are documented, and those that the callers of two of them expect.
DOCUMENTED: Final = (GuardError, ArgumentTypeError, UndecodableError)

Read = Callable[[bytes, Random], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parser:
    """One parser: texts that it takes, and how it is called."""

    name: str
    corpus: Callable[[], Sequence[bytes]]
    read: Read


def _text(data: bytes) -> str:
    """Bytes as a text that may have what no text should: half of a pair, say."""
    return data.decode("utf-8", "surrogateescape")


# --- procedures and traces -----------------------------------------------------------------------


@cache
def _procedures() -> tuple[bytes, ...]:
    files = [*ROOT.glob("examples/*/*.proc"), *ROOT.glob("tests/cases/*.proc")]
    return tuple(file.read_bytes() for file in sorted(files))


@cache
def _traces() -> tuple[bytes, ...]:
    return tuple(case.response.encode() for case in traces.cases())


def _load(data: bytes, _random: Random) -> object:
    return load(_text(data), "made.proc")


def _imported(data: bytes, _random: Random) -> object:
    return load('import "a.proc"\n', "made.proc", files={"a.proc": _text(data)})


def _formatted(data: bytes, _random: Random) -> object:
    return formatted(_text(data), "made.proc")


def _checked(data: bytes, random: Random) -> object:
    case = random.choice(traces.cases())
    checker = Checker(case.program, case.inputs, nonce=case.nonce, tolerant=random.random() < 0.5)
    text = _text(data)
    size = random.choice([1_000, 7, len(text) or 1])
    for at in range(0, len(text), size):
        checker.feed(text[at : at + size])
    checker.close(random.choice(["stop", "length", None]))
    return report(checker)


def _read_freely(data: bytes, random: Random) -> object:
    return read_freely(_text(data), random.choice(traces.cases()).program)


_TAKES: Final = """\
record Item { name: string, qty: int, price: decimal(2)? }

procedure main(
  note: text, on: date, at: datetime, items: list of Item, rate: percent, deep: list of list of int, kind: enum("a", "b")
) -> decimal(2)
  extract n: int from note
  extract got: list of Item from note
  return 1.00 * n
"""


@cache
def _program() -> Program:
    return load(_TAKES, "made.proc").procedures["main"]


_GIVEN: Final = {
    "note": "7 hinges",
    "on": "2026-03-01",
    "at": "2026-06-01T09:30:00+02:00",
    "items": [{"name": "hinge", "qty": 2, "price": "3.35"}, {"name": "", "qty": -1, "price": None}],
    "rate": "5%",
    "deep": [[1, 2], []],
    "kind": "a",
}
_DECIDED: Final = {"n": 7, "got": _GIVEN["items"], "1": 12}


def _given(data: bytes, _random: Random) -> object:
    return _program().accept(json_object(_text(data).removeprefix("@"), "--inputs"))


def _decided(data: bytes, _random: Random) -> object:
    return _program().decide(json_object(_text(data).removeprefix("@"), "--decide"))


def _named(data: bytes, _random: Random) -> object:
    return nonce(_text(data))


# --- files of the operator -----------------------------------------------------------------------


@cache
def _configurations() -> tuple[bytes, ...]:
    files = [ROOT / "deploy" / "stepguard.yaml", *ROOT.glob("examples/*/stepguard.yaml")]
    return (*(file.read_bytes() for file in sorted(files)), _POLICIES.encode())


_POLICIES: Final = """\
procedures: [one.proc]
upstreams:
  main: {kind: vllm, base_url: "http://127.0.0.1:9/v1", api_key: "${KEY:-}", capabilities: {grammar: structured_outputs, dialect: lark}}
policies:
  default:
    actions: [resume: 2, {action: fallback, upstream: main}, repair, reject]
    rules:
      - {violation: [wrong_value, malformed], step: assign, actions: [scaffold, repair]}
    vary: [temperature, seed]
    temperatures: [null, 0.5, 1]
  other: {extends: default, compute: guard, deliver: hold_all, content: both}
  voted: {votes: {ahead: 2, most: 5}}
  seen: {mode: observe, sample: 0.5, deliver: pass_through}
routes:
  - {model: "a-*", procedure: one, upstream: main, policy: other}
defaults: {upstream: main, policy: default, unbound: pass}
"""


def _configured(data: bytes, _random: Random) -> object:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "one.proc").write_text("procedure one(a: int) -> int\n  return a\n")
        file = Path(folder, "stepguard.yaml")
        file.write_bytes(data)
        return load_config(file, {"KEY": "k"})


def _scripts() -> Sequence[bytes]:
    return [(ROOT / "examples" / "invoice" / "replies.yaml").read_bytes()]


def _scripted(data: bytes, _random: Random) -> object:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return load_script(Path(file.name))


_IMPORTS: Final = (
    b'import "a.proc"\n\nprocedure one(n: int) -> int\n  return fee(n)\n',
    b'import "b/../a.proc"\nimport "../a.proc"\nimport "main.proc"\n\nprocedure one(n: int) -> int\n  return fee(n)\n',
)
_CHANCES: Final = (
    b"step,p,retry\n1,0.98,0.6\n2..4,0.9\n5,0.5,0.25 # hard\n",
    b"0.98,0.6\n0.9\n",
    b"1: 0.98\n2..4: {p: 0.9, retry: 0.5, kind: judge}\n",
    b'{"1": {"p": 0.5, "scaffold": 0.9}, "2": 1}',
)


def _chances(data: bytes, random: Random) -> object:
    with tempfile.NamedTemporaryFile(suffix=random.choice([".csv", ".yaml", ".json"])) as file:
        file.write(data)
        file.flush()
        return read_chances(Path(file.name))


def _beside(data: bytes, _random: Random) -> object:
    """A procedure whose imports are files."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.proc").write_text("table fee(n: int) -> int, first match\n  any => 1\n")
        Path(folder, "main.proc").write_bytes(data)
        return load_procedures([Path(folder, "main.proc")])


def _file(data: bytes, _random: Random) -> object:
    try:
        return decoded(data)
    except UnicodeError:
        raise
    except ValueError as error:  # which is what its callers put into a message
        return error


# --- what comes over the wire --------------------------------------------------------------------


@cache
def _requests() -> tuple[bytes, ...]:
    told: Mapping[str, Any] = yaml.safe_load((ROOT / "tests" / "cases" / "requests.yaml").read_text("utf-8"))
    bodies = [each["body"] for each in told["requests"] if "messages" in each["body"]]
    control = {"procedure": "one", "inputs": _GIVEN, "policy": "default"}
    return tuple(json.dumps({**body, "stepguard": control}).encode() for body in bodies)


def _requested(data: bytes, _random: Random) -> object:
    request = parse_request(data)
    inputs = request.stepguard.inputs if request.stepguard is not None else None
    return _program().accept(inputs or {})


def _rows(api: Api) -> Iterator[tuple[Backend, Open]]:
    """Servers that answer in the words of an API, and what they are asked."""
    tool = backend_for("openai", "gpt-5-mini")
    for row in (BACKENDS["generic"], BACKENDS["llama.cpp"], tool, backend_for("openai", "gpt-5-pro")):
        if row.api is api:
            grammar = "start: /a/" if row.grammar is Place.CUSTOM_TOOL else None
            yield row, _asked(grammar)


def _asked(grammar: str | None) -> Open:
    return Open(
        generation=1, attempt=1, upstream="x", strategy=Strategy.INITIAL, messages=(), prefix="", grammar=grammar,
        max_tokens=100, temperature=None,
    )  # fmt: skip


@cache
def _answers(api: Api) -> tuple[bytes, ...]:
    texts = [_traces()[0].decode(), '{"1 n = ": "12", "2 return ": "24"}', "<think>\nhm\n</think>\n1 a = 2\n"]
    said = [
        Answer(text=text, finish_reason=reason, usage=12, manner=manner, mishap=mishap)
        for text in texts
        for manner in Manner
        for reason, mishap in (("stop", Mishap.NONE), ("length", Mishap.NONE), (None, Mishap.IN_BAND))
    ]
    return tuple(
        b"".join(wire(row, command, each, Random(7))) for row, command in _rows(api) for each in said
    )


def _reading(api: Api) -> Read:
    def read(data: bytes, random: Random) -> object:
        reader = AnswerReader(
            api=api,
            most=random.choice([None, 10]),
            prefix=random.choice(["", "", "@begin order 3fa92c\n1"]),
            members=random.random() < 0.4,
            required=random.choice([0, 2]),
            tool=random.random() < 0.3,
            thinks=random.random() < 0.2,
            thoughtless=random.random() < 0.2,
        )
        texts = [text for piece in cut_into_reads(data, random) for text in reader.feed(piece)]
        texts += reader.close()
        for text in texts:
            text.text.encode()  # nothing that is outside Unicode is told
        return reader.fault or reader.ended()

    return read


def _whole(api: Api) -> Read:
    return lambda data, random: read_answer(random.choice([200, 200, 400, 500]), data, api)


def _inflated(data: bytes, random: Random) -> object:
    inflate = decoder(random.choice(["gzip", "deflate", "br", "zstd", "identity", ""]))
    return sum(len(piece) for piece in inflate(data))


def _packed() -> Sequence[bytes]:
    return [packed(each) for each in _answers(Api.CHAT)[:3] for packed in (gzip.compress, zlib.compress)]


PARSERS: Final[tuple[Parser, ...]] = (
    Parser(name="procedure", corpus=_procedures, read=_load),
    Parser(name="imported procedure", corpus=_procedures, read=_imported),
    Parser(name="procedure laid out", corpus=_procedures, read=_formatted),
    Parser(name="trace", corpus=_traces, read=_checked),
    Parser(name="free text", corpus=_traces, read=_read_freely),
    Parser(name="inputs", corpus=lambda: [json.dumps(_GIVEN).encode()], read=_given),
    Parser(name="decisions", corpus=lambda: [json.dumps(_DECIDED).encode()], read=_decided),
    Parser(name="nonce", corpus=lambda: [b"3fa92c"], read=_named),
    Parser(name="configuration", corpus=_configurations, read=_configured),
    Parser(name="script", corpus=_scripts, read=_scripted),
    Parser(name="chances", corpus=lambda: _CHANCES, read=_chances),
    Parser(name="procedure with imports", corpus=lambda: _IMPORTS, read=_beside),
    Parser(name="file", corpus=_procedures, read=_file),
    Parser(name="request", corpus=_requests, read=_requested),
    Parser(name="chat stream", corpus=lambda: _answers(Api.CHAT), read=_reading(Api.CHAT)),
    Parser(name="responses stream", corpus=lambda: _answers(Api.RESPONSES), read=_reading(Api.RESPONSES)),
    Parser(name="chat answer", corpus=lambda: _answers(Api.CHAT), read=_whole(Api.CHAT)),
    Parser(name="responses answer", corpus=lambda: _answers(Api.RESPONSES), read=_whole(Api.RESPONSES)),
    Parser(name="compressed answer", corpus=_packed, read=_inflated),
)
