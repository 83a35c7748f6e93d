"""Type checkers read Limen as users have it: installed, with its marker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
USER_CODE = Path(__file__).with_name("user_code.py")


def test_a_strict_checker_takes_right_uses_and_refuses_wrong_ones(tmp_path: Path) -> None:
    options = ["--strict", "--config-file=", "--no-error-summary", f"--cache-dir={ROOT / '.mypy_cache' / 'user'}"]
    command = [sys.executable, "-m", "mypy", *options, str(USER_CODE)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout
