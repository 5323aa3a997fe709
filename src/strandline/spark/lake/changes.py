"""Manifests after a commit: the one before, with what was written in it and what that replaces left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from .files import Staged
from .manifest import Batch, Change, File, Gold, Manifest, Silver
from .task import BRONZE

Added = dict[str, list[File]]


def with_batch(manifest: Manifest, batch: Batch, tables: Mapping[str, Silver], added: Added) -> Manifest:
    """A batch was written, for the first time or anew; `tables` are those of the types in it."""
    changes: dict[str, Change] = {}

    def files_of(folder: str, files: Sequence[File]) -> list[File]:
        gone = [file for file in files if batch.after < file.first <= batch.until]
        change = Change(added.get(folder, []), gone)
        if change.add or change.remove:
            changes[folder] = change
        kept = [file for file in files if not batch.after < file.first <= batch.until]
        return sorted([*kept, *change.add], key=lambda file: file.first)

    silver = {**manifest.silver, **_with_files(tables, manifest)}
    others = [other for other in manifest.batches if not batch.after <= other.after < batch.until]
    return replace(
        manifest,
        commit=manifest.commit + 1,
        batches=sorted([*others, batch], key=lambda each: each.after),
        bronze=files_of(BRONZE, manifest.bronze),
        silver={
            type: replace(table, files=files_of(table.folder, table.files)) for type, table in silver.items()
        },
        changes=changes,
    )


def with_silver(manifest: Manifest, tables: Mapping[str, Silver], added: Added) -> Manifest:
    """Silver tables were written anew, with other columns."""
    written = {type: replace(table, files=added[table.folder]) for type, table in tables.items()}
    return replace(
        manifest,
        commit=manifest.commit + 1,
        silver={**manifest.silver, **written},
        changes={
            table.folder: Change(table.files, manifest.silver[type].files, replaces=True)
            for type, table in written.items()
        },
    )


def with_gold(manifest: Manifest, name: str, table: Gold, added: Added) -> Manifest:
    """A projection was folded anew."""
    files, known = added[table.folder], manifest.gold.get(name)
    return replace(
        manifest,
        commit=manifest.commit + 1,
        gold={**manifest.gold, name: replace(table, files=files)},
        changes={table.folder: Change(files, known.files if known else [], replaces=True)},
    )


def with_classes(manifest: Manifest, tables: Mapping[str, Silver]) -> Manifest:
    """The tables of types have these classes; their rows stay as they are."""
    return replace(manifest, silver={**manifest.silver, **_with_files(tables, manifest)})


def _with_files(tables: Mapping[str, Silver], manifest: Manifest) -> dict[str, Silver]:
    known = manifest.silver
    return {
        type: replace(table, files=known[type].files if type in known else [])
        for type, table in tables.items()
    }


def settled(manifest: Manifest) -> Manifest:
    """All files are in their places."""
    return replace(manifest, changes={})


def by_table(staged: Iterable[Staged]) -> Added:
    """Files as a manifest lists them."""
    added: Added = {}
    for file in sorted(staged, key=lambda file: file.first):
        listed = File(file.path, file.first, file.last, file.rows, file.bytes)
        added.setdefault(file.table, []).append(listed)
    return added


def joined(batches: Sequence[Batch], size: int) -> Iterator[Batch]:
    """Neighbours together, up to so many events."""
    group: list[Batch] = []
    for batch in batches:
        if group and batch.until - group[0].after > size:
            yield _one(group)
            group = []
        group.append(batch)
    if group:
        yield _one(group)


def _one(group: Sequence[Batch]) -> Batch:
    return Batch(group[0].after, group[-1].until, min(batch.as_of for batch in group))
