"""python -m ddprun ...: becomes the program ddprun, whose default interpreter for
scripts is then this one. install-torchrun without a folder, and
uninstall-torchrun, are about this python (_torchrun.py)."""
import sys

from . import _torchrun
from ._wheel import execute, program


def main() -> None:
    """Never returns, but for the two."""
    try:
        if sys.argv[1:] == ["install-torchrun"]:
            _torchrun.install()
        elif sys.argv[1:] == ["uninstall-torchrun"]:
            _torchrun.uninstall()
        else:
            execute(program(), sys.argv[1:])
    except FileNotFoundError as error:
        sys.exit(f"ddprun: error: {error}")


if __name__ == "__main__":
    main()
