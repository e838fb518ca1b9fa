"""Where jobs run: the nodes and interfaces of both ends, for all waiting jobs in one pass."""

from fairlead.core.placement.board import Board
from fairlead.core.placement.turns import place_all

__all__ = ["Board", "place_all"]
