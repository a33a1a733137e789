"""Result files: what is written comes back, whatever was changed does not; what is left to run is what is not there."""

import hashlib
import itertools

import numpy as np
import pytest
from sweep_tools import measured, small_spec

from jaxband.sweep import CorruptUnitError
from jaxband.sweep.storage import units


def packed(unit):
    return units.pack(unit, measured(unit))


def some_units(count):
    cells = small_spec().cells()
    return [units.Unit(cells[i % 2], 3 * i, 3 * i + 1 + i % 5) for i in range(count)]


def test_what_is_written_comes_back():
    (unit,) = some_units(1)
    written = measured(unit)
    written.totals["total_reward"] = np.array([np.nan])
    piece = units.unpack(*units.pack(unit, written))
    assert (piece.cell, piece.start, piece.stop) == (unit.cell.identity, unit.start, unit.stop)
    assert piece.checkpoints == [1, 2, 3, 4, 5]
    for read, kept in zip(piece.measured, written, strict=True):
        assert read.keys() == kept.keys()
        for metric, values in kept.items():
            np.testing.assert_array_equal(read[metric], values)
    assert packed(unit) == packed(unit)


def test_arrays_of_the_wrong_length_are_refused():
    (unit,) = some_units(1)
    good = measured(unit)
    with pytest.raises(ValueError, match=r"total_reward must have shape \[1\], got \[2\]"):
        units.pack(unit, good._replace(totals={metric: np.zeros(2) for metric in unit.cell.metrics}))
    with pytest.raises(ValueError, match=r"total_reward must have shape \[1, 5\], got \[1, 4\]"):
        units.pack(unit, good._replace(trajectories={metric: np.zeros((1, 4)) for metric in unit.cell.metrics}))


@pytest.mark.parametrize(("start", "stop", "kept"), [(0, 3, 3), (3, 6, 2), (4, 5, 1), (5, 6, 0), (6, 7, 0)])
def test_only_the_first_replications_of_a_cell_have_a_trajectory(start, stop, kept):
    unit = units.Unit(small_spec(trajectories=5).cells()[0], start, stop)
    piece = units.unpack(*packed(unit))
    assert {values.shape for values in piece.measured.trajectories.values()} == {(kept, 5)}
    assert {values.shape for values in piece.measured.totals.values()} == {(stop - start,)}


def test_2000_corrupted_files_are_all_refused_with_one_exception():
    """Bit flips, truncations, additions, swapped files and overwritten stretches, at random."""
    rng = np.random.default_rng(0)
    files = [packed(unit) for unit in some_units(50)]
    for case in range(2000):
        name, content = files[rng.integers(50)]
        damaged = bytearray(content)
        match case % 5:
            case 0:
                damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
            case 1:
                del damaged[rng.integers(len(damaged)) :]
            case 2:
                damaged = bytearray(files[(files.index((name, content)) + rng.integers(1, 50)) % 50][1])
            case 3:
                start = rng.integers(len(damaged) - 8)
                damaged[start : start + 8] = bytes(8) if damaged[start : start + 8] != bytes(8) else b"12345678"
            case 4:
                damaged += rng.bytes(rng.integers(1, 20))
        assert damaged != content
        with pytest.raises(CorruptUnitError):
            units.unpack(name, bytes(damaged))


@pytest.mark.parametrize("byte", range(8))
def test_every_single_bit_counts(byte):
    name, content = packed(some_units(1)[0])
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << byte
        with pytest.raises(CorruptUnitError):
            units.unpack(name, bytes(damaged))


@pytest.mark.parametrize("body", [b"", b"[]\n", b"{}\n", b"null\n", b"\xff\n", b'{"schema":2}\n', b"[" * 100_000])
def test_well_signed_nonsense_is_refused(body):
    sha256 = hashlib.sha256(body).hexdigest()
    with pytest.raises(CorruptUnitError):
        units.unpack(sha256 + units.SUFFIX, units.MAGIC + sha256.encode() + b"\n" + body)


def test_what_is_left_is_what_is_not_there():
    """Against sets of numbers, for random stretches."""
    rng = np.random.default_rng(1)
    cell = small_spec().cells()[0]
    for _ in range(300):
        total, size = int(rng.integers(1, 40)), int(rng.integers(1, 12))
        cuts = sorted({0, total, *rng.integers(0, total + 1, size=6).tolist()})
        done = [(a, b) for a, b in itertools.pairwise(cuts) if rng.random() < 0.5]
        left = units.missing(cell, done, total, size)
        there = [r for start, stop in done for r in range(start, stop)]
        new = [r for unit in left for r in range(unit.start, unit.stop)]
        assert sorted(there + new) == list(range(total)), "every replication once"
        assert all(unit.start // size == (unit.stop - 1) // size for unit in left), "cut at multiples of the size"


@pytest.mark.parametrize(
    ("horizon", "replications", "size"),
    [(1, 10**6, 4096), (1000, 10**6, 1088), (5000, 10**6, 256), (10**6, 10**6, 64), (1000, 500, 64), (1000, 1000, 128)],
)
def test_units_are_about_a_million_rounds_but_several_per_cell(horizon, replications, size):
    (cell, _) = small_spec(horizon=horizon).cells()
    assert units.size_of(cell, replications) == size
