"""preload_worker.py WHAT: what tests/bench/preload.sh times. `import` imports torch
and ends; `idle` prints its pid and waits; `meet` is in a group of gloo first.
"""
import os
import sys
import time

import torch
import torch.distributed

what = sys.argv[1]
if what == "meet":
    torch.distributed.init_process_group("gloo")
    torch.distributed.barrier()
os.write(1, b"pid %d\n" % os.getpid())  # in one piece
if what == "import":
    os._exit(0)  # the end of the interpreter is not timed
time.sleep(1000)
