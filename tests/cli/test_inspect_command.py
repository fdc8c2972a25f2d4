"""``sb3-ext inspect`` as a process: the address that it prints, and its seed."""

import re
import subprocess
import sys
import urllib.request
from urllib.error import HTTPError

import pytest

from sb3_ext.cli import main


def test_the_printed_address_opens_from_other_machines(tmp_path):
    command = [sys.executable, "-m", "sb3_ext", "inspect", "-f", str(tmp_path / "none"), "--host", "0.0.0.0"]
    with subprocess.Popen([*command, "--port", "0", "--no-browser"], stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = [process.stdout.readline(), process.stdout.readline()]
            assert "There is no folder" in lines[0]
            port, query = re.search(r":(\d+)/(\?token=[\w-]+)", lines[1]).groups()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{query}", timeout=60) as answer:
                assert answer.status == 200
            with pytest.raises(HTTPError, match="403"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60)
        finally:
            process.terminate()


@pytest.mark.parametrize("command", ["inspect", "publish", "play", "video"])
@pytest.mark.parametrize("seed", ["-5", "1.5", "4294967296", "one"])
def test_seeds_that_no_generator_takes_are_refused(command, seed, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([command, "@last", f"--seed={seed}"])
    assert "must be a whole number from 0 to 4294967295" in capsys.readouterr().err
