"""Tools and the steps that use them: read, judged, listed, laid out and shown, and refused where they would run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import guard
from guard.cli import main
from guard.config import Config, build
from guard.config.settings import Route, ScriptedUpstream, default_config
from guard.errors import ConfigError, ConversationError, ProcedureError
from guard.procedure.format import formatted
from guard.procedure.interchange import compiled
from guard.procedure.load import load
from guard.procedure.model import StepKind
from guard.trace import prompt

TEXT = """
always confirm before writes
always no cancel after ship

record Order { id: string, items: list of string, total: decimal(2) }

tool find(id: string) -> Order reads
tool cancel(id: string, why: enum("late", "wrong")) -> { status: string } writes
tool ship(id: string) -> string writes

procedure p(chat: text, limit: decimal(2)) -> string
  extract id: string from chat quote
  found: order = call find(id)
  require order.total <= limit else escalate "Too much."
  extract why: enum("late", "wrong") from chat
  say "Order {order.id} of {order.total} {{today}} \\"now\\"."
  confirm cancel(order.id, why) with order.total, limit else deny "Not agreed."
  done = call cancel(order.id, why)
  return done.status

example p
  chat = "Please cancel A1."
  limit = 5.00
  decide id = "A1"
  decide why = "late"
"""
P = "procedure p(note: text, a: int) -> int\n"
TOOLS = 'tool get(n: int) -> { n: int } reads\ntool put(n: int, way: enum("x", "y")) -> int writes\n'


def problems(body: str, head: str = TOOLS + P) -> list[str]:
    """What is reported of steps, without what other steps would cause."""
    try:
        found = load(head + body).warnings
    except ProcedureError as error:
        found = error.problems
    return [f"{problem.line}:{problem.column} {problem.message} | {problem.help}" for problem in found]


# --- the form --------------------------------------------------------------------------------------


def test_steps_with_tools_are_numbered_like_all_others() -> None:
    program = load(TEXT).procedures["p"]
    kinds = StepKind
    assert list(program.step_numbers.items())[1:] == [
        ("2", kinds.CALL),
        ("3", kinds.REQUIRE),
        ("3.1", kinds.ESCALATE),
        ("4", kinds.EXTRACT),
        ("5", kinds.SAY),
        ("6", kinds.CONFIRM),
        ("6.1", kinds.DENY),
        ("7", kinds.CALL),
        ("8", kinds.RETURN),
    ]
    assert program.tool_steps == ("2", "5", "6", "7")


def test_the_listing_has_tools_rules_and_steps_as_they_are_written() -> None:
    assert load(TEXT).procedures["p"].numbered == (
        """record Order { id: string, items: list of string, total: decimal(2) }

tool find(id: string) -> Order reads
tool cancel(id: string, why: "late" or "wrong") -> { status: string } writes
always confirm before writes
always no cancel after ship

procedure p(chat: text, limit: decimal(2)) -> string
1 id: string from chat, quoted
2 order = call find(id)
3 require order.total <= limit
  3.1 else escalate "Too much."
4 why: "late" or "wrong" from chat
5 say "Order {order.id} of {order.total} {{today}} \\"now\\"."
6 confirm cancel(order.id, why) with order.total, limit
  6.1 else deny "Not agreed."
