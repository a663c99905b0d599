"""The stories of ``examples/stories`` run, each in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

STORIES = Path(__file__).parents[3] / "examples/stories"


@pytest.mark.parametrize("story", sorted(path.name for path in STORIES.glob("*.py")))
def test_a_story(story, tmp_path):
    ran = subprocess.run([sys.executable, STORIES / story, tmp_path], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout


def test_there_are_four():
    assert len(list(STORIES.glob("*.py"))) == 4
