"""The operator's file: what it gives, and how every mistake in it is named at once."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest
from pydantic import BaseModel

from guard.check.verdict import Kind
from guard.config import Config, default_config, load_config
from guard.config.capabilities import Capabilities
from guard.config.policies import PolicySettings, RuleSettings
from guard.config.settings import Defaults, HttpUpstream, LocalUpstream, Route, ScriptedUpstream, Server
from guard.dialect.lark import Level
from guard.errors import ConfigError
from guard.run.ladders import Action, ladder

CHAIN = """
procedure chain(a: int, b: int) -> int
  s = a + b
  return s * 2
"""

WHOLE = """
server: {host: 127.0.0.1, port: 8000}
admin:  {host: 127.0.0.1, port: 9464}
procedures: [procedures/]
upstreams:
  main: {kind: generic, base_url: http://127.0.0.1:9000/v1, api_key: ${UPSTREAM_KEY:-}}
policies:
  default:
    attempts: 12           # generations opened because of a violation
    actions: default       # the ladder by kind; or a list: [resume, scaffold, fallback, repair, reject]
    content: answer        # answer | trace | both
    force: operands        # none | shape | operands | values
    output_tokens: 8000    # over all attempts
    seconds: 120
    deliver: hold_step
routes:
  - {model: "chain-*", procedure: chain, upstream: main, upstream_model: gpt-x, policy: default}
defaults: {upstream: main, policy: default, mode: enforce, unbound: pass}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "procedures").mkdir()
    (tmp_path / "procedures" / "chain.proc").write_text(CHAIN)
    return tmp_path


def read(folder: Path, text: str, environment: dict[str, str] | None = None) -> Config:
    path = folder / "stepguard.yaml"
    path.write_text(dedent(text), encoding="utf-8")
    return load_config(path, environment or {})


