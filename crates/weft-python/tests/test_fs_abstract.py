"""The fsspec package's own suite, on a volume."""

import posixpath

import pytest

fsspec_tests = pytest.importorskip("fsspec.tests.abstract")
pytest.importorskip("fsspec")

from weft.fs import WeftFileSystem  # noqa: E402


class Fixtures(fsspec_tests.AbstractFixtures):
    @pytest.fixture
    def fs(self, volume_folder):
        return WeftFileSystem(volume_folder)

    @pytest.fixture
    def fs_path(self, folder):
        return folder

    @pytest.fixture
    def fs_join(self):
        return posixpath.join


class TestCopy(fsspec_tests.AbstractCopyTests, Fixtures):
    pass


class TestGet(fsspec_tests.AbstractGetTests, Fixtures):
    pass


class TestPut(fsspec_tests.AbstractPutTests, Fixtures):
    pass


# An older fsspec lacks these.
if hasattr(fsspec_tests, "AbstractOpenTests"):

    class TestOpen(fsspec_tests.AbstractOpenTests, Fixtures):
        pass


if hasattr(fsspec_tests, "AbstractPipeTests"):

    class TestPipe(fsspec_tests.AbstractPipeTests, Fixtures):
        pass
