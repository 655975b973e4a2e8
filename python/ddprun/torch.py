"""PyTorch's DistributedDataParallel over libddp: a communication hook that
averages the gradients of host memory in place of gloo.

    import ddprun, ddprun.torch
    world = ddprun.init()
    model = DistributedDataParallel(model)
    ddprun.torch.register(model, world)

Everything else of DDP stays: its buckets, no_sync, join, its broadcast of buffers
over its own process group."""
from typing import List, Optional, Tuple

import torch
import torch.distributed as dist
# where torch.distributed has it from, which does not export it by type
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from ._comm import Comm, Request

_Result = torch.futures.Future[torch.Tensor]


class Hook:
    """The state of the hook: a communicator of its own, so that the program may
    use the world meanwhile, and the buckets under way. Each bucket is reduced
    in place from when it is full; the hook of the last bucket of a step, which
    has nothing left to compute behind it, waits for all. If it is the only
    bucket, the calling thread reduces it: on busy CPUs, handing it to another
    thread and back takes longer."""

    def __init__(self, world: Comm, progress: bool = True) -> None:
        comm = world.split(0, world.rank)
        assert comm is not None # its color is not negative
        self._comm = comm
        self._under_way: List[Tuple[Request, _Result, torch.Tensor]] = []
        if progress and world.size > 1:
            world.progress_start()

    def __call__(self, bucket: GradBucket) -> _Result:
        """Starts a bucket's average."""
        tensor = bucket.buffer()
        result: _Result = torch.futures.Future()
        data = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        if bucket.is_last() and not self._under_way:
            self._comm.all_reduce(data, "avg")
            result.set_result(tensor)
            return result
        request = self._comm.all_reduce(data, "avg", asynchronous=True)
        assert request is not None
        self._under_way.append((request, result, tensor))
        if bucket.is_last():
            self.wait()
        return result

    def wait(self) -> None:
        """Waits for the buckets under way. Raises Error if one failed."""
        pending, self._under_way = self._under_way, []
        failed: Optional[Exception] = None
        for request, result, tensor in pending:
            try:
                request.wait()
                result.set_result(tensor)
            except Exception as error: # the others still own their buffers
                failed = failed or error
        if failed is not None:
            raise failed


def hook(state: Hook, bucket: GradBucket) -> _Result:
    """For register_comm_hook and PyTorch's wrappers, such as
    bf16_compress_wrapper(hook)."""
    return state(bucket)


def register(model: DistributedDataParallel, world: Comm,
             progress: bool = True) -> Hook:
    """Lets model average its gradients over libddp. world has the ranks of the
    model's process group, in its order. progress: buckets are reduced while the
    backward pass computes, by a thread. Collective. ValueError: the ranks
    differ, or a parameter is not in host memory."""
    group = model.process_group
    ours = (world.rank, world.size)
    theirs = (dist.get_rank(group), dist.get_world_size(group))
    if ours != theirs:
        raise ValueError("this is rank %d of %d of libddp, but rank %d of %d of "
                         "the model's process group" % (*ours, *theirs))
    for name, parameter in model.named_parameters():
        if parameter.device.type != "cpu":
            raise ValueError(f"the parameter {name} is on {parameter.device}: "
                             "libddp's hook averages in host memory; on GPUs "
                             "DDP's own NCCL is right")
    state = Hook(world, progress)
    model.register_comm_hook(state, hook)
    return state
