"""The forms that messages of movers and advisors must have to be accepted, and how their text is made printable."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

LONGEST_TERMINATION_MESSAGE = 4096
"""Bytes; the kubelet cuts longer ones."""

LONGEST_MESSAGE = 1024

Count = Annotated[int, Field(ge=0, lt=2**63)]
Finite = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Word = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_\-]{0,63}$")]
Control = Annotated[str, Field(pattern=r"^[a-z0-9_]{0,15}$")]


class MoverAnswer(BaseModel):
    """An answer whose unknown fields, of later versions, are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def printable(text: str) -> str:
    """`text` without control characters and of bounded length: it goes into the status of an object that people print."""
    clean = "".join(character if character.isprintable() else " " for character in text[: LONGEST_MESSAGE + 1])
    return clean if len(clean) <= LONGEST_MESSAGE else clean[: LONGEST_MESSAGE - 1] + "…"
