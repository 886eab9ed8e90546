"""What all tests share: how hard hypothesis tries, what happens where something is missing, and who does what.

With `-n` each file's tests run in one of several processes. What is missing they fetch one after the other, and at
any time only one of them carries out a test with the embedded model, which takes all cores by itself.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from guard.errors import ConfigError
from guard.upstream.local import require_runtime
from guard.upstream.model import cache_dir, pull, resolve
from tests.dialect.engines import MissingEnginesError, require_engines

# Where this is set a test that would be skipped is a failure: the gate must not be green for want of a tool.
NO_SKIPS = bool(os.environ.get("STEPGUARD_TEST_ALL"))

# A job that a script runs in the background is begun without SIGINT, and so are its children, which tests stop by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What a test draws is the same at each run, so that whoever runs the tests next sees what was seen before. Fresh
# draws are for `HYPOTHESIS_PROFILE=fresh` and for `python -m tests.fuzz --fresh`.
for name, examples, derandomize in (("default", 30, True), ("ci", 60, True), ("fresh", 100, False)):
    settings.register_profile(
        name,
        derandomize=derandomize,
        max_examples=examples,
        print_blob=True,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
if settings().derandomize:
    # Hypothesis also draws constants of the modules that happen to be loaded, which differ between two processes.
    providers._get_local_constants = providers.Constants  # type: ignore[attr-defined]


@contextmanager
def one_at_a_time(what: str) -> Iterator[None]:
    """Wait until no other process does the same."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / f".tests-{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # which ends with the process, however that ends
        yield


def pytest_xdist_auto_num_workers() -> int:
    """Give how many processes `-n auto` means: tests of the endpoint wait half of their time, for timers of a server."""
    return max(2, 3 * (os.cpu_count() or 1) // 2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Get the model once, before the first test that needs it; without it, skip those tests."""
    # Coverage is that of the processes that run tests, as if there were one; what they start is as users have it.
    os.environ.pop("COVERAGE_PROCESS_START", None)
    local = [item for item in items if item.get_closest_marker("local")]
    if not local:
        return
    try:
        require_runtime()
        if NO_SKIPS:
            with one_at_a_time("fetch"):  # what another one has fetched is found
                pull(lambda done, total: None)  # noqa: ARG005 (nobody watches)
        resolve()
    except ConfigError as missing:
        if NO_SKIPS:
            raise
        for item in local:
            item.add_marker(pytest.mark.skip(reason=str(missing)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let no two tests have the embedded model at once."""
    with one_at_a_time("model") if item.get_closest_marker("local") else nullcontext():
        return (yield)


@pytest.fixture(scope="session")
def engines() -> None:
    """Get the implementations that grammars are tried on; without them, skip those tests."""
    try:
        with one_at_a_time("fetch"):
            require_engines()
    except MissingEnginesError as missing:
        if NO_SKIPS:
            raise
        pytest.skip(str(missing))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what was covered, and fail where a test was skipped and none may be."""
    if "PYTEST_XDIST_WORKER" in os.environ and (measured := Coverage.current()):
        # Now rather than at the process's end: one that takes more than ten seconds to end is killed.
        measured.stop()
        measured.save()
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if NO_SKIPS and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("STEPGUARD_TEST_ALL is set: a skipped test is a failure", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
