"""For how long it is remembered that an upstream refuses grammars."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from guard.upstream.refusals import KEPT, Refusals

NAMES = st.sampled_from(["main", "spare"])
MODELS = st.sampled_from(["m", "n"])


@given(st.lists(st.tuples(NAMES, MODELS, st.floats(0, 2_000), st.booleans()), max_size=40))
def test_it_holds_for_so_long_behind_the_latest_one_of_that_upstream_and_model(
    events: list[tuple[str, str, float, bool]],
) -> None:
    refusals, latest = Refusals(seconds=600), dict[tuple[str, str], float]()
    for upstream, model, now, remember in sorted(events, key=lambda event: event[2]):
        held = now - latest.get((upstream, model), float("-inf")) < 600
        assert refusals.holds(upstream, model, now) is held
        if remember:
            assert refusals.remember(upstream, model, now) is not held
            latest[upstream, model] = now


def test_of_too_many_models_the_oldest_are_forgotten() -> None:
    refusals = Refusals()
    for number in range(KEPT + 1):
        refusals.remember("main", f"m{number}", number / 100)
        refusals.remember("main", "m1", number / 100)
    assert not refusals.holds("main", "m0", 11)
    assert refusals.holds("main", "m1", 11)
    assert refusals.holds("main", f"m{KEPT}", 11)
