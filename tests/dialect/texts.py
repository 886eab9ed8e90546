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

procedure every_thing(note: text, some_limit: int) -> { net_sum: decimal(2), zone: string }
  extract item_lines: list of Item_line from note quote
  extract zone: Zone from note
  judge is_loyal: bool from note asking "Loyal?"
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
  check -total < 0 and label in ["near", zone]
  net_sum = net_sum - min(net_sum * 3%, 25) to 2
  return { net_sum: net_sum, zone: label }

example every_thing
  note = "Two \"hinges\" at 3.35\nand 4 oak panels, 61.20 each; far away."
  some_limit = 50
  decide item_lines = [{ name: "hinge", qty: 2, price: 3.35 }, { name: "oak \"x\"", qty: 4, price: 61.20 }]
  decide zone = "say \"far\" \\"
  decide is_loyal = true
"""
