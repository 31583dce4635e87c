"""A volume for the tests, of servers that run as long as they do."""

import os
import shutil
import subprocess
import tempfile
import uuid

import pytest
import weft

WEFT = os.environ.get("WEFT", "weft")
SERVERS = 3


@pytest.fixture(scope="session")
def volume_folder():
    base = tempfile.mkdtemp(prefix="weft-python-")
    folder = os.path.join(base, "volume")
    subprocess.run([WEFT, "up", folder, "--servers", str(SERVERS)], check=True, capture_output=True)
    os.environ["WEFT_VOLUME"] = folder
    yield folder
    subprocess.run([WEFT, "down", folder], check=False, capture_output=True)
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="session")
def volume(volume_folder):
    return weft.Volume(volume_folder)


@pytest.fixture
def folder(volume):
    path = f"/{uuid.uuid4().hex}"
    volume.mkdir(path)
    return path
