"""The examples of the documentation."""

import doctest
import importlib
import importlib.util
import pathlib
import re

import pytest


@pytest.mark.parametrize("name", ["weft", "weft.array", "weft.aio"])
def test_examples_do_what_they_show(volume, name):
    if name == "weft.array":
        pytest.importorskip("numpy")
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried > 0 and failed == 0


def test_the_guide_does_what_it_says(volume_folder, volume, folder):
    """The blocks of docs/interfaces/python.md, in order; those that need MPI only where it is."""
    pytest.importorskip("numpy")
    pytest.importorskip("fsspec")
    guide = pathlib.Path(__file__).parents[3] / "docs/interfaces/python.md"
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(), re.S)
    names = {"first": bytearray(10), "second": bytearray(10)}
    has_torch = importlib.util.find_spec("torch") is not None
    run = 0
    for block in blocks:
        if "mpi4py" in block or ("torch" in block and not has_torch):
            continue
        exec(block.replace("./weft-volume", volume_folder), names)
        run += 1
    assert run == (6 if has_torch else 4) and names["first"] == b"first" and names["last"] == b"line"
