"""Reports."""
from pathlib import Path
from unweave.fitted import Fitted
def write_report(model: Fitted, path: Path, *, rows: int) -> Path:
    return path
