"""plants_blind_more.py: the rest of plants_blind.py's failures: other languages, PyTorch,
libddp, MPI, the start, networks and what operators do."""

from plants_blind import SMALL, first, in_host, then
from program import PLANTS, plant

# ---- C and C++ ----

OVERFLOW = r"overflow.*stack|stack.*(overflow|limit|exhaust|full|size)"

plant("blind-divide", "c", r"SIGFPE", """\
      volatile int n = 0;
      printf("%d batches\\n", 1000 / n);
      """)
plant("blind-free-stack", "c", r"(free\(\): invalid (pointer|size)|munmap_chunk)", """\
      char name[64];
      volatile char *p = name + 8;
      free((void *)p);
      """)
plant("blind-heap-header", "c", r"(malloc|free|munmap_chunk|corrupted)[^']*"
      r"(invalid|size|chunk|prev)", """\
      char *p = malloc(2000), *q = malloc(2000);
      malloc(100);
      memset(p, 0x41, 2016);
      free(q);
      free(p);
      """)
plant("blind-abort-thread", "c", r"lost the device", """\
      pthread_t t;
      pthread_create(&t, NULL, watch, NULL);
      pthread_join(t, NULL);
      """, top="""\
#include <pthread.h>

static void *watch(void *unused)
{
	fprintf(stderr, "FATAL: lost the device mlx5_3\\n");
	abort();
}""")
plant("blind-large-frame", "c", OVERFLOW, "deep(64 << 20);", top="""\
static void deep(int n)
{
	volatile float gradients[n];

	for (int i = n - 1; i >= 0; i -= 512)
		gradients[i] = 0;
}""")
plant("blind-thread-stack", "c", OVERFLOW, """\
      pthread_t t;
      pthread_attr_t small;
      pthread_attr_init(&small);
      pthread_attr_setstacksize(&small, 65536);
      pthread_create(&t, &small, run, NULL);
      pthread_join(t, NULL);
      """, top="""\
#include <pthread.h>

static int walk(int depth)
{
	volatile char node[256];

	node[0] = depth;
	return walk(depth + 1) + node[0];
}

static void *run(void *unused)
{
	return (void *)(long)walk(0);
}""")
plant("blind-read-lock", "c", r"rank 3.*(futex|lock|train\.c:\d+)", """\
      pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
      pthread_rwlock_rdlock(&l);
      pthread_rwlock_wrlock(&l);
      """, top="#include <pthread.h>")
plant("blind-socket-pair", "c", r"rank 3.*(recv|read|socket|train\.c:\d+)", """\
      int s[2];
      char c;
      socketpair(AF_UNIX, SOCK_STREAM, 0, s);
      recv(s[0], &c, 1, 0);
      """, top="#include <sys/socket.h>")
plant("blind-cxx-what", "cxx", r"unspecified launch failure", """\
      throw device_error();
      """, top="""\
#include <exception>
struct device_error : std::exception {
	const char *what() const noexcept override
	{
		return "device error 719: unspecified launch failure";
	}
};""")
plant("blind-cxx-system-error", "cxx", r"bind: Address already in use", """\
      throw std::system_error(EADDRINUSE, std::generic_category(), "bind");
      """, top="#include <system_error>")
plant("blind-cxx-terminate", "cxx", r"shard 9 has no header", """\
      std::set_terminate(report);
      throw std::runtime_error("shard 9 has no header");
      """, top="""\
#include <exception>
#include <stdexcept>
static void report()
{
	try {
		std::rethrow_exception(std::current_exception());
	} catch (const std::exception &e) {
		fprintf(stderr, "[critical] unhandled: %s\\n", e.what());
	}
	abort();
}""")
plant("blind-cxx-length", "cxx", r"(length_error|larger than max_size)", """\
      std::vector<float> data(size_t(-20));
      """, top="#include <vector>")
plant("blind-cxx-log-then-exit", "cxx", r"checksum mismatch in block 12", """\
      std::cerr << "[2026-11-30 03:12:44.101] [E] loader.cc:88 checksum mismatch in "
                   "block 12\\n[2026-11-30 03:12:44.102] [I] main.cc:12 shutting down\\n"
                   "[2026-11-30 03:12:44.140] [I] main.cc:15 bye\\n";
      exit(EXIT_FAILURE);
      """, top="#include <iostream>")

# ---- Fortran, other languages, shells ----

plant("blind-fortran-eof", "f90", r"End of file", "exec ./x", top="""\
program x
  integer :: i, n
  open(10, file='mesh.dat', status='replace')
  write(10, *) 7
  rewind(10)
  do i = 1, 3
    read(10, *) n
  end do
end program
""")
plant("blind-node-heap", "sh", r"heap out of memory|heap limit", """\
      exec node --max-old-space-size=24 -e 'const a = []; for (;;) a.push([1.5, 2.5])'
      """)
