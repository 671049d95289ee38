"""A form in the terminal: one response at a time, whom it names by a number."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import click

from dyknow.adjudication import Judgment, Names
from dyknow.doubts import Holder, Response
from dyknow.tables import WIDTH, printable
from kg.errors import DataError

_KEYS: Final = "number or name, n none of them, u unclear, s skip, b back, q quit"


def fill(
    responses: Sequence[Response],
    holders: Mapping[str, Sequence[Holder]],
    save: Callable[[Judgment], object],
    by: str | None = None,
) -> int:
    """Ask a person about responses one by one, and return how many answers were given.

    Neither our reading nor anybody else's is shown: whoever judges does so alone.

    Args:
        responses: What to ask about, in this order.
        holders: Whom they may name, by fact, in the order of time.
        save: Takes each judgment as soon as it is made.
        by: Who judges.
    """
    place = given = 0
    while place < len(responses):
        one = responses[place]
        own = holders.get(one.fact, ())
        _show(one, own, f"{place + 1} of {len(responses)}")
        try:
            said = _answer(own)
        except click.Abort:  # the end of the input, or Ctrl-C: what was answered is saved
            click.echo()
            break
        if said == "q":
            break
        if isinstance(said, Holder):
            save(Judgment(one.key, named=True, entity=said.entity, label=said.label, by=by))
        elif said == "n":
            save(Judgment(one.key, named=True, reason="none", by=by))
        elif said == "u":
            save(Judgment(one.key, reason="unclear", by=by))
        given += said not in ("b", "s")
        place = max(0, place - 1) if said == "b" else place + 1
    return given


def _show(one: Response, holders: Sequence[Holder], place: str) -> None:
    lines = [f"{place}   {one.run}   {one.question}", ""]
    lines += _wrapped("Asked:    ", one.asked)
    lines += [*_wrapped("Answered: ", one.answer), ""]
    room = max((len(holder.label) for holder in holders), default=0)
    lines += [
        f"{number:>4}  {printable(holder.label):<{room}}  {holder.years}".rstrip()
        for number, holder in enumerate(holders, 1)
    ]
    click.echo("\n".join([*lines, ""]))


def _wrapped(title: str, text: str) -> list[str]:
    return textwrap.wrap(printable(text), WIDTH, initial_indent=title, subsequent_indent=" " * len(title)) or [title]


def _answer(holders: Sequence[Holder]) -> Holder | str:
    """Return the entity that was chosen, or the key; ask again until it is one."""
    names = Names(holders)
    while True:
        said = click.prompt(f"Whom does it name? ({_KEYS})", prompt_suffix="\n> ").strip()
        if said in ("n", "u", "s", "b", "q"):
            return str(said)
        if said.isdecimal() and 1 <= int(said) <= len(holders):
            return holders[int(said) - 1]
        try:
            found = names.find(said)
        except DataError as error:
            click.echo(f"{error.message} {error.hint or ''}".rstrip())
            continue
        if found is not None:
            return found
        click.echo(f"{said!r} is neither a key nor one of the names.")
