"""What every section of the operator's file has in common: unknown keys are mistakes, values never change."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)


class Section(BaseModel):
    """A section of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, values: Any) -> Any:
        """Keep `attempts: true` from being read as 1."""
        if not isinstance(values, dict):
            return values
        return {
            name: str(value).lower() if isinstance(value, bool) and name in cls._numbers() else value
            for name, value in values.items()
        }

    @classmethod
    def _numbers(cls) -> set[str]:
        kinds = {name: _kinds(field.annotation) for name, field in cls.model_fields.items()}
        return {name for name, found in kinds.items() if found & {int, float} and bool not in found}


def _kinds(annotation: Any) -> set[Any]:
    return {annotation, *get_args(annotation)}


def each_once(values: Any) -> Any:
    """Give a list back in which nothing stands twice; what is no list is somebody else's mistake."""
    if isinstance(values, list | tuple):
        for index, value in enumerate(values):
            if value in values[:index]:
                what = (
                    "the same key" if isinstance(value, SecretStr) else repr(getattr(value, "value", value))
                )
                raise ValueError(f"{what} stands in this list twice: leave it out")
    return values


EachOnce = AfterValidator(each_once)

Names = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    Field(min_length=1),
    EachOnce,
]
