"""What all tests share: how hard hypothesis tries, and what happens where something is missing."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from guard.errors import ConfigError
from guard.upstream.local import require_runtime
from guard.upstream.model import pull, resolve
from tests.dialect.engines import MissingEnginesError, require_engines

# Where this is set a test that would be skipped is a failure: the gate must not be green for want of a tool.
NO_SKIPS = bool(os.environ.get("STEPGUARD_TEST_ALL"))

settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=60,
    print_blob=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Get the model once, before the first test that needs it; without it, skip those tests."""
    local = [item for item in items if item.get_closest_marker("local")]
    if not local:
        return
    try:
        require_runtime()
        if NO_SKIPS:
            pull(lambda done, total: None)  # noqa: ARG005 (nobody watches)
        resolve()
    except ConfigError as missing:
        if NO_SKIPS:
            raise
        for item in local:
            item.add_marker(pytest.mark.skip(reason=str(missing)))


@pytest.fixture(scope="session")
def engines() -> None:
    """Get the implementations that grammars are tried on; without them, skip those tests."""
    try:
        require_engines()
    except MissingEnginesError as missing:
        if NO_SKIPS:
            raise
        pytest.skip(str(missing))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where a test was skipped and none may be."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if NO_SKIPS and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("STEPGUARD_TEST_ALL is set: a skipped test is a failure", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