def problems(folder: Path, text: str, environment: dict[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text, environment)
    assert str(folder / "stepguard.yaml") in str(caught.value)
    return dict(caught.value.problems)


def said(folder: Path, text: str) -> list[str]:
    """What is printed of a file that is wrong, without the name of its folder."""
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


def test_the_documented_file_is_read(folder: Path) -> None:
    config = read(folder, WHOLE)
    assert list(config.programs) == ["chain"]
    main = config.upstreams["main"]
    assert isinstance(main, HttpUpstream)
    assert main.base_url == "http://127.0.0.1:9000/v1"
    assert main.api_key.get_secret_value() == ""
    policy = config.policies["default"].policy
    assert policy.rules == ()
    assert policy.force is Level.OPERANDS
    assert config.routes[0].upstream == ("main",)


def test_without_a_file_it_is_the_local_model_and_the_shipped_procedures() -> None:
    config = default_config()
    assert isinstance(config.upstreams["local"], LocalUpstream)
    assert {"chain", "invoice", "parcel"} <= set(config.programs)
    assert {route.model: route.procedure for route in config.routes} == {
        name: name for name in config.bindable
    }


def test_an_empty_file_is_as_no_file(folder: Path) -> None:
    assert read(folder, "# nothing\n").server.port == 8000


def test_a_list_of_actions_counts_for_every_kind(folder: Path) -> None:
    config = read(folder, "policies: {strict: {actions: [resume, reject]}}")
    rules = config.policies["strict"].policy.rules
    ladders = [ladder(rules, kind, None, Level.OPERANDS) for kind in Kind]
    assert {tuple(rung.action for rung in rungs) for rungs in ladders} == {(Action.RESUME, Action.REJECT)}


def test_paths_are_relative_to_the_file(folder: Path, tmp_path: Path) -> None:
    config = read(
        folder, "procedures: [procedures/chain.proc]\nupstreams: {s: {kind: scripted, file: s.yaml}}"
    )
    scripted = config.upstreams["s"]
    assert isinstance(scripted, ScriptedUpstream)
    assert scripted.file == tmp_path / "s.yaml"
    assert list(config.programs) == ["chain"]


def test_several_upstreams_are_the_row_of_fallbacks(folder: Path) -> None:
    text = """
    procedures: [procedures/]
    upstreams:
      small: {kind: generic, base_url: http://a/v1}
      large: {kind: generic, base_url: http://b/v1}
    routes: [{procedure: chain, upstream: [small, large]}]
    """
    assert read(folder, text).routes[0].upstream == ("small", "large")


# --- variables -----------------------------------------------------------------------------------


def test_variables_stand_anywhere_in_a_value(folder: Path) -> None:
    text = "server: {port: ${PORT}, api_keys: ['a-${NAME:-b}-c']}\nadmin: {port: ${ADMIN:-9000}}"
    config = read(folder, text, {"PORT": "1234"})
    assert (config.server.port, config.admin.port) == (1234, 9000)
    assert config.server.api_keys[0].get_secret_value() == "a-b-c"


def test_a_variable_cannot_change_the_structure(folder: Path) -> None:
    hostile = "x, port: 1}\nadmin: {port: 2} # "
    config = read(folder, "server: {api_keys: [${KEY}]}", {"KEY": hostile})
    assert config.server.api_keys[0].get_secret_value() == hostile
    assert config.admin.port == 9464


def test_a_doubled_dollar_is_a_plain_one(folder: Path) -> None:
    config = read(folder, "server: {api_keys: ['$${PORT}']}")
    assert config.server.api_keys[0].get_secret_value() == "${PORT}"


def test_a_variable_in_a_comment_need_not_be_set(folder: Path) -> None:
    assert read(folder, "server: {port: 1} # ${UNSET}").server.port == 1


def test_an_unset_variable_is_named_once(folder: Path) -> None:
    found = problems(folder, "server: {port: ${PORT}}\nadmin: {port: ${}}")
    assert found == {
        "server.port": "the variable PORT is not set; set it, or write ${PORT:-default}",
        "admin.port": "expected ${NAME} or ${NAME:-default}, found '${}'",
    }


# --- mistakes ------------------------------------------------------------------------------------


def test_every_mistake_is_named_at_once_with_the_path_of_its_key(folder: Path) -> None:
    (folder / "procedures" / "bad.proc").write_text("procedure bad(a: int) -> int\n  return b\n")
    found = problems(
        folder,
        """
        sever: {}
        server: {port: 99999, max_body_bytes: ten}
        procedures: [procedures/, nowhere/]
        upstreams:
          main: {kind: generic, base_url: "127.0.0.1:9000", api_kye: x}
          other: {kind: tgi}
          third: {base_url: http://a}
        policies:
          default: {actions: [resume, pray], seconds: .inf, mode: strict}
          other: {actions: [{rezume: 2}, {resume: 0}, {action: scafold}, 5, {resume: 1, repair: 1}]}
        routes:
          - {procedure: chian, upstream: mian, policy: defualt, upstream_model: 3}
          - {upstream_model: gpt-x}
        defaults: {mode: observed, upstream: [main, elsewhere]}
        """,
    )
    assert found["sever"] == "unknown key; did you mean 'server'?"
    assert "less than or equal to 65535" in found["server.port"]
    assert "found 'ten'" in found["server.max_body_bytes"]
    assert "there is no file or folder" in found["procedures[1]"]
    assert "bad.proc:2" in found["procedures[0]"]
    assert "expected a URL" in found["upstreams.main.base_url"]
    assert found["upstreams.main.api_kye"] == "unknown key; did you mean 'api_key'?"
    assert "'tgi'" in found["upstreams.other.kind"]
    assert "did you mean" not in found["upstreams.other.kind"]
    assert "is required" in found["upstreams.third.kind"]
    assert "'pray'" in found["policies.default.actions[1]"]
    assert "finite" in found["policies.default.seconds"]
    assert found["policies.default.mode"].endswith("'observe' or 'off', found 'strict'")
    assert found["policies.other.actions[0].rezume"].endswith("found 'rezume'; did you mean 'resume'?")
    assert "a number from 1 to 100, or `all`" in found["policies.other.actions[1].resume"]
    assert found["policies.other.actions[2].action"].endswith("did you mean 'scaffold'?")
    assert found["policies.other.actions[3]"].endswith("such as `resume` or `resume: 2`, found 5")
    assert found["policies.other.actions[4]"].startswith("expected one action")
    assert "policies.other.actions" not in found
    assert found["routes[0].upstream"] == "there is no upstream 'mian'; did you mean 'main'?"
    assert found["routes[0].policy"] == "there is no policy 'defualt'; did you mean 'default'?"
    assert "valid string" in found["routes[0].upstream_model"]
    assert "needs a procedure" in found["routes[1].upstream_model"]
    assert found["defaults.mode"].endswith("found 'observed'; did you mean 'observe'?")
    assert "'elsewhere'" in found["defaults.upstream[1]"]


def test_an_unknown_procedure_is_named_where_the_procedures_are_right(folder: Path) -> None:
    found = problems(folder, "procedures: [procedures/]\nroutes: [{procedure: chian}]\nserver: {prt: 1}")
    assert found["routes[0].procedure"] == "there is no procedure 'chian'; did you mean 'chain'?"
    assert "server.prt" in found


def test_a_procedure_defined_in_two_files_is_an_error(folder: Path) -> None:
    (folder / "procedures" / "again.proc").write_text(CHAIN)
    found = problems(folder, "procedures: [procedures/]")
    assert "'chain' is defined twice" in found["procedures[0]"]


def test_a_server_that_others_can_reach_needs_keys(folder: Path) -> None:
    found = problems(folder, "server: {host: 0.0.0.0}")
    assert found == {
        "server.api_keys": "at least one key is required, since `host` is not a loopback address"
    }
    assert read(folder, "server: {host: 0.0.0.0, api_keys: [k]}").server.host == "0.0.0.0"
    assert read(folder, "server: {host: '::1'}").server.host == "::1"


def test_an_empty_key_is_no_key(folder: Path) -> None:
    assert "empty" in problems(folder, "server: {api_keys: ['${KEY:-}']}")["server.api_keys"]


def test_a_route_for_a_key_that_nobody_has_is_an_error(folder: Path) -> None:
    found = problems(folder, "server: {api_keys: [a]}\nroutes: [{api_key: b}]")
    assert found == {"routes[0].api_key": "is not one of server.api_keys"}


def test_a_key_is_never_shown(folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(
            folder,
            "server: {api_keys: hunter2}\nupstreams: {m: {kind: generic, base_url: http://a, api_key: [hunter2]}}",
        )
    assert "hunter2" not in str(caught.value)
    config = read(folder, "server: {api_keys: [hunter2]}")
    assert "hunter2" not in repr(config)


def test_a_key_that_occurs_twice_is_an_error(folder: Path) -> None:
    found = said(folder, "server: {port: 1}\nserver: {port: 2}")
    assert found == ["stepguard.yaml:2: is not YAML: the key 'server' occurs twice"]


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("server: [", "stepguard.yaml:1: is not YAML"),
        ("a: 1\nb: ${X:-1\n2}\nc: [", "stepguard.yaml:4: is not YAML"),
        ("- 1", "stepguard.yaml: expected keys"),
        ("server: !!python/object/apply:os.system ['true']", "stepguard.yaml:1: is not YAML"),
        ("[" * 10_000, "stepguard.yaml: is nested too deeply"),
        ("a:\n" + "".join("  " * n + "- a:\n" for n in range(26)), "stepguard.yaml: is nested too deeply"),
        ("a: &a [*a]", "stepguard.yaml: is nested too deeply"),
        ("a: &a {b: *a}", "stepguard.yaml: is nested too deeply"),
        ("a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
            f"{y}: &{y} [{', '.join(['*' + x] * 10)}]\n" for x, y in zip("abcdef", "bcdefg", strict=True)
        ), "stepguard.yaml:1: d[7]"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_configuration_is_refused(folder: Path, text: str, beginning: str) -> None:
    [found] = said(folder, text)
    assert found.startswith(beginning)


def test_off_is_a_word_and_not_a_truth_value(folder: Path) -> None:
    assert read(folder, "defaults: {mode: off}").defaults.mode == "off"


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "none.yaml")


def test_a_file_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match="byte 3"):
        load_config(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    ("upstream", "key", "said"),
    [
        ("{kind: generic, base_url: 'http://a/v1?key=x'}", "base_url", "no query"),
        ("{kind: generic, base_url: 'http://me:secret@a/v1'}", "base_url", "no query, fragment or user"),
        ("{kind: generic, base_url: 'ftp://a/v1'}", "base_url", "expected a URL"),
        (
            "{kind: generic, base_url: 'http://a', api_key: x, pass_key: true}",
            "pass_key",
            "exclude each other",
        ),
    ],
)
def test_an_upstream_that_cannot_be_meant_is_refused(
    folder: Path, upstream: str, key: str, said: str
) -> None:
    found = problems(folder, f"upstreams: {{main: {upstream}}}")
    assert said in found[f"upstreams.main.{key}"]


