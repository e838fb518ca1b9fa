import numpy as np
import pytest

from fairlead_dev.bench.classifier.dtw import distances, neighbours, vote

A, B = [0, 0, 1, 2, 1, 0], [0, 1, 2, 1, 0, 0]
C, D = [1, 3, 4, 9, 8, 2, 1, 5, 7, 3], [1, 6, 2, 3, 0, 9, 4, 3, 6, 3]
X, Y = [128, 130, 140, 160, 190, 210, 228, 228, 150, 130], [128, 128, 131, 141, 161, 189, 212, 228, 227, 149]


@pytest.mark.parametrize(
    ("first", "second", "radius", "distance"),
    [
        (A, B, 0, 4),
        (A, B, 1, 0),
        (A, B, 10, 0),
        (C, D, 0, 32),
        (C, D, 1, 21),
        (C, D, 2, 15),
        (C, D, 10, 15),
        (X, Y, 0, 192),
        (X, Y, 1, 27),
        (X, Y, 10, 27),
        ([1, 2, 3], [3], 0, 3),
    ],
)
def test_known_distances(first: list[float], second: list[float], radius: int, distance: float) -> None:
    assert distances(np.array([first], dtype=float), np.array([second], dtype=float), radius)[0] == distance


def test_many_pairs_at_once_are_as_one_by_one() -> None:
    chance = np.random.default_rng(3)
    first, second = chance.normal(size=(2, 20, 12))
    together = distances(first, second, 3)
    assert together == pytest.approx([distances(first[[row]], second[[row]], 3)[0] for row in range(20)])
    assert together == pytest.approx(distances(second, first, 3))


def test_the_nearest_come_first_and_the_lower_number_on_a_tie() -> None:
    training = np.array([[5.0, 5.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    assert neighbours(training, np.array([[0.0, 0.0], [5.0, 4.0]]), 10, 3).tolist() == [[1, 3, 2], [0, 2, 1]]


def test_the_vote_goes_to_the_most_frequent_and_then_to_the_nearest() -> None:
    truth = np.array([0, 1, 1, 2])
    nearest = np.array([[0, 1, 2], [3, 0, 1]])
    assert vote(nearest, truth, 1, 3).tolist() == [0, 2]
    assert vote(nearest, truth, 3, 3).tolist() == [1, 2]
