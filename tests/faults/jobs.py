"""What tests/faults/run tries: the calls that may fail, the jobs, and the processes
(targets) whose calls those are."""
CALLS = {
    "malloc": ["ENOMEM"], "malloc-all": ["ENOMEM"], "free": [""],
    "open": ["EMFILE", "ENOENT"], "getdents": ["ENOENT"],
    "read": ["EINTR", "EIO"],
    "write": ["EINTR", "EAGAIN", "ENOSPC", "EPIPE"],
    "pipe2": ["EMFILE"], "dup2": ["EBUSY"], "fcntl": ["EMFILE"],
    "ioctl": ["ENOTTY"], "eventfd2": ["EMFILE"],
    "memfd_create": ["EMFILE"], "epoll_create1": ["EMFILE"],
    "epoll_ctl": ["ENOSPC", "ENOMEM"], "epoll_wait": ["EINTR"],
    "poll": ["EINTR"], "socket": ["EMFILE"], "bind": ["EADDRINUSE"],
    "listen": ["EADDRINUSE"], "connect": ["ECONNREFUSED"],
    "accept4": ["EMFILE"], "setsockopt": ["ENOMEM"],
    "getsockopt": ["ENOBUFS"], "getsockname": ["ENOBUFS"],
    "getpeername": ["ENOTCONN"], "shutdown": ["ENOTCONN"],
    "getaddrinfo": ["ENOMEM"], "getifaddrs": ["EMFILE"],
    "mmap": ["ENOMEM"], "munmap": ["ENOMEM"], "mremap": ["ENOMEM"],
    "msync": ["EIO"], "flock": ["ENOLCK"], "ftruncate": ["ENOSPC"],
    "fallocate": ["ENOSPC"], "lseek": ["ESPIPE"], "mkdir": ["ENOSPC"],
    "rmdir": ["EBUSY"], "unlink": ["EBUSY"], "rename": ["EBUSY"],
    "stat": ["EACCES"], "access": ["EACCES"], "readlink": ["ENOENT"],
    "getcwd": ["ENOENT"], "chdir": ["EACCES"], "uname": ["EFAULT"],
    "gethostname": ["EFAULT"], "prlimit": ["EPERM"],
    "getrandom": ["EINTR", "EAGAIN"], "wait4": ["EINTR"],
    "kill": ["EPERM"], "setpgid": ["EPERM"],
    "sched_getaffinity": ["EINVAL"], "prctl": ["EINVAL"],
    "close_range": ["ENOSYS"], "clone": ["EAGAIN", "ENOMEM"],
    "execve": ["ENOMEM"], "dlopen": ["ENOMEM"], "pthread_create": ["EAGAIN"],
}
FREE_MAX, GUARD_MAX = 47, 40

SAY = 'echo "out $RANK $GIVEN"; echo "err $RANK" >&2; '
ALONE = ["ddprun", "--standalone", "--nproc-per-node", "2",
         "--rdzv-timeout", "5", "--rdzv-conf", "reconnect_timeout=3",
         "--shutdown-timeout", "2"]
OVER_SSH = ["ddprun", "-H", "a:1,b:1", "--ssh", "FAKE", "--ssh-timeout", "5",
            "--rdzv-timeout", "5", "--rdzv-conf", "reconnect_timeout=3",
            "--shutdown-timeout", "2", "--heartbeat-timeout", "2"]
