"""The shop's procedures: clean as they are, and each change that breaks the shop's policy is an author error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from guard.config.settings import default_config
from guard.errors import ConversationError, ProcedureError
from guard.procedure.load import Library, load

FOLDER = Path(__file__).parent.parent / "examples/retail"
FILES = {file.name: file.read_text() for file in FOLDER.glob("*.proc")}
MAIN = ["cancel.proc", "return.proc", "exchange.proc", "address.proc"]
CONFIRM = r'  confirm [^"]*"[^"]*"\n'


def shop(main: str, **changed: str) -> Library:
    files = FILES | {f"{name}.proc": text for name, text in changed.items()}
    return load(files[main], main, files=files)


def refused(main: str, **changed: str) -> list[str]:
    with pytest.raises(ProcedureError) as caught:
        shop(main, **changed)
    return [f"{problem.file}: {problem.message}" for problem in caught.value.problems]


def call(main: str) -> str:
    """The line that changes something, and the only one."""
    [line] = re.findall(r"  done = call .*\n", FILES[main])
    return str(line)


@pytest.mark.parametrize("main", MAIN)
def test_each_procedure_is_clean_and_one_for_conversations(main: str) -> None:
    [program] = shop(main).procedures.values()
    assert program.name == f"retail_{main.removesuffix('.proc')}"
    assert not shop(main).warnings
    assert "always confirm before writes" in program.numbered
    with pytest.raises(ConversationError):
        program.require_runnable()
    assert program.name not in default_config().bindable


@pytest.mark.parametrize("main", MAIN)
def test_a_change_without_a_confirmation_is_refused(main: str) -> None:
    text, found = re.subn(CONFIRM, "", FILES[main])
    assert found == 1
    [told] = refused(main, **{main.removesuffix(".proc"): text})
    assert "is called without a confirmation; shop.proc, line 3 says always confirm before writes" in told


@pytest.mark.parametrize("main", MAIN)
def test_a_second_change_on_one_yes_is_refused(main: str) -> None:
    text = FILES[main].replace(call(main), call(main) + call(main))
    told = refused(main, **{main.removesuffix(".proc"): text})
    assert "may not hold; shop.proc, line 3" in told[0]


@pytest.mark.parametrize("main", MAIN)
def test_another_order_than_the_confirmed_one_is_refused(main: str) -> None:
    changed = call(main).replace("order_id", "order.order_id")
    [told] = refused(main, **{main.removesuffix(".proc"): FILES[main].replace(call(main), changed)})
    assert "with other arguments; shop.proc, line 3" in told


@pytest.mark.parametrize("main", MAIN)
def test_an_order_read_anew_behind_the_confirmation_is_refused(main: str) -> None:
    again = '  extract order_id: string from chat where order_id != ""\n'
    text = FILES[main].replace(call(main), again + call(main))
    [told] = refused(main, **{main.removesuffix(".proc"): text})
    assert "may not hold; shop.proc, line 3" in told


@pytest.mark.parametrize("main", MAIN)
def test_a_user_who_is_not_found_out_is_refused(main: str) -> None:
    text = FILES[main].replace("user = do identify(chat)", 'user = call get_user_details("U1")')
    told = refused(main, **{main.removesuffix(".proc"): text})
    assert all(
        "is not always called behind find_user_id_by_email or find_user_id_by_name_zip" in one for one in told
    )
    assert len(told) == text.count(" call ")


def test_finding_out_on_one_way_only_is_refused_where_it_stands() -> None:
    text = re.sub(
        r"    match = call find_user_id_by_name_zip.*\n",
        "    match = { found: true, user_id: zip }\n",
        FILES["identify.proc"],
    )
    told = refused("identify.proc", identify=text)
    assert [one.split(";")[0] for one in told] == [
        (
            "identify.proc: 'get_user_details' is not always called behind find_user_id_by_email or "
            "find_user_id_by_name_zip"
        )
    ]


def test_an_exchange_is_made_once() -> None:
    line, confirm = call("exchange.proc"), re.search(CONFIRM, FILES["exchange.proc"])
    assert confirm is not None
    told = refused("exchange.proc", exchange=FILES["exchange.proc"].replace(line, line + confirm[0] + line))
    assert told == [
        (
            "exchange.proc: 'exchange_delivered_order_items' may be called after exchange_delivered_order_items; "
            "shop.proc, line 5 says always no exchange_delivered_order_items after exchange_delivered_order_items"
        )
    ]


def test_a_shop_that_asks_for_other_arguments_is_told_by_those_who_call() -> None:
    changed = re.sub(r"(cancel_pending_order\()\s*order_id: string,", r"\1", FILES["shop.proc"])
    assert changed != FILES["shop.proc"]
    told = refused("cancel.proc", shop=changed)
    assert [one.split(" takes")[0] for one in told] == ["cancel.proc: tool 'cancel_pending_order'"] * 2
    assert shop("return.proc", shop=changed).procedures
    digests = [
        one.procedures["retail_return"].digest
        for one in (shop("return.proc"), shop("return.proc", shop=changed))
    ]
    assert digests[0] == digests[1]
