from __future__ import annotations

import kopf

from fairlead.handlers.registry import operator_settings


class _Untouched(dict[str, object]):
    """An object that must not be read, let alone copied."""

    def __iter__(self) -> object:  # type: ignore[override]
        raise AssertionError("the object was read")

    def __getitem__(self, key: str) -> object:
        raise AssertionError(f"{key} was read")


def test_kopf_neither_copies_nor_changes_the_object_of_an_event() -> None:
    persistence = operator_settings().persistence
    body, patch = kopf.Body(_Untouched()), kopf.Patch()  # type: ignore[arg-type]
    essence = persistence.diffbase_storage.build(body=body)
    persistence.diffbase_storage.store(body=body, patch=patch, essence=essence)
    persistence.progress_storage.touch(body=body, patch=patch, value=None)
    assert persistence.diffbase_storage.fetch(body=body) is None
    assert persistence.progress_storage.clear(essence=essence) is essence
    assert not patch