def test_localhost_is_a_loopback_address_and_another_name_is_not(folder: Path) -> None:
    assert read(folder, "server: {host: localhost}").server.host == "localhost"
    assert "server.api_keys" in problems(folder, "server: {host: localhost.example}")


def test_a_file_of_many_megabytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("#" * 1_000_001)
    with pytest.raises(ConfigError, match="larger than"):
        load_config(tmp_path / "c.yaml")


# --- lines ---------------------------------------------------------------------------------------


def test_every_mistake_has_its_line_and_they_come_in_their_order(folder: Path) -> None:
    (folder / "procedures" / "bad.proc").write_text("procedure bad(a: int) -> int\n  return b\n")
    text = """\
    server:
      port: 99999
      api_keys: ["${UNSET}"]
    sever: {}
    procedures:
      - procedures/
      - nowhere/
    upstreams:
      main:
        kind: generic
      third: {kind: scripted, file: 3,
        fiel: x}
    policies:
      strict:
        actions:
          - resume
          - pray
        attempts: true
        retries: 3
      lax:
        deliver: pass_through
        mode: enforce
    routes:
      - model: x
        policy: strikt
      - {model: y,
         upstream: [main,
                    other],
         api_key: k}
    """
    found = [line for line in said(folder, text) if line.startswith("stepguard.yaml")]
    places = [":".join(line.split(":")[1:3]) for line in found]
    assert places == [
        "2: server.port",
        "3: server.api_keys[0]",
        "4: sever",
        "6: procedures[0]",
        "7: procedures[1]",
        "9: upstreams.main.base_url",
        "11: upstreams.third.file",
        "12: upstreams.third.fiel",
        "17: policies.strict.actions[1]",
        "18: policies.strict.attempts",
        "19: policies.strict.retries",
        "21: policies.lax.deliver",
        "25: routes[0].policy",
        "28: routes[1].upstream[1]",
        "29: routes[1].api_key",
    ]


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("server:\n  port: ${P:-1\n\n2}\nadmin:\n  port: x\n", 6, "admin.port"),
        ("admin: {port: 1}\nserver: {api_keys: ['$${X}', '${A\n}'], port: x}", 2, "server.api_keys[1]"),
        ("policies:\n  a.b:\n    attempts: 0\n  a: {b: 1}", 3, "policies.a.b.attempts"),
        ("policies:\n  a: &a\n    seconds: 5\n    attempts: 0\n  b: *a", 4, "policies.b.attempts"),
        ("policies:\n  a: &a {seconds: 5}\n  b:\n    <<: *a\n    seconds: 0", 5, "policies.b.seconds"),
        ("policies:\n  a: &a {seconds: 0}\n  b:\n    <<: *a\n    attempts: 1", 2, "policies.b.seconds"),
        ("server: {port: x}", 1, "server.port"),
        ("server:\n  host: 0.0.0.0", 1, "server.api_keys"),
    ],
)
def test_a_line_is_right_behind_variables_aliases_and_merges(
    folder: Path, text: str, line: int, key: str
) -> None:
    found = said(folder, text)
    assert any(one.startswith(f"stepguard.yaml:{line}: {key}: ") for one in found), found


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("server: {port: true}", "server.port"),
        ("policies: {a: {attempts: true}}", "policies.a.attempts"),
        ("policies: {a: {seed: false}}", "policies.a.seed"),
        ("policies: {a: {votes: {ahead: true}}}", "policies.a.votes.ahead"),
        ("upstreams: {a: {kind: generic, base_url: http://a, idle_s: true}}", "upstreams.a.idle_s"),
        ("policies: {a: {attempts: 0}}", "policies.a.attempts"),
        ("policies: {a: {attempts: -3}}", "policies.a.attempts"),
        ("policies: {a: {attempts: 100000}}", "policies.a.attempts"),
        ("policies: {a: {attempts_per_step: 0}}", "policies.a.attempts_per_step"),
        ("policies: {a: {attempts_per_upstream: {local: 0}}}", "policies.a.attempts_per_upstream.local"),
        ("policies: {a: {transport_retries: -1}}", "policies.a.transport_retries"),
        ("policies: {a: {output_tokens: 0}}", "policies.a.output_tokens"),
        ("policies: {a: {output_tokens: 1000000000000}}", "policies.a.output_tokens"),
        ("policies: {a: {seconds: 1.0e+9}}", "policies.a.seconds"),
        ("policies: {a: {seconds: .nan}}", "policies.a.seconds"),
        ("policies: {a: {sample: 0}}", "policies.a.sample"),
        ("policies: {a: {sample: 1.5}}", "policies.a.sample"),
        ("policies: {a: {temperatures: [3]}}", "policies.a.temperatures[0]"),
        ("policies: {a: {temperatures: []}}", "policies.a.temperatures"),
        ("policies: {a: {race: 0}}", "policies.a.race"),
        ("policies: {a: {race: 1000}}", "policies.a.race"),
        ("policies: {a: {votes: {most: 0}}}", "policies.a.votes.most"),
        ("policies: {a: {commit_after_s: -1}}", "policies.a.commit_after_s"),
        ("policies: {a: {actions: []}}", "policies.a.actions"),
        ("policies: {a: {actions: resume}}", "policies.a.actions"),
        ("policies: {a: {vary: [tone]}}", "policies.a.vary[0]"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(folder: Path, text: str, key: str) -> None:
    assert list(problems(folder, text)) == [key]


@pytest.mark.parametrize("written", ["", "5", "[a]", "{votes: true}"])
def test_what_is_no_section_is_refused_in_words_of_the_file(folder: Path, written: str) -> None:
    [found] = problems(folder, f"policies: {{a: {written}}}").values()
    assert "expected" in found or "should be a mapping of keys to values, found" in found


SETS = {  # all lists but those whose order means something: actions, rules, temperatures, routes
    "server.api_keys": "server: {api_keys: [one, two, one]}",
    "policies.a.rules[0].violation": "policies: {a: {rules: [{violation: [truncated, malformed, truncated], actions: [reject]}]}}",
    "policies.a.rules[0].step": "policies: {a: {rules: [{step: [judge, judge], actions: [reject]}]}}",
    "policies.a.vary": "policies: {a: {vary: [seed, phrasing, seed]}}",
    "routes[0].upstream": "routes: [{upstream: [main, spare, main]}]",
    "routes[0].policies": "routes: [{policies: [default, default]}]",
    "routes[0].modes": "routes: [{modes: [enforce, enforce]}]",
    "defaults.upstream": "defaults: {upstream: [main, main]}",
    "upstreams.third.capabilities.refuses": "  third: {kind: vllm, base_url: 'http://h/v1', capabilities: {refuses: [user, user]}}",
    "upstreams.third.capabilities.reasoning_fields": "  third: {kind: vllm, base_url: 'http://h/v1', capabilities: {reasoning_fields: [a, a]}}",
}  # fmt: skip


@pytest.mark.parametrize("key", SETS)
def test_a_name_stands_in_a_list_once(folder: Path, key: str) -> None:
    at = '{kind: generic, base_url: "http://127.0.0.1:9/v1"}'
    found = said(folder, f"upstreams:\n  main: {at}\n  spare: {at}\n{SETS[key]}\n")
    [line] = found
    assert line.startswith(f"stepguard.yaml:4: {key}: ")
    assert line.endswith("stands in this list twice: leave it out")
    assert "one" not in line


def test_every_list_of_the_file_is_a_set_or_has_an_order() -> None:
    ordered = {"actions", "rules", "temperatures", "routes"}
    files = {"procedures"}  # see the next one
    sections: list[type[BaseModel]] = [
        Config,
        Server,
        Route,
        Defaults,
        PolicySettings,
        RuleSettings,
        Capabilities,
    ]
    found = {
        name
        for section in sections
        for name, field in section.model_fields.items()
        if re.search(r"\b(tuple|frozenset|list|set)\[", str(field.annotation))
    }
    assert found == ordered | files | {key.rpartition(".")[2] for key in SETS}


def test_a_file_is_named_once(folder: Path) -> None:
    file = folder / "procedures" / "chain.proc"
    (folder / "link.proc").symlink_to(file)
    for text in ("procedures/chain.proc, ./procedures/../procedures/chain.proc", "procedures, procedures/",
                 "procedures/, procedures/chain.proc", "procedures/chain.proc, link.proc"):  # fmt: skip
        found = problems(folder, f"procedures: [{text}]")
        assert list(found) == ["procedures[1]"]
        assert found["procedures[1]"].endswith("stands in this list already, by procedures[0]: leave it out")


def test_numbers_may_come_from_variables(folder: Path) -> None:
    config = read(folder, "policies: {a: {attempts: '${N}', seconds: '${S}'}}", {"N": "3", "S": "1.5"})
    assert (config.policies["a"].attempts, config.policies["a"].seconds) == (3, 1.5)


def test_votes_of_which_none_can_ever_be_far_enough_ahead_are_refused(folder: Path) -> None:
    found = problems(folder, "policies: {default: {votes: {ahead: 3, most: 2}}}")
    assert found["policies.default.votes"].startswith("2 votes never put a value 3 ahead")