plant("blind-java-heap", "sh", r"OutOfMemoryError: Java heap space", """\
      exec java -Xmx16m Train.java
      """, files={"Train.java": """\
import java.util.ArrayList;

public class Train {
    public static void main(String[] args) {
        ArrayList<long[]> data = new ArrayList<>();
        for (;;)
            data.add(new long[1 << 17]);
    }
}
"""})
plant("blind-make", "sh", r"bad magic in vocab\.bin|Makefile.*Error 7", """\
      printf 'train:\\n\\t@echo "vocab: bad magic in vocab.bin" >&2; exit 7\\n' >Makefile
      unset MAKEFLAGS MAKELEVEL
      exec /usr/bin/make -s train
      """)
plant("blind-arguments", "sh", r"Argument list too long", """\
      /bin/echo $(seq 1 2000000) >/dev/null
      """)
plant("blind-xargs", "sh", r"shard 2: bad magic", """\
      seq 1 2 | xargs -n1 sh -c '[ $0 = 1 ] || { echo "shard $0: bad magic" >&2; exit 9; }'
      """)
plant("blind-ssh", "sh", r"ssh: connect to host h1 port 22: Connection refused", """\
      exec ssh -o BatchMode=yes -o StrictHostKeyChecking=no h1 nvidia-smi
      """)

# ---- PyTorch ----

plant("blind-torch-size-mismatch", "torch",
      r"size mismatch for weight|Error\(s\) in loading state_dict", """\
      torch.nn.Linear(4, 8).load_state_dict(torch.nn.Linear(4, 7).state_dict())
      """)
plant("blind-torch-weights-only", "torch", r"(UnpicklingError|Weights only load failed)",
      """\
      torch.save({"sampler": os.system}, "checkpoint")
      torch.load("checkpoint")
      """)
plant("blind-torch-collate", "torch", r"stack expects each tensor to be equal size", """\
      loader = torch.utils.data.DataLoader([torch.ones(3), torch.ones(4)], batch_size=2)
      next(iter(loader))
      """, top="import torch.utils.data")
plant("blind-torch-loader-timeout", "torch", r"DataLoader timed out after 3", """\
      loader = torch.utils.data.DataLoader(Slow(), num_workers=1, timeout=3)
      next(iter(loader))
      """, top="""\
import torch.utils.data


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        time.sleep(1000)""")
plant("blind-torch-store", "torch", r"wait timeout|[Tt]imed out|epoch_ready", """\
      store = dist.distributed_c10d._get_default_store()
      store.wait(["epoch_ready"], timedelta(seconds=2))
      """)
plant("blind-torch-anomaly", "torch", r"returned nan values", """\
      torch.autograd.set_detect_anomaly(True)
      x = torch.zeros(1, requires_grad=True)
      (torch.sqrt(x) * 0).sum().backward()
      """)
plant("blind-torch-spawn", "torch", r"tokenizer\.json is empty", """\
      torch.multiprocessing.spawn(prepare, nprocs=2)
      """, top="""\
import torch.multiprocessing


def prepare(i):
    if i == 1:
        raise ValueError("tokenizer.json is empty")
    time.sleep(1000)""")
plant("blind-torch-monitored", "torch", r"(sleep|onitored ?[Bb]arrier|train\.py:\d+)",
      files={"train.py": """\
import os
import time
from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    open(os.environ["PLANTED"], "w").close()
    time.sleep(1000)
dist.monitored_barrier(timeout=timedelta(seconds=4))
"""})
plant("blind-torch-master-port", "torch", r"(failed to connect|timed out).*[,:] ?1\b",
      files={"train.py": """\
import os
from datetime import timedelta

import torch.distributed as dist

if os.environ["RANK"] == "1":
    os.environ["MASTER_PORT"] = "1"
    for name in list(os.environ):
        if name.startswith("TORCHELASTIC"):
            del os.environ[name]
    open(os.environ["PLANTED"], "w").close()
dist.init_process_group("gloo", timeout=timedelta(seconds=8))
dist.barrier()
"""})

# ---- libddp: calls that do not match ----

LOOP = """\
import array
import os
import time

import ddprun

world = ddprun.init()
data = array.array("f", [1.0] * 1000)
for step in range(1000000):
    wrong = world.rank == 3 and step == 20
    if wrong:
        open(os.environ["PLANTED"], "w").close()
    {call}
    time.sleep(0.02)
"""
plant("blind-root-differs", "py", r"root", files={"train.py": LOOP.format(
    call="world.broadcast(data, root=1 if wrong else 0)")})
plant("blind-op-differs", "py", r"\bmax\b|operation|\bop\b", files={"train.py":
      LOOP.format(call='world.all_reduce(data, "max" if wrong else "sum")')})
plant("blind-ring", "py", r"(cycle|circle|recv)", rank="[0-3]", host="h",
      files={"train.py": LOOP.format(call="""\
if step == 20:
        world.recv(data, (world.rank + 3) % 4)
        world.send(data, (world.rank + 1) % 4)
    world.barrier()""")})

# ---- MPI ----

plant("blind-mpi-type", "mpi", r"(atatype|MPI_TYPE|committed)", """\
      MPI_Datatype column;
      int data[16] = {0};
      MPI_Type_vector(4, 1, 4, MPI_INT, &column);
      MPI_Send(data, 1, column, 0, 7, MPI_COMM_WORLD);
      """)
