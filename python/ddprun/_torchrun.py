"""python -m torch.distributed.run and torch.distributed.launch become ddprun where
`python -m ddprun install-torchrun` has put a .pth file beside the package. Python
reads it at each start, before any module is imported; its one line does nothing
but for these two, and nothing at all once the package is gone."""
import os
import site
import sys
from pathlib import Path
from typing import Dict, List, Optional

from ._wheel import execute, program

FILE = "ddprun-torchrun.pth"
MODULES: Dict[str, List[str]] = {
    "torch.distributed.run": [],
    "torch.distributed.launch": ["--legacy-launch"],
}
# While a module is looked for, sys.argv[0] is -m. Python 3.9 has no orig_argv.
LINE = ('import sys; sys.argv[:1] == ["-m"] and "torch.distributed." in '
        '(" ".join(getattr(sys, "orig_argv", ())) or '
        'open("/proc/self/cmdline", errors="replace").read()) and '
        'exec("try: from ddprun._torchrun import catch\\n'
        'except ImportError: pass\\nelse: catch()")\n')


def _module(words: List[str], arguments: int) -> Optional[str]:
    """The module of `python ... -m MODULE ARGUMENTS`, whose last words are its
    arguments: also -mMODULE and -umMODULE."""
    if len(words) < arguments + 2:
        return None
    word = words[len(words) - arguments - 1]
    if word.startswith("-"):
        word = word.partition("m")[2]
    return word


def _words() -> List[str]:
    """The command line of this process."""
    words: Optional[List[str]] = getattr(sys, "orig_argv", None)
    if words is None:
        text = Path("/proc/self/cmdline").read_bytes()
        words = [os.fsdecode(word) for word in text.split(b"\0")[:-1]]
    return words


def catch() -> None:
    """Returns if this is not one of the two, or there is no ddprun."""
    options = MODULES.get(_module(_words(), len(sys.argv) - 1) or "")
    if options is None:
        return
    try:
        path = program()
    except FileNotFoundError as error:
        print(f"ddprun: warning: {error}; starting PyTorch's own",
              file=sys.stderr)
        return
    execute(path, [*options, *sys.argv[1:]])


def _path() -> Path:
    """Where the .pth file belongs: beside the package, where Python finds
    both."""
    folder = Path(__file__).parent.parent
    for known in (*site.getsitepackages(), site.getusersitepackages()):
        if os.path.isdir(known) and os.path.samefile(known, folder):
            return folder / FILE
    sys.exit(f"ddprun: error: the module ddprun is in {folder}, where Python "
             "reads no .pth files; install the wheel into an environment "
             "(pip install)")


def install() -> None:
    """From now on."""
    path = _path()
    beside = path.with_suffix(f".{os.getpid()}")
    try:
        beside.write_text(LINE)
        beside.replace(path) # no start of Python ever sees half of it
    except OSError as error:
        sys.exit(f"ddprun: error: cannot write {path}: {error.strerror}; use "
                 "a virtual environment, or pip install --user")
    print(f"{path}: python -m torch.distributed.run starts {program()}; "
          "python -m ddprun uninstall-torchrun undoes this")


def uninstall() -> None:
    """PyTorch's own again."""
    path = _path()
    try:
        path.unlink()
    except FileNotFoundError:
        sys.exit(f"ddprun: error: there is no {path}: python -m "
                 "torch.distributed.run starts PyTorch's own already")
    except OSError as error:
        sys.exit(f"ddprun: error: cannot remove {path}: {error.strerror}")
    print(f"{path} is removed: python -m torch.distributed.run starts "
          "PyTorch's own")
