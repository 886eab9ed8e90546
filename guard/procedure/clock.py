"""The time of a run: it enters as data, in the inputs `now` and `today` of a procedure that states a zone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from guard.procedure.dates import OutOfRange, is_zone, kept, moved, suggested_zone
from guard.procedure.lattice import type_text
from guard.procedure.types import DatetimeType, DateType, Type
from guard.procedure.values import from_json

if TYPE_CHECKING:
    from guard.procedure.faults import Faults
    from guard.procedure.model import Module, Procedure

TIMED: Final[Mapping[str, Type]] = {"now": DatetimeType(), "today": DateType()}


def zone_of(procedure: Procedure, module: Module) -> str | None:
    """Give the zone in which a procedure is given the time; None where it asks for no time."""
    asks = any(TIMED.get(parameter.name) == parameter.type for parameter in procedure.parameters)
    return module.clock.zone if module.clock is not None and asks else None


def with_time(
    raw: Mapping[str, object], types: Mapping[str, Type], zone: str | None, moment: datetime | None
) -> Mapping[str, object]:
    """Add the time of a run to a request's inputs, where they lack it and the procedure asks for it.

    `moment` is what a clock says, None where none is read. A request that gives `now` gives `today` by it.
    """
    if zone is None or moment is None:
        return raw
    try:
        given = from_json(raw["now"], TIMED["now"]) if "now" in raw else None
        local = moved(given if isinstance(given, datetime) else kept(moment), zone)
    except (OutOfRange, ValueError):
        return raw  # the request is refused for it
    times = {"now": local, "today": local.date()}
    lacking = [name for name, type_ in types.items() if TIMED.get(name) == type_ and name not in raw]
    return {**raw, **{name: times[name] for name in lacking}}


def check_clock(module: Module, faults: Faults) -> None:
    """Report a zone that there is not, and inputs by the names of times that are none."""
    clock = module.clock
    if clock is None:
        return
    if not is_zone(clock.zone):
        faults(clock.at, f"there is no time zone {clock.zone[:60]!r}", suggested_zone(clock.zone))
    inputs = [parameter for procedure in module.own_procedures.values() for parameter in procedure.parameters]
    timed = [parameter for parameter in inputs if parameter.name in TIMED]
    for parameter in timed:
        wanted = type_text(TIMED[parameter.name])
        if parameter.type != TIMED[parameter.name]:
            message = (
                f"{parameter.name!r} is given by the clock and is {wanted}, not {type_text(parameter.type)}"
            )
            faults(parameter.at, message, f"write {parameter.name}: {wanted}, or take another name")
    if not timed:
        faults.warning(
            clock.at, "no procedure asks for the time", "add now: datetime or today: date to its inputs"
        )
