"""What a checked trace came to: its steps by how they ended, its fidelity, its violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from guard.check.checker import Checker
from guard.check.verdict import Verdict, Violation
from guard.check.whole import Rest
from guard.procedure.expected import Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """Steps by how they ended. `expected` and `missing` are None where a loop or branch was never decided.

    `supported` of those that the model decided have a value that its quotes had to say, and do; the others
    are `unsupported`: no quote was asked for, or only a loose one, or the value is null or an empty list.
    `isolated` of the scaffolded and of the model's decisions were asked for by themselves, without the trace.
    """

    expected: int | None = None
    verified: int = 0
    scaffolded: int = 0
    model_decided: int = 0
    supported: int = 0
    isolated: int = 0
    repaired: int = 0
    computed: int = 0
    missing: int | None = None

    @property
    def unsupported(self) -> int:
        """Those that the model decided and no quote had to say."""
        return self.model_decided - self.supported

    @property
    def fidelity(self) -> float | None:
        """Share of the expected steps that the model wrote all of; None where undetermined."""
        return self.verified / self.expected if self.expected else None

    def to_json(self) -> dict[str, int | None]:
        """Give the counts as JSON data, in the order in which reports have them."""
        return {
            "expected": self.expected,
            "verified": self.verified,
            "scaffolded": self.scaffolded,
            "model_decided": self.model_decided,
            "supported": self.supported,
            "unsupported": self.unsupported,
            "isolated": self.isolated,
            "repaired": self.repaired,
            "computed": self.computed,
            "missing": self.missing,
        }

    @property
    def upheld(self) -> float | None:
        """Share of the expected steps that are neither missing nor repaired."""
        if not self.expected or self.missing is None:
            return None
        return (self.expected - self.missing - self.repaired) / self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of one check."""

    verdict: Verdict
    violations: tuple[Violation, ...]
    steps: StepCounts
    procedure_failed: Ending | None
    rest: Rest | None = None  # after the answer, not read

    def to_json(self) -> dict[str, object]:
        """Give the report as JSON data, as `stepguard check --json` prints it."""
        failed = self.procedure_failed
        return {
            "verdict": self.verdict.value,
            "violations": [violation.to_json() for violation in self.violations],
            "steps": self.steps.to_json(),
            "fidelity": self.steps.fidelity,
            "upheld": self.steps.upheld,
            "procedure_failed": failed and {"step": failed.path, "reason": failed.reason},
            "unread": self.rest and {"at": self.rest.at, "characters": self.rest.characters},
        }


def report(checker: Checker, classes: Mapping[str, str] | None = None, rest: Rest | None = None) -> Report:
    """Sum up a checker that was closed.

    `classes` names how verified steps came about, by path, where that is not as the checker sees it:
    `scaffolded`, `repaired`, `computed` (it sees `verified` and `model_decided`). `rest` is what it was not
    told of the text.
    """
    return Report(
        verdict=checker.verdict,
        violations=tuple(checker.violations),
        steps=count(checker, classes or {}),
        procedure_failed=checker.failed_procedure,
        rest=rest,
    )


def count(checker: Checker, classes: Mapping[str, str]) -> StepCounts:
    """Count the steps of a checker's execution, those that are still due included."""
    ended = Counter(
        str(classes.get(path, "model_decided" if decided else "verified")) for path, decided in checker.paths
    )
    expected = checker.steps
    return StepCounts(
        expected=expected,
        verified=ended["verified"],
        scaffolded=ended["scaffolded"],
        model_decided=ended["model_decided"],
        supported=sum(classes.get(path, "model_decided") == "model_decided" for path in checker.supported),
        repaired=ended["repaired"],
        computed=ended["computed"],
        missing=None if expected is None else max(expected - len(checker.paths), 0),
    )
