"""Commands that put snapshots into a series, where each line stands once, and take them out again."""

from collections.abc import Sequence
from pathlib import Path

import click

from dyknow.commands.common import Places, command, emit, example, format_option, note, places, show, tidied
from dyknow.commands.mirroring import StepMeter
from dyknow.tables import Format, Listing
from kg import snapshot
from kg.errors import SnapshotError, UsageError
from kg.resources import SHIPPED, shipped_snapshots
from kg.snapshot import Damaged, Packed, Snapshot
from kg.sources.fetch import Step


@command(epilog=example("dyknow snapshot pack", "dyknow snapshot pack 2024-01-01 2024-02-01 --keep"))
@click.argument("names", metavar="[DATE]...", nargs=-1)
@click.option("--keep", is_flag=True, help="Leave the folders of what was packed.")
@format_option
@places("snapshots")
def pack(names: tuple[str, ...], keep: bool, form: Format, places: Places) -> None:
    """Put snapshots into a series: all of yours that stand in folders of their own, or those named.

    In a series every line stands once, with the snapshots from and until which it was known, so that sixty monthly
    snapshots need about two times the room of one. All commands find and read them as before. A series grows at its
    end only; what is older than its newest snapshot stays a folder. Each snapshot is read back, byte for byte, before
    its folder is taken away. The snapshots that ship with dyknow stay files.
    """
    tidied(places)
    chosen = _to_pack(names, places)
    if not chosen:
        note("There is nothing to pack.")
        return
    meter, packed = StepMeter(), []
    for number, one in enumerate(chosen, 1):
        packed.append(snapshot.pack(one, places.snapshots))
        if not keep:
            snapshot.drop(one, packed[-1])
        meter(Step("snapshots packed", number, len(chosen)))
    columns = ("snapshot", "triples", "added", "left", "back", "bytes", "path")
    rows = [
        (one.id, one.manifest["counts"]["triples"], *one.changes, one.path.stat().st_size, str(one.path))
        for one in packed
    ]
    show(Listing(columns, rows) if form != "table" else Listing(columns[:-1], [row[:-1] for row in rows]), form)


def _to_pack(names: Sequence[str], places: Places) -> list[Snapshot]:
    """Return the snapshots to pack, by date: none that ships, none that a series has no place for.

    Raises:
        UsageError: one of those named is none of the folder's, or ships with dyknow.
    """
    stay = SHIPPED if places.snapshots.resolve() == shipped_snapshots().resolve() else ()
    own = [one for one in places.find() if one.path.parent == places.snapshots and one.id not in stay]
    if not names:
        there = snapshot.packed(places.snapshots)
        dates, last = {one.id for one in there}, max((one.date for one in there), default=None)
        late = [one for one in own if last is not None and one.date <= last and one.id not in dates]
        if late:
            note(f"Left as folders, for the series goes beyond them: {', '.join(one.id for one in late)}.")
        return [one for one in own if one not in late]
    by_name = {one.id: one for one in own}
    for name in names:
        if name in stay:
            raise UsageError(f"Snapshot {name} ships with dyknow and stays a folder.", hint="Pack your own ones.")
        if name not in by_name:
            places.named(name)  # says which name is the nearest
            raise UsageError(f"{places.snapshots / name} is no folder to pack.", hint="See: dyknow snapshot list")
    return sorted((by_name[name] for name in dict.fromkeys(names)), key=lambda one: one.date)


@command(epilog=example("dyknow snapshot unpack 2024-01-01", "dyknow snapshot unpack --to elsewhere"))
@click.argument("names", metavar="[DATE]...", nargs=-1)
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Folder to write them to. [default: the folder of your snapshots]",
)
@places("snapshots")
def unpack(names: tuple[str, ...], target: Path | None, places: Places) -> None:
    """Write snapshots of a series as folders of their own: all of them, or those named.

    They are what was packed, byte for byte. The series stays as it is; when all are out, it can be deleted. A folder
    that is there already is checked and left alone. Exit code 1 where it is damaged, or a segment is.
    """
    tidied(places)
    series, missing = snapshot.survey_packed(places.snapshots)
    if not series and not missing:
        raise SnapshotError(f"{places.snapshots} has no series.", hint="Make one: dyknow snapshot pack")
    every: list[Packed | Damaged] = [*series, *missing]
    found = {one.id: one for one in every}
    for name in names:
        if name not in found:
            raise UsageError(f"The series has no snapshot {name!r}.", hint="See: dyknow snapshot list")
    chosen = [found[name] for name in dict.fromkeys(names)] or list(found.values())
    folder, meter = target or places.snapshots, StepMeter()
    errors: list[SnapshotError] = []
    left: list[str] = []
    for number, one in enumerate(chosen, 1):
        try:
            if names or not (folder / one.id).exists():
                emit(f"{_unpacked(one, folder).path}\n")
            else:
                left.append(_whole(one, folder))
        except SnapshotError as error:
            errors.append(error)
        meter(Step("snapshots unpacked", number, len(chosen)))
    if left:
        note(f"Left alone, for a whole folder is there: {', '.join(left)}.")
    for other in errors[:-1]:
        note(f"{other.message} {other.hint or ''}".rstrip())
    if errors:
        raise errors[-1]


def _unpacked(one: Packed | Damaged, folder: Path) -> Snapshot:
    if isinstance(one, Damaged):
        raise one.error
    return snapshot.unpack(one, folder)


def _whole(one: Packed | Damaged, folder: Path) -> str:
    """Return the date of a snapshot whose folder is there and whole.

    Raises:
        SnapshotError: it is damaged.
    """
    if wrong := snapshot.verify(folder / one.id):
        hint = f"Move {folder / one.id} away, and unpack it again."
        raise SnapshotError(" ".join(wrong), hint="Fetch it again." if isinstance(one, Damaged) else hint)
    return one.id
