"""torchrun, with the one call mended that Debian 12's fails in at once: torch
1.13's Std.from_str("0") is None under Python 3.11, which no longer iterates over
the zero member of a Flag."""
import sys

from torch.distributed.elastic.multiprocessing.api import Std

if Std.from_str("0") is None:
    original = Std.from_str.__func__
    Std.from_str = classmethod(
        lambda cls, text: Std(int(text)) if text in ("0", "1", "2", "3")
        else original(cls, text))

from torch.distributed.run import main

sys.exit(main())
