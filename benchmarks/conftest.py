"""Only the test files of this folder hold tests: importing the rest needs peers."""

from pathlib import Path

FOLDER = Path(__file__).parent
collect_ignore = [str(p) for p in FOLDER.rglob("*.py") if "test_" not in p.name]
