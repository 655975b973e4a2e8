"""python -m ddprun ...: becomes the program ddprun, whose default interpreter for
scripts is then this one."""
import os
import sys

from ._wheel import program


def main() -> None:
    """Never returns."""
    try:
        path = program()
    except FileNotFoundError as error:
        sys.exit(f"ddprun: error: {error}")
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
