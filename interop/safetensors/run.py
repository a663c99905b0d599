"""Runs pytest with our package in place of `safetensors`. Arguments: how many tests have to pass, then those of pytest."""

import sys

import holdall.safetensors

holdall.safetensors.install()

import pytest  # noqa: E402
import safetensors  # noqa: E402

assert safetensors is holdall.safetensors or safetensors.safe_open is holdall.safetensors.safe_open


class Counted:
    """How many tests passed: a file whose tests are all skipped shows nothing."""

    passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed


counted = Counted()
least = int(sys.argv[1])
status = pytest.main(["--quiet", "-p", "no:cacheprovider", *sys.argv[2:]], plugins=[counted])
if status == 0 and counted.passed < least:
    sys.exit(f"{counted.passed} tests passed, and {least} have to")
sys.exit(status)
