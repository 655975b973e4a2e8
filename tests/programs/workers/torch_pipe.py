"""torch_pipe.py [PATH]: answers `ddprun dump` as PyTorch's NCCL backend does (DumpPipe and
DebugInfoWriter in ProcessGroupNCCL), which needs GPUs: it makes a pipe, and writes its
calls to a file when a byte arrives. The calls are those of gloo if PATH is `gloo`, else
the bytes of the file PATH, or none: then it never answers."""

import os
import select
import signal
import sys

if "gloo" in sys.argv:
    import torch
    import torch.distributed as dist

rank = os.environ["RANK"]
pipe = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + rank + ".pipe"
trace = sys.argv[1] if len(sys.argv) > 1 else None


def calls():
    if trace != "gloo":
        with open(trace, "rb") as f:
            return f.read()
    return torch._C._distributed_c10d._dump_fr_trace()


def begin():
    """The second call of rank 0 waits for rank 1."""
    dist.init_process_group("gloo")
    data = torch.ones(4, 3)
    dist.all_reduce(data)
    return dist.all_reduce(data, async_op=True) if rank == "0" else None


work = begin() if trace == "gloo" else None
signal.signal(signal.SIGTERM, lambda *a: os._exit(0))
os.mkfifo(pipe)
asked = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
print("ready", flush=True)
while True:
    select.select([asked], [], [])
    if not os.read(asked, 128):
        # the writer has closed it: select reports that until another one comes
        os.close(asked)
        asked = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    elif trace:
        with open(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + rank, "wb") as f:
            f.write(calls())
