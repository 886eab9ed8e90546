"""What every section of the operator's file has in common: unknown keys are mistakes, values never change."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Section(BaseModel):
    """A section of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Names = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    Field(min_length=1),
]