plant("blind-ompi-segv", "ompi", r"SIGSEGV|Segmentation fault", """\
      volatile int *p = (int *)16;
      *p = 1;
      """)
plant("blind-ompi-mutex", "ompi", r"rank 3.*(futex|lock|train\.c:\d+)", """\
      static long m[8];  // as PTHREAD_MUTEX_INITIALIZER
      pthread_mutex_lock((void *)m);
      pthread_mutex_lock((void *)m);
      """)

# ---- the start ----

plant("blind-typo", "py", r"can't open file.*trian\.py|trian\.py.*No such file",
      rank="[0-3]", host="h", command=["python3", "trian.py"])
plant("blind-no-venv", "sh", r"(venv/bin/activate.*(No such|not found)"
      r"|cannot open venv/bin/activate)", rank="[23]", files={
          "train.sh": ". venv/bin/activate\nexec sleep 1000\n",
          "h1/venv/bin/activate": "PS1=\n"})
plant("blind-substitution", "sh", r"Bad substitution", "x=a/b; echo ${x//\\//_}")
plant("blind-taskset", "sh", r"taskset: .*Invalid argument",
      "exec taskset -c 900 sleep 1000")
plant("blind-older-module", "py", r"cannot import name 'fused_adam'", rank="[23]", files={
    "h1/optim.py": "def fused_adam():\n    pass\n", "h2/optim.py": "VERSION = 1\n",
    "train.py": """\
import time

from optim import fused_adam

time.sleep(1000)
"""})


def hosts_file(address):
    return first(f"printf '127.0.0.1 localhost\\n{address} h1\\n10.79.0.2 h2\\n' "
                 ">hosts && mount --bind hosts /etc/hosts")


def hosts_back(hosts, job):
    in_host(hosts, job, "umount /etc/hosts")


plant("blind-wrong-address", "sh", r"10\.79\.0\.99.*([Nn]o route|unreachable|no answer"
      "|cannot|not reach)|([Nn]o route|unreachable|no answer|cannot|not reach).*"
      r"10\.79\.0\.99", rank="", host="h1", files={"train.sh": "exec sleep 1000"},
      before=hosts_file("10.79.0.99"), undo=hosts_back, terminal=2)
PLANTS[-1].alone = True
plant("blind-loopback", "sh", r"127\.0\.1\.1", rank="", host="h1",
      files={"train.sh": "exec sleep 1000"}, before=hosts_file("127.0.1.1"),
      undo=hosts_back, terminal=2)
PLANTS[-1].alone = True

# ---- networks and operators ----

WAITS = "time.sleep(0.01)"  # as fault: all goes on until somebody else acts


def firewall(rule):
    return "iptables -A INPUT " + rule


def no_firewall(hosts, job):
    in_host(hosts, job, "iptables -F INPUT")


plant("blind-drops-all", "py", r"(lost|unreach|no answer|not answer|silent|acknowl"
      r"edged|network)",
      WAITS, rank="", after=then(firewall("-i eth0 -j DROP")), undo=no_firewall)
PLANTS[-1].alone = True
plant("blind-large-packets", "py", r"(MTU|unacknowledged|not acknowledged|acknowledg)",
      WAITS, rank="", after=then(firewall("-i eth0 -m length --length 1001: -j DROP")),
      undo=no_firewall)
PLANTS[-1].alone = True


def only_rendezvous(target):
    def before(hosts, job):
        in_host(hosts, job, firewall(f"-i eth0 -p tcp --syn -j {target}"))
        in_host(hosts, job, firewall(f"-i eth0 -p tcp --syn --dport {job.port} "
                                     f"-j ACCEPT; iptables -A INPUT -i eth0 -p tcp "
                                     f"--syn -j {target}"), "h1")
    return before


def both_open(hosts, job):
    for host in ("h1", "h2"):
        in_host(hosts, job, "iptables -F INPUT", host)


plant("blind-worker-ports-drop", "py", r"(firewall|cannot connect|no answer|not reach"
      "|timed out)", WAITS, rank="", before=only_rendezvous("DROP"), undo=both_open)
PLANTS[-1].alone = True
plant("blind-worker-ports-reject", "py", r"(firewall|refused|cannot connect)", WAITS,
      rank="", before=only_rendezvous("REJECT"), undo=both_open)
PLANTS[-1].alone = True
plant("blind-usr1", "py", r"SIGUSR1", """\
      open("pid3", "w").write(str(os.getpid()))
      """, after=then("kill -USR1 $(cat pid3)"))
plant("blind-stops-node", "py", r"(SIGSTOP|stopped)", """\
      open("agent", "w").write(str(os.getppid()))
      """, rank="[23]", after=then("for p in $(pgrep -P $(cat agent)); do "
                                   "kill -STOP $p; done"))
plant("blind-agent-segv", "sh", r"was lost", rank="", files={"train.sh": """\
[ "$RANK" = 3 ] && echo $PPID >agent && : >"$PLANTED"
exec sleep 1000
"""}, after=then("kill -SEGV $(cat agent)"))
