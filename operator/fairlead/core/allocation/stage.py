"""The part of the network that is still unsettled, and what each link offers its jobs there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.core.allocation.guarantees import KeptGuarantees
from fairlead.core.allocation.problem import Problem
from fairlead.core.allocation.waterfill import Booleans, Floats, Indices, fill_levels, totals


@dataclass(frozen=True, slots=True)
class FillingStage:
    """Unsettled jobs with the slices and links they cross, renumbered. What settled jobs hold is in `slice_held`, or taken off `room`.

    A *crossing* is a job on a link; they are flat here, `place` being a crossing's position in the matrix (job, column).
    """

    jobs: Indices
    """The unsettled jobs' numbers in the problem."""
    ceiling: Floats
    columns: int
    place: Indices
    crossing_job: Indices
    crossing_slice: Indices
    crossing_weight: Floats
    crossing_guarantee: Floats
    slice_link: Indices
    slice_weight: Floats
    slice_floor: Floats
    slice_limit: Floats
    slice_held: Floats
    room: Floats

    @property
    def problem_place(self) -> Indices:
        """Each crossing's position in the problem's own matrix."""
        result: Indices = self.place + (self.jobs - np.arange(len(self.jobs)))[self.crossing_job] * self.columns
        return result

    def demands(self, offers: Floats) -> Floats:
        """What each crossing's job could use there, given what its other links offer; `offers` and the result are flat."""
        matrix = np.full((len(self.jobs), self.columns), np.inf)
        matrix.ravel()[self.place] = offers
        elsewhere = np.empty_like(matrix)
        least = self.ceiling
        for column in range(self.columns):
            elsewhere[:, column] = least
            least = np.minimum(least, matrix[:, column])
        least = np.full(len(self.jobs), np.inf)
        for column in reversed(range(self.columns)):
            np.minimum(elsewhere[:, column], least, out=elsewhere[:, column])
            least = np.minimum(least, matrix[:, column])
        result: Floats = elsewhere.ravel()[self.place]
        return result

    def rates(self, offers: Floats) -> Floats:
        """Each job's rate under these offers: its ceiling or the least offer on its links."""
        matrix = np.full((len(self.jobs), self.columns), np.inf)
        matrix.ravel()[self.place] = offers
        result: Floats = np.minimum(self.ceiling, matrix.min(axis=1))
        return result

    def answer(self, offers: Floats) -> Floats:
        """What every link offers when the others offer `offers`: tenants first, then the jobs within each tenant's slice.

        An offer is infinite where the link, or the tenant's slice of it, has room for all that is wanted. Higher offers elsewhere
        never raise an offer here.
        """
        return self.offers(self.levels(offers)[1])

    def offers(self, share: Floats) -> Floats:
        """What each crossing's job may have at the given share per weight in its slice."""
        result: Floats = np.maximum(self.crossing_guarantee, share[self.crossing_slice] * self.crossing_weight)
        return result

    def levels(self, offers: Floats) -> tuple[Floats, Floats]:
        """The share per tenant weight of every link and, within it, the share per job weight of every slice; see `answer`."""
        demand = self.demands(offers)
        slices = len(self.slice_link)
        wanted = np.minimum(self.slice_limit, self.slice_held + totals(self.crossing_slice, demand, slices))
        level = fill_levels(self.slice_link, self.slice_weight, np.minimum(self.slice_floor, wanted), wanted, self.room)
        room = np.maximum(self.entitled(level) - self.slice_held, 0.0)
        share = fill_levels(self.crossing_slice, self.crossing_weight, np.minimum(self.crossing_guarantee, demand), demand, room)
        return level, share

    def entitled(self, level: Floats) -> Floats:
        """What every slice may hold at the given levels of the links."""
        result: Floats = np.minimum(self.slice_limit, np.maximum(self.slice_floor, level[self.slice_link] * self.slice_weight))
        return result


def settled_apart(problem: Problem, kept: KeptGuarantees, settled: Booleans, rate: Floats) -> FillingStage:
    """The stage of the jobs that are not `settled`, beside those that are and hold their `rate`.

    Crossings are ordered by slice and slices by link, as water-filling needs them.
    """
    jobs = np.flatnonzero(~settled)
    crossing = problem.crossing[jobs]
    place = np.flatnonzero(crossing.ravel() >= 0)
    slice_of = crossing.ravel()[place]
    order = np.argsort(slice_of, kind="stable")
    place, slice_of = place[order], slice_of[order]
    columns = crossing.shape[1]
    crossing_job = place // columns

    slices = len(problem.slice_link)
    row, column = np.nonzero((problem.crossing >= 0) & settled[:, None])
    held = totals(problem.crossing[row, column], rate[row], slices)
    reserved = totals(slice_of, kept.job[jobs][crossing_job], slices)
    active = np.zeros(slices, dtype=bool)
    active[slice_of] = True
    link_active = np.zeros(len(problem.links), dtype=bool)
    link_active[problem.slice_link[active]] = True
    slice_number = np.cumsum(active) - 1
    link_number = np.cumsum(link_active) - 1
    held_by_others = totals(problem.slice_link, np.where(active, 0.0, held), len(problem.links))
    return FillingStage(
        jobs=jobs,
        ceiling=problem.job_ceiling[jobs],
        columns=columns,
        place=place,
        crossing_job=crossing_job,
        crossing_slice=slice_number[slice_of],
        crossing_weight=problem.job_weight[jobs][crossing_job],
        crossing_guarantee=kept.job[jobs][crossing_job],
        slice_link=link_number[problem.slice_link[active]],
        slice_weight=problem.slice_weight[active],
        slice_floor=np.minimum(problem.slice_limit, np.maximum(kept.slice_, held + reserved))[active],
        slice_limit=problem.slice_limit[active],
        slice_held=held[active],
        room=np.maximum(problem.available - held_by_others, 0.0)[link_active],
    )
