"""A file is whole or absent."""

import os

import pytest

from jaxband._runtime import atomic_files


def test_write_makes_directories_and_replaces(tmp_path):
    path = tmp_path / "a" / "b.json"
    atomic_files.write_atomic(path, b"one")
    atomic_files.write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["b.json"]


@pytest.mark.parametrize("operation", ["fsync", "replace", "chmod"])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, operation):
    path = tmp_path / "b.json"
    atomic_files.write_atomic(path, b"old")

    def fail(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(os, operation, fail)
    with pytest.raises(OSError, match="no space left"):
        atomic_files.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["b.json"]