WATCHED = ["env", "DDP_TEST_WATCH_MS=600"]
FAIL = SAY + "[ $RANK != 1 ] || exit 3; exec sleep 30"
LINES = ["out 0 given", "out 1 given"]
# A client of PMI-1 in bash, whose ranks get each other's key. LOST_PMI is no
# exit code of ours: ddprun has to end the job before a rank does.
LOST_PMI = 9
PMI = """pmi() {
	echo "cmd=$1" >&$PMI_FD && IFS= read -r answer <&$PMI_FD || exit LOST_PMI
	[[ $answer = *"$2" ]] || echo "WRONG: $1: $answer" >&2
}
pmi "init pmi_version=1 pmi_subversion=1" rc=0
pmi "get key=PMI_process_mapping" "value=(vector,(0,%s))"
pmi "put key=of$RANK value=$RANK" success
pmi barrier_in barrier_out
pmi "get key=of$((1 - RANK))" "value=$((1 - RANK))"
pmi finalize finalize_ack
""".replace("LOST_PMI", str(LOST_PMI)) + SAY
# The same over PMIx: a program of Open MPI, if that is installed.
MPI_PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int rank, sum;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("out %d %s\n", rank, sum == 1 ? getenv("GIVEN") : "WRONG");
	fprintf(stderr, "err %d%s\n", rank, sum == 1 ? "" : " WRONG");
	return MPI_Finalize();
}
"""
# The plugins of Open MPI that it needs: to load all of them takes a third of the CPU
# time of a run. What its ranks ask of ddprun is the same.
OPEN_MPI = {"OMPI_MCA_" + name: value for name, value in {
    "pml": "ob1", "btl": "self,vader,tcp", "coll": "basic,libnbc", "osc": "sm",
    "op": "^avx", "schizo": "ompi", "state": "app", "errmgr": "default_app",
    "shmem": "mmap"}.items()}
# name: command, exit code, lines of stdout that must be there (those of workers
# that are stopped may be truncated), and how many times LIMIT it may take
JOBS = {
    "ok": (ALONE + ["sh", "-c", SAY], 0, LINES, 1),
    "fail": (ALONE + ["sh", "-c", FAIL], 3, ["out 1 given"], 1),
    "restart": (ALONE + ["--max-restarts", "1", "sh", "-c", SAY +
                         "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || "
                         "[ $RANK != 1 ] || exit 3"], 0, LINES, 1),
    # the watch ticks every 20 ms, and a worker leaves a record of its crash
    "crash": (WATCHED + ALONE + ["sh", "-c", SAY + "echo 7 >>$DDP_STEP_FILE; "
                                 "sleep 0.3; [ $RANK != 1 ] || kill -SEGV $$; "
                                 "exec sleep 30"], 139, ["out 1 given"], 1),
    "mpi": (ALONE + ["--mpi", "pmi", "bash", "-c", PMI % "1,2"], 0, LINES, 1),
    "mpi-hosts": (OVER_SSH + ["--mpi", "pmi", "bash", "-c", PMI % "2,1"], 0,
                  LINES, 1),
    "pmix": (ALONE + ["--mpi", "pmix", "MPI"], 0, LINES, 1),
    "pmix-hosts": (OVER_SSH + ["--mpi", "pmix", "env",
                               "OMPI_MCA_btl_tcp_if_include=lo", "MPI"], 0,
                   LINES, 1),
    "hosts": (OVER_SSH + ["sh", "-c", SAY], 0, LINES, 1),
    "hosts-fail": (OVER_SSH + ["sh", "-c", FAIL], 3, ["out 1 given"], 1),
    "sums": (ALONE + ["c_sums"], 0,
             # libddp waits 30 s for a server that is silent
             ["rank 0: all right", "rank 1: all right"], 2),
    # rank 1 is late, then fails: the server compares reports, and logs a pause
    "late": (WATCHED + ALONE + ["sh", "-c", SAY + "echo 7 >>$DDP_STEP_FILE; "
                                "sleep 1; [ $RANK != 1 ] || exit 3; "
                                "exec sleep 30"], 3, ["out 1 given"], 1),
    # the same, as if each rank had a host of its own: over TCP
    "sums-hosts": (ALONE + ["env", "DDP_TEST_HOSTS=2", "c_sums"], 0,
                   ["rank 0: all right", "rank 1: all right"], 2),
    # ddprun is killed: its guard has to end what it started
    "killed": (ALONE[:2] + ["sh", "-c", SAY + "setsid sleep 60 & "
                            "kill -9 $PPID; exec sleep 60"], 137, [], 1),
}
TARGETS = {
    "agent": ("ddprun", "agent", None, ["ok", "fail", "restart",
                                       "crash", "late", "mpi", "pmix"]),
    "head": ("ddprun", "head", None, ["hosts", "hosts-fail"]),
    "far": ("ddprun", "far", "FAKE_HOST=b", ["hosts", "hosts-fail"]),
    # its agent, whose server is on the other host
    "far-agent": ("ddprun", "agent", "FAKE_HOST=b", ["hosts", "mpi-hosts",
                                                      "pmix-hosts"]),
    "server": ("ddprdzv", None, None, ["sums", "late"]),
    "guard": ("ddprun", "guard", None, ["killed"]),
    "unwinder": ("ddprun", "unwinder", None, ["crash"]),
    "worker": ("c_sums", None, "RANK=1", ["sums", "sums-hosts"]),
    # the process that runs libpmix's server
    "helper": ("ddprun", "pmix-helper", None, ["pmix"]),
    "far-helper": ("ddprun", "pmix-helper", "FAKE_HOST=b", ["pmix-hosts"]),
}
HELPERS = {"helper", "far-helper"}
# A helper's own calls of these fail, and not those of libpmix and of the
# libevent below it. libpmix does not look at what they return, or goes on without
# its thread, so that its clients, the ranks, wait in MPI_Init for ever. Nothing in
# ddprun can tell such a server from one whose ranks have not arrived yet. After a
# fallocate that failed, a rank may die of SIGBUS in libpmix's shared memory. If
# all its allocations fail from one on (`malloc-all`), its clients may wait as well.
NOT_IN_LIBPMIX = {"write", "epoll_ctl", "pthread_create", "fallocate"}
