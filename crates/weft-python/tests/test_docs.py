"""The examples of the documentation."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["weft", "weft.array", "weft.aio"])
def test_examples_do_what_they_show(volume, name):
    if name == "weft.array":
        pytest.importorskip("numpy")
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried > 0 and failed == 0