7 done = call cancel(order.id, why)
8 return done.status"""
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("-> string writes", "-> int writes"),  # a tool that nothing uses
        ("find(id: string) -> Order reads", "find(id: string) -> Order writes"),
        ("with order.total, limit", "with order.total"),
        ("{{today}}", "{{now}}"),
        ("always no cancel after ship", "always find before cancel"),
        ("call find(id)", 'call find("A")'),
    ],
)
def test_the_digest_covers_tools_rules_and_steps(old: str, new: str) -> None:
    changed = TEXT.replace(old, new).replace("always confirm before writes\n", "", "reads" in old)
    digest = load(TEXT).procedures["p"].digest
    assert (load(changed).procedures["p"].digest == digest) is (new == "-> int writes")


def test_the_layout_is_canonical_and_stays() -> None:
    loose = TEXT.replace("call find(id)", "call  find ( id )").replace(
        "find(id: string)", "find( id:string )"
    )
    assert loose != TEXT
    laid_out = formatted(loose)
    assert laid_out == formatted(laid_out) == formatted(TEXT)
    assert "  found: order = call find(id)\n" in laid_out
    assert "confirm cancel(order.id, why) with order.total, limit else deny" in laid_out
    assert load(laid_out).procedures["p"].digest == load(TEXT).procedures["p"].digest


def test_the_interchange_form_has_them() -> None:
    library = load(TEXT)
    data: Any = json.loads(json.dumps(compiled(library.module, library.procedures["p"])))
    assert [(tool["name"], tool["effect"]) for tool in data["tools"]] == [
        ("find", "reads"),
        ("cancel", "writes"),
    ]
    assert [rule["demand"] for rule in data["rules"]] == ["confirm", "no after"]
    said = data["procedure"]["body"][4]
    assert [part["node"] for part in said["parts"]] == ["Literal", "FieldOf", "Literal", "FieldOf", "Literal"]
    assert said["parts"][4]["value"] == ' {today} "now".'


def test_words_of_tools_may_be_names() -> None:
    names = ["tool", "always", "no", "before", "after", "with", "reads", "writes"]
    parameters = ", ".join(f"{name}: int" for name in names)
    text = f"procedure p({parameters}) -> int\n  return {' + '.join(names)}\n"
    assert not load(text).warnings


# --- what is wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("  x = call gett(a)\n  return a\n", "4:3 there is no tool 'gett' | did you mean 'get'?"),
        (
            "  x = call p(a)\n  return a\n",
            "4:3 there is no tool 'p' | a procedure is carried out: write x = do p(...)",
        ),
        (
            "  x = call get()\n  return x.n\n",
            "4:3 tool 'get' takes (n: int), 0 given | write it as call get(n: int)",
        ),
        (
            '  x = call get("1")\n  return x.n\n',
            "4:16 'n' of tool 'get' is int, '\"1\"' is a string | give it int",
        ),
        ("  call get(a)\n  return a\n", "4:3 nothing keeps what 'get' reads | write x = call get(...)"),
        ("  x = call get(a)\n  return x\n", "4:1"),
        (
            '  x = call put(a, "x")\n  return a\n',
            "4:3 the result 'x' is never used | write call put(...) without a name",
        ),
        (
            '  confirm put(a, "z") else deny "No."\n  return a\n',
            '4:18 \'way\' of tool \'put\' is "x" or "y", \'"z"\' is a string | give it "x" or "y"',
        ),
        (
            '  confirm put(a, "x") with b else deny "No."\n  return a\n',
            "4:28 unknown name 'b' | known here: a, note",
        ),
        (
            '  say "It is {b}."\n  return a\n',
            "4:15 unknown name 'b' | known here: a, note",
        ),
        (
            '  x = call get(a)\n  say "It is {x}."\n  return a\n',
            (
                "5:15 a say shows single values, 'x' is { n: int } "
                "| name a field of it, or give what is to be said a name in a step before"
            ),
        ),
        (
            '  say "It is {x.n}."\n  x = call get(a)\n  return a\n',
            "4:15 'x' has no value yet; it is given one in line 5 | give it a value before, such as x = 0",
        ),
        ('  say "{a + 1}"\n  return a\n', "4:8 between braces stands a name or field, found 'a + 1' | give"),
        ('  say "a } b"\n  return a\n', "4:10 this '}' belongs to no name | write }} for the sign itself"),
        (
            '  say " "\n  return a\n',
            '4:7 the wording is empty | write what is to be said, such as say "Hello."',
        ),
        (
            "  if a > 1\n    x = call get(a)\n  return x.n\n",
            "6:10 'x' may have no value here: line 5 is not always carried out",
        ),
        (
            '  say "Hello."\n',
            "4:3 the procedure has no end: behind this step nothing follows | add a return",
        ),
        # the form of the lines
        (
            '  confirm put(a, "x")\n  return a\n',
            '4:22 a confirm says what happens where the user does not agree | add else deny "..."',
        ),
        ("  confirm\n  return a\n", "4:10 a confirm names the call that the user agrees to | write confirm"),
        ("  say hello\n  return a\n", '4:7 the wording after say stands in quotes | write say "hello"'),
        ("  return call get(a)\n", "4:10 a tool is called in a step of its own | write order = call"),
        ("  x = call get\n  return a\n", "4:15 a call has its arguments in brackets | write call get()"),
        ("  x = call\n  return a\n", "4:11 behind call stands a tool, found the end of the line | write"),
        ("  call = 1\n  return a\n", "4:3 'call' is a reserved word and cannot be a name | take another"),
        ("  tell a\n  return a\n", "4:3 there is no step 'tell' | write say \"...\""),
    ],
)
def test_a_step_that_is_wrong_is_told_what_to_write(body: str, told: str) -> None:
    found = [one for one in problems(body) if "is never used | leave it out" not in one]
    if told == "4:1":
        assert "the result is int, 'x' is { n: int }" in found[0]
        return
    assert found
    assert found[0].startswith(told), found
    assert all("input 'note'" in one or "'a' is never" in one or "is never used" in one for one in found[1:])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "tool put(n: int) -> int\n",
            "1:24 a tool says what it does | add reads, or writes where it changes",
        ),
        ("tool put(n: int) writes\n", "1:18 a tool says what it gives | write -> and a type, such as -> int"),
        ("tool put\n", "1:9 a tool says what it takes | write tool put(a: int) -> int"),
        ("tool put() -> int sends\n", "1:19 a tool reads or writes, found 'sends' | write reads or writes"),
        ("tool reads() -> int reads\n", "1:6 'reads' stands for all tools that do | take another name"),
        (
            "tool get(n: text) -> int reads\n",
            "1:13 only an input of a procedure can be a text | write string",
        ),
        (
            "tool get() -> int reads\ntool get() -> int reads\n",
            "2:6 there is a tool 'get' already, in line 1 | rename one of them",
        ),
        ("always put before writes\n", "1:8 there is no tool 'put' | known here: reads, writes"),
        ("always ask before writes\n", "1:8 there is no tool 'ask' | known here: reads, writes"),
        ("always confirm writes\n", "1:16 this is no rule for calls of tools, found 'writes' | write always"),
        ("always no writes\n", "1:17 this is no rule for calls of tools, found the end of the line | write"),
        ("never call put\n", "1:1 there is no declaration 'never' | did you mean 'always'?"),
    ],
)
def test_a_declaration_that_is_wrong_is_told_what_to_write(line: str, told: str) -> None:
    [found] = problems("", line)
    assert found.startswith(told)


def test_a_tool_that_nothing_uses_is_a_warning_where_there_are_procedures() -> None:
    assert problems("  return a\n")[:1] == ["1:6 the tool 'get' is never used | leave it out, or call it"]
    assert problems("", TOOLS) == []


def test_a_conversation_is_not_judged_by_lines_that_could_not_be_read() -> None:
    head = "always confirm before writes\n" + TOOLS + P
    body = '  confirm put(a "x") else deny "No."\n  b = call put(a, "x")\n  return b\n'
    assert problems(body, head) == ['5:17 a comma is missing before \'"x"\' | write put(a, "x")']


# --- where it would run ----------------------------------------------------------------------------


def test_python_is_refused_wherever_it_would_run() -> None:
    program = guard.load(TEXT).procedures["p"]
    inputs = program.accept({"chat": "x", "limit": 1})
    with pytest.raises(ConversationError, match="procedure 'p' has steps that call tools"):
        guard.reference(program, inputs, {})
    with pytest.raises(ConversationError):
        guard.Checker(program, inputs, nonce=None)
    with pytest.raises(ConversationError):
        prompt.instructions(program)
    with pytest.raises(ConversationError):
        _ = program.block


def test_what_carries_out_a_conversation_is_one() -> None:
    text = (
        TOOLS
        + "procedure q(a: int) -> int\n  x = call get(a)\n  return x.n\n"
        + P
        + "  b = do q(a)\n  return b\n"
    )
    program = load(text).procedures["p"]
    assert program.tool_steps == ("1.1",)
    with pytest.raises(ConversationError, match=r"step 1\.1"):
        program.require_runnable()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.proc"
    path.write_text(TEXT)
    (tmp_path / "plain.proc").write_text("procedure plain(a: int) -> int\n  return a\n")
    (tmp_path / "replies.yaml").write_text("replies: [{text: hello}]\n")
    return path


def test_commands_lint_and_show_but_do_not_run(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(file)]) == 0
    assert main(["fmt", "--check", str(file)]) == 1
    assert main(["show", str(file)]) == 0
    assert "not run yet" in capsys.readouterr().out
    assert main(["show", str(file), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["instructions"], shown["closing"]) == (None, None)
    assert shown["compiled"]["tools"]
    for command in (["trace"], ["check", "--trace", str(file)]):
        assert main([command[0], str(file), *command[1:]]) == 2
        assert "is not possible yet" in capsys.readouterr().err


def config(file: Path, *routes: Route) -> Config:
    play = ScriptedUpstream(kind="scripted", file=file.parent / "replies.yaml")
    return Config(procedures=(file.parent,), upstreams={"play": play}, routes=routes)


def test_a_route_to_a_conversation_is_an_error_of_the_configuration(file: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        build(config(file, Route(procedure="plain"), Route(procedure="p")), {})
    [(key, message)] = caught.value.problems
    assert key == "routes[1].procedure"
    assert "is not possible yet" in message


def test_a_conversation_beside_others_is_left_out_of_what_can_be_bound(file: Path) -> None:
    service = build(config(file, Route(procedure="plain")), {})
    assert list(service.config.programs) == ["p", "plain"]
    assert list(service.config.bindable) == ["plain"]
    assert all(list(one.procedures) == ["plain"] for one in service.policies.values())
    assert all(not program.tool_steps for program in default_config().bindable.values())
