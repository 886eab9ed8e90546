"""Procedures that the tests of grammars share."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

INVOICE: Final = files("guard.examples.invoice").joinpath("invoice.proc").read_text(encoding="utf-8")

# One of every construct; names with `_`, which llama.cpp does not take, and text that needs escapes.
EVERYTHING: Final = r"""
numbers round half_up, carry shown

record Item_line { name: string, qty: int, price: decimal(2) }

enum Zone: "near" | "say \"far\" \\"

table rate_of(qty: int) -> percent, first match
  < 5 => 0%
  any => 12.5%

procedure every_thing(note: text, some_limit: int, some_day: date) -> { net_sum: decimal(2), zone: string }
  extract item_lines: list of Item_line from note quote
  extract zone: Zone from note
  judge is_loyal: bool from note asking "Loyal?"
  extract wanted_on: date from note where wanted_on >= some_day
  extract sent_at: datetime from note
  latest_on = max(wanted_on, some_day + (some_limit mod 7) days) + (if is_loyal then 2 else 1) months down
  still_open = latest_on - date(sent_at - 36 hours) > 3 and weekday(latest_on) < 6
  net_sum = 0.00
  for l in item_lines at most 3
    part = l.qty * l.price * (1 - rate_of(l.qty)) to 2
    if l.qty > 3 and is_loyal
      part = part - 0.01
    elif l.qty > 1 or not is_loyal
      check part >= 0
    else
      require part < 100 else deny "Too\nmuch."
    net_sum = net_sum + part
  total = sum(l.qty for l in item_lines)
  require total < some_limit else return { net_sum: 0.00, zone: "" }
  label = if is_loyal then zone else "near"
  check -total < 0 and label in ["near", zone] and (still_open or latest_on > some_day)
  net_sum = net_sum - min(net_sum * 3%, 25) to 2
  return { net_sum: net_sum, zone: label }

example every_thing
  note = "Two \"hinges\" at 3.35\nand 4 oak panels, 61.20 each; far away."
  some_limit = 50
  some_day = 2026-01-31
  decide wanted_on = 2026-03-01
  decide sent_at = 2026-02-27T23:59:59-05:00
  decide item_lines = [{ name: "hinge", qty: 2, price: 3.35 }, { name: "oak \"x\"", qty: 4, price: 61.20 }]
  decide zone = "say \"far\" \\"
  decide is_loyal = true
"""
