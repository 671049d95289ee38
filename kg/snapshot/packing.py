"""Snapshots put into a series, taken out again, and what they were packed from taken away."""

import hashlib
import os
from pathlib import Path

from kg.errors import SnapshotError
from kg.snapshot import manifest as manifests
from kg.snapshot.appending import append, mend
from kg.snapshot.beside import exists, take_away, written_beside
from kg.snapshot.files import PARTS, STATEMENTS, Packed, Snapshot, gzipped, in_series, write
from kg.snapshot.series import FOLDER, open_series


def pack(snapshot: Snapshot, folder: Path) -> Packed:
    """Append a snapshot to the series of a folder of snapshots, and return it as it lies there.

    What it was packed from stays; `drop` takes it away. It is read back, so it is there byte for byte.

    Raises:
        SnapshotError: the series has another one of that date, or goes beyond it, or one of them is damaged.
    """
    place = folder / FOLDER
    series = open_series(place)
    if series is None or snapshot.id not in series.dates:
        series = append(
            place,
            snapshot.id,
            snapshot.blocks(),
            manifest=manifests.render(snapshot.manifest),
            about={key: snapshot.manifest[key] for key in manifests.QUICK},
            digest=snapshot.digest,
        )
    else:
        mend(place)  # a killed process may have left it out of the list
    done = in_series(series)[series.place(snapshot.id)]
    if done.digest != snapshot.digest or done.manifest["checksum"] != snapshot.manifest["checksum"]:
        raise SnapshotError(
            f"{done.path} and {snapshot.path} are two different snapshots of one date.",
            hint=f"Move {snapshot.path} away.",
        )
    return done


def drop(snapshot: Snapshot, packed: Packed) -> None:
    """Take away the folder of a snapshot that a series has too.

    Raises:
        SnapshotError: they are two different ones, the folder's is damaged, or it holds other files, too.
    """
    if isinstance(snapshot, Packed) or snapshot.digest != packed.digest:
        raise SnapshotError(f"{packed.path} does not hold {snapshot.path}.", hint="Nothing was taken away.")
    foreign = sorted({path.name for path in snapshot.path.iterdir()} - {*PARTS})
    if foreign:
        hint = "It is packed, and its folder stays. Move that file away, or leave folders with --keep."
        raise SnapshotError(f"{snapshot.path} also holds {foreign[0]}, which is no part of a snapshot.", hint=hint)
    for _ in snapshot.blocks():  # raises where they are not what the manifest names
        pass
    take_away(snapshot.path)


def unpack(packed: Packed, folder: Path) -> Snapshot:
    """Write a snapshot of a series as ``folder/DATE``, and return it; the series stays as it is.

    Where another zlib compresses to other bytes than those its manifest knows, the manifest names the new ones.

    Raises:
        SnapshotError: the folder is there already, or the series is damaged.
    """
    target = folder / packed.id
    if target.exists():
        raise exists(target)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = dict(packed.manifest)
    with written_beside(target) as beside:
        with (beside / STATEMENTS).open("wb") as file:
            with gzipped(file) as stream:
                stream.writelines(packed.blocks())
            os.fsync(file.fileno())
        with (beside / STATEMENTS).open("rb") as file:
            file_digest = hashlib.file_digest(file, "sha256").hexdigest()
        if file_digest != manifest["statements"]["file_digest"]:
            manifest = manifests.renewed(manifest, file_digest)
        write(beside / manifests.NAME, manifests.render(manifest))
    return Snapshot(target.name, target, manifest)
