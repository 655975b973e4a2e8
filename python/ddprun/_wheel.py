"""What the wheel holds besides the module: the programs and the header."""
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import List, NoReturn

from ._library import find, roots


def program(name: str = "ddprun") -> str:
    """The path of ddprun, ddprdzv or ddprun-check: the wheel's, else that in
    $PATH."""
    for root in roots():
        path = root / "bin" / name
        # --user and virtual environments may hold other wheels' bin
        if os.access(path, os.X_OK) and (root / "lib" / "ddprun").is_dir():
            return str(path)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(
            f"{name} is neither beside {Path(__file__).parent} nor in $PATH; "
            "install the wheel (pip install ddprun)")
    return found


def execute(path: str, arguments: List[str]) -> NoReturn:
    """Becomes the program, with this python for scripts."""
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    # Python ignores these, and workers inherit what is ignored
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execv(path, [path, *arguments])


def include_path() -> str:
    """The folder of ddp.h, for programs in C: -I. The library is
    library_path()."""
    header = find("include", "ddp.h")
    if header is None:
        raise FileNotFoundError("the wheel's ddp.h is not installed")
    return str(header.parent)
