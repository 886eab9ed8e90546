"""The procedures that runs are told about, and runs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from guard.dialect.notation import Dialect
from guard.procedure.execute import Program
from guard.procedure.load import load
from guard.procedure.types import Value
from guard.run.ladders import LADDERS, Action, Rule
from guard.run.messages import Target
from guard.run.run import Job, Policy, Run

NONCE: Final = "3fa92c"

# The ladders without what asks for a step by itself: here it matters how a trace is gone on with.
IN_TRACE: Final = tuple(
    Rule(kinds=frozenset({kind}), ladder=tuple(rung for rung in ladder if rung.action is not Action.ISOLATE))
    for kind, ladder in LADDERS.items()
)

# Computed steps only: 1 a = 3 + 4 = 7, 2 b = 7 * 2 = 14, 3 c = 14 - 3 = 11, 4 return 11.
SUMS: Final = """\
procedure sums(x: int, y: int) -> int
  a = x + y
  b = a * 2
  c = b - x
  return c
"""

# Two decisions, a branch that hangs on one of them, a record.
ORDER: Final = """\
procedure order(note: text) -> { qty: int, total: decimal(2) }
  extract qty: int from note quote loosely
    where qty >= 1 and qty <= 50
  judge loyal: bool from note
    asking "Is this a returning customer?"
  price = 10.00
  if loyal
    price = 9.50
  total = qty * price to 2
  return { qty: qty, total: total }
"""

# A decision that is admissible and still lets the procedure fail, at once or later.
SHARES: Final = """\
procedure shares(note: text) -> decimal(2)
  extract people: int from note
  check people < 100
  rest = 10 - people
  each = 90 / rest to 2
  return each
"""

# A refusal, and a loop.
STOCK: Final = """\
procedure stock(counts: list of int, least: int) -> int
  require len(counts) > 0 else deny "Nothing counted."
  all = 0
  for n in counts at most 10
    all = all + n
  require all >= least else return 0
  return all
"""

# Steps in any order, one of them the model's: 1.1 sum = 3 + 4 = 7, 1.2 n = ..., 1.3 product = 3 * 4 = 12.
ASIDE: Final = """\
procedure aside(x: int, y: int, note: text) -> int
  any order
    sum = x + y
    extract n: int from note
    product = x * y
  return sum + n + product
"""

# Ways that may fail: 1[1] try "plus", 1[1].1.1 require 3 + 4 > 9 = false, 1[2] try "times", ..., 2 return 12.
WAYS: Final = """\
procedure ways(x: int, y: int) -> int
  one of
    try "plus"
      require x + y > 9 else next
      found = x + y
    try "times"
      found = x * y
  return found
"""

# A procedure that carries out another: 1 y = do doubled(3), 1.1 return 3 * 2 = 6, 2 return 6 + 4 = 10.
CALLER: Final = """\
procedure caller(x: int, z: int) -> int
  y = do doubled(x)
  return y + z
procedure doubled(n: int) -> int
  return n * 2
"""

NOTE: Final = "Six panels please, as always."
PREFILL: Final = Target(name="main", model="m", prefill=True, dialect=None, temperature=0.0)
DIALOGUE: Final = Target(name="main", model="m", prefill=False, dialect=None, temperature=0.0)
GRAMMAR: Final = Target(name="main", model="m", prefill=True, dialect=Dialect.GBNF, temperature=0.0)
LARGER: Final = Target(name="larger", model="l", prefill=True, dialect=None)


@cache
def program(text: str) -> Program:
    """Compile the first procedure of a text."""
    return next(iter(load(text).procedures.values()))


def job(text: str, inputs: Mapping[str, Value], **fields: object) -> Job:
    """A client's request for a procedure."""
    known: dict[str, object] = {"messages": ({"role": "user", "content": "Go."},), "nonce": NONCE}
    return Job(program=program(text), inputs=inputs, **(known | fields))  # type: ignore[arg-type]


def in_trace(policy: Policy | None = None) -> Policy:
    """Give a policy that asks for steps as parts of the trace, unless it has rules of its own."""
    policy = policy or Policy()
    return policy if policy.rules else replace(policy, rules=IN_TRACE)


def sums(*targets: Target, policy: Policy | None = None, **fields: object) -> Run:
    """A run of `sums`; by default on an upstream that can be prefilled and takes no grammar."""
    return Run(job(SUMS, {"x": 3, "y": 4}, **fields), in_trace(policy), targets or (PREFILL,))


def order(*targets: Target, policy: Policy | None = None, **fields: object) -> Run:
    """A run of `order`."""
    return Run(job(ORDER, {"note": NOTE}, **fields), in_trace(policy), targets or (PREFILL,))


def shares(*targets: Target, policy: Policy | None = None, **fields: object) -> Run:
    """A run of `shares`."""
    return Run(job(SHARES, {"note": NOTE}, **fields), in_trace(policy), targets or (PREFILL,))


def stock(counts: Sequence[int], *targets: Target, policy: Policy | None = None) -> Run:
    """A run of `stock`."""
    return Run(job(STOCK, {"counts": tuple(counts), "least": 5}), in_trace(policy), targets or (PREFILL,))


def aside(*targets: Target, policy: Policy | None = None) -> Run:
    """A run of `aside`."""
    inputs: dict[str, Value] = {"x": 3, "y": 4, "note": NOTE}
    return Run(job(ASIDE, inputs), in_trace(policy), targets or (PREFILL,))


def ways(*targets: Target, policy: Policy | None = None) -> Run:
    """A run of `ways`."""
    return Run(job(WAYS, {"x": 3, "y": 4}), in_trace(policy), targets or (PREFILL,))
