"""plants_blind_two.py: 60 failures of a second blind set. The list, with the cause that an
operator would want to read, was committed before its first run, and written without a look
at the code that finds the cause. Then each program ran alone, without ddprun: 53 failed as
planned, or hung; 5 need the two hosts. Two were repaired: two-not-named-error's package
was hidden by a variable, and two-shadowed hid a module that Python had loaded before
(random; now queue).

The first run, with two jobs at a time on two cores (load 4 at its start):

  kinds                              plants  right
  Python                                 10     10
  Python that hangs                       4      4
  PyTorch                                11     10
  C and C++                              10     10
  Fortran                                 2      2
  MPI                                     5      4
  shells                                  3      3
  limits, disks                           5      5
  network                                 4      4
  operators                               2      1
  set-ups                                 4      4
  all                                    60     57, 1 silent

two-torch-leaves: the line named rank 0, whose connection was closed; rank 1, which left,
was still on its way out of Python after 1.5 s (2 of 3 later runs were right).
two-ompi-truncated: "it called MPI_Abort with 15": the worker's stderr had nothing.
two-agent-ended: within 0.1 s the terminal had "job 'none' ended: node 1 (h2) received
SIGTERM", which is what was asked for, but run.py knows no line with "ended:", so that it
counts as silent; read by a person, 58 of 60 are right. The latest lines about a hang came
after 38 s (two-torch-lock-in-hook)."""

import os
import signal
import subprocess
import time

from program import PLANTS, plant


def wait_for_planted(job):
    until = time.time() + 60
    while not os.path.exists(job.folder + "/planted") and time.time() < until:
        time.sleep(0.1)


def alone():
    PLANTS[-1].alone = True


# ---- Python ----

plant("two-pool-of-threads", "py", r"ValueError: shard 31 has no label", """\
      def load(n):
          if n == 31:
              raise ValueError(f"shard {n} has no label")
          return n
      with concurrent.futures.ThreadPoolExecutor(4) as pool:
          sum(pool.map(load, range(64)))
      """, top="import concurrent.futures")
plant("two-third-in-a-row", "py", r"TrainError: step 812: no batch left", """\
      class TrainError(RuntimeError):
          pass
      try:
          try:
              open("cache/index")
          except OSError:
              {}["index"]
      except KeyError:
          raise TrainError("step 812: no batch left")
      """)
plant("two-clean-up-fails", "py", r"loss is nan at step 20|cannot flush the profile", """\
      def close():
          raise OSError("cannot flush the profile")
      with contextlib.ExitStack() as stack:
          stack.callback(close)
          raise ValueError("loss is nan at step 20")
      """, top="import contextlib")
plant("two-except-hook", "py", r"ZeroDivisionError", """\
      logging.basicConfig(format="%(asctime)s | %(levelname)-8s | %(message)s")
      sys.excepthook = lambda *e: logging.critical("Uncaught exception", exc_info=e)
      return 1 / len([])
      """, top="import logging")
plant("two-warns-around", "py", r"RuntimeError: optimizer state is empty", """\
      warnings.warn("lr_scheduler.step() was called before optimizer.step()")
      atexit.register(warnings.warn, "there appear to be 3 leaked semaphore objects")
      raise RuntimeError("optimizer state is empty")
      """, top="import atexit\nimport warnings")
plant("two-exit-with-lines", "py", r"unknown key 'lr_sheduler'", """\
      raise SystemExit("config.yaml:14: unknown key 'lr_sheduler'\\n"
                       "did you mean 'lr_scheduler'?")
      """)
plant("two-pool-initializer", "py", r"tokenizer\.model", """\
      with concurrent.futures.ProcessPoolExecutor(2, initializer=prepare) as pool:
          pool.submit(len, "text").result()
      """, top="""\
import concurrent.futures


def prepare():
    open("tokenizer.model")
""")
plant("two-shell-of-python", "py", r"labels-7\.txt|sort .*non-zero exit status 2", """\
      subprocess.run("sort -k1 labels-7.txt >sorted.txt", shell=True, check=True)
      """, top="import subprocess")
plant("two-not-named-error", "py", r"OutOfShards: epoch 3 ends at shard 511", """\
      shard_data.stream.advance(3)
      """, top="import shard_data.stream",
      files={"shard_data/__init__.py": "", "shard_data/stream.py": """\
class Signal(Exception):
    pass


class OutOfShards(Signal):
    def __init__(self, epoch, shard):
        super().__init__(f"epoch {epoch} ends at shard {shard}")


def advance(epoch):
    raise OutOfShards(epoch, 511)
"""})
plant("two-table-in-text", "py", r"ValueError: config mismatch", """\
      raise ValueError("config mismatch:\\n  lr: 0.1 != 0.2\\nDataError: none\\n"
                       "seed: 7 != 8\\n")
      """)

# ---- Python that hangs ----

plant("two-queue-cannot-pickle", "py",
      r"rank 3.*(pipe|read|poll|semaphore|futex|wait|lock|sleep|pickle)", """\
      queue = multiprocessing.Queue()
      queue.put(lambda: 1)
      queue.get()
      """, top="import multiprocessing")
plant("two-old-lock-file", "py", r"rank 3.*(sleep|ckpt\.lock|train\.py:\d+)", """\
      open("ckpt.lock", "w").close()
      while os.path.exists("ckpt.lock"):
          time.sleep(1)
      """)
plant("two-child-fills-pipe", "py", r"rank 3.*(child|wait|process|pipe|head)", """\
      subprocess.Popen(["head", "-c", "1000000", "/dev/zero"],
                       stdout=subprocess.PIPE).wait()
      """, top="import subprocess")
plant("two-backs-off", "py", r"rank 3.*(sleep|retry)", """\
      sys.stderr.write("storage: 503 Slow Down, retry in 600 s\\n")
      time.sleep(600)
      """)

# ---- PyTorch ----

plant("two-torch-channels", "torch", r"to have 3 channels, but got 1 channels", """\
      torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Conv2d(3, 8, 3))(
          torch.ones(2, 1, 9, 9))
      """)
plant("two-torch-dtype", "torch", r"dtype|scalar type", """\
      torch.nn.Linear(4, 4)(torch.ones(2, 4, dtype=torch.float64))
      """)
plant("two-torch-missing-keys", "torch", r"loading state_dict|Missing key", """\
      net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
      net.load_state_dict({"module." + k: v for k, v in net.state_dict().items()})
      """)
plant("two-torch-worker-init", "torch", r"FileNotFoundError|No such file.*vocab\.txt", """\
      def prepare(n):
          open("vocab.txt")
      list(torch.utils.data.DataLoader(list(range(8)), num_workers=2,
                                       worker_init_fn=prepare))
      """, top="import torch.utils.data")
plant("two-torch-in-place", "torch", r"modified by an inplace operation", """\
      weight = torch.ones(3, requires_grad=True)
      y = weight.exp()
      y.add_(1)
      y.sum().backward()
      """)
plant("two-torch-leaves", "torch",
      r"exited with (code )?0|left (early|with)|ended early|returned 0", """\
      dist.destroy_process_group()
      sys.exit(0)
      """)
plant("two-torch-saves-lambda", "torch", r"Can't (get|pickle) local object", """\
      torch.save({"step": 20, "hook": lambda g: g}, "model.pt")
      """)
plant("two-torch-numpy-memory", "torch", r"Unable to allocate 8\.00 TiB", """\
      numpy.ones((1 << 20, 1 << 20))
      """, top="import numpy")
plant("two-torch-lock-in-hook", "torch", r"rank 1.*(lock|futex|semaphore|acquire)", """\
      lock = threading.Lock()

      def hook(gradient):
          with lock:
              return gradient * 2
      weight = torch.ones(3, requires_grad=True)
      weight.register_hook(hook)
      with lock:
          (weight * 2).sum().backward()
      """, top="import threading")
plant("two-torch-save-full", "torch",
      r"[Nn]o space|full|PytorchStreamWriter|write failed|unexpected pos", """\
      ctypes.CDLL(None).unshare(0x20000)
      os.mkdir("ckpt")
      subprocess.run(["mount", "--make-rprivate", "/"], check=True)
      subprocess.run("mount -t tmpfs -o size=1m tmpfs ckpt".split(), check=True)
      torch.save(torch.ones(1 << 20), "ckpt/model.pt")
      """, top="import ctypes\nimport subprocess")
plant("two-torch-stopped", "torch", r"stopped|SIGSTOP", """\
      subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -STOP {os.getpid()}"])
      """, top="import subprocess")

# ---- C and C++ ----

plant("two-alloca", "c", r"stack", """\
      for (int i = 0;; i++)
          memset(alloca(1 << 20), i, 1 << 20);
      """, top="#include <alloca.h>")
plant("two-realloc", "c", r"realloc\(\): invalid pointer", """\
      char *p = malloc(64);
      p = realloc(p + 16, 200);
      p[0] = 1;
      """)
plant("two-plugin", "c", r"SIGSEGV|signal 11", """\
      void *library = dlopen("./plugin.so", RTLD_NOW);
      int (*tokenize)(int) = (int (*)(int))dlsym(library, "tokenize");
      tokenize(3);
      """, top="#include <dlfcn.h>", files={"plugin.c": """\
#include <stdlib.h>

int tokenize(int n)
{
	int **table = calloc(n, sizeof *table);

	return *table[1];
}
"""}, before=lambda hosts, job: [subprocess.run(
          ["gcc", "-g", "-shared", "-fPIC", "plugin.c", "-o", "plugin.so"],
          cwd=f"{job.folder}/{h}", check=True) for h in ("h1", "h2")])
plant("two-err", "c", r"tokens\.bin: No such file", """\
      if (open("/data/tokens.bin", O_RDONLY) < 0)
          err(66, "cannot open %s", "/data/tokens.bin");
      """, top="#include <err.h>")
plant("two-join", "c", r"rank 3.*(join|futex|thread|wait)", """\
      pthread_t t;
      pipe(ends);
      pthread_create(&t, NULL, reader, NULL);
      pthread_join(t, NULL);
      """, top="""\
#include <pthread.h>
static int ends[2];
static void *reader(void *unused)
{
	char c;
	return (void *)read(ends[0], &c, 1);
}
""")
plant("two-never-converges", "c", r"rank 3.*(comput|loop|spin|CPU|running|works)", """\
      volatile double x = -1, step = 1;
      while (!(step < 1e-9)) {
          double y = sqrt(x);
          step = fabs(y - x);
          x = y;
      }
      """, top="#include <math.h>")
plant("two-converged", "c",
      r"exited with (code )?0|left (early|with)|ended early|returned 0", """\
      puts("converged");
      exit(0);
      """)
plant("two-killed", "c", r"SIGKILL|signal 9", """\
      char command[100];
      sprintf(command, "(sleep 0.5; kill -9 %d) &", getpid());
      system(command);
      """)
plant("two-template-assert", "cxx", r"rows == other\.rows", """\
      Matrix<float> a{3}, b{4};
      a + b;
      """, top="""\
#include <cassert>
template <class T> struct Matrix {
	int rows;
	Matrix<T> operator+(const Matrix<T> &other) const
	{
		assert(rows == other.rows);
		return *this;
	}
};
""")
plant("two-nested-throw", "cxx", r"cannot load layer 12", """\
      try {
          throw std::out_of_range("weights: 12 of 10");
      } catch (...) {
          std::throw_with_nested(LayerError("cannot load layer 12"));
      }
      """, top="""\
#include <exception>
#include <stdexcept>
struct LayerError : std::runtime_error {
	using std::runtime_error::runtime_error;
};
""")

# ---- Fortran ----

plant("two-fortran-bad-integer", "f90", r"Bad integer", "./x", top="""\
program x
  integer :: a, b
  open(10, file="steps.txt", status="old")
  read(10, *) a, b
end program
""", files={"steps.txt": "12 abc\n"})
plant("two-fortran-allocated", "f90", r"already allocated", "./x", top="""\
program x
  real, allocatable :: field(:)
  call grow(10)
  call grow(20)
contains
  subroutine grow(n)
    integer, intent(in) :: n
    allocate(field(n))
  end subroutine
end program
""")

# ---- MPI ----

plant("two-mpi-count", "mpi", r"[Cc]ount", """\
      int x = 0;
      MPI_Send(&x, -5, MPI_INT, 0, 7, MPI_COMM_WORLD);
      """)
plant("two-mpi-root", "mpi", r"[Rr]oot", """\
      int x = 0;
      MPI_Bcast(&x, 1, MPI_INT, 9, MPI_COMM_WORLD);
      """)
plant("two-mpi-probe", "mpi", r"rank 3.*(Probe|wait|poll|comput|work|loop)", """\
      MPI_Status status;
      MPI_Probe(0, 99, MPI_COMM_WORLD, &status);
      """)
plant("two-ompi-truncated", "ompi", r"TRUNCATE|truncated", """\
      int a[100] = {0}, b[10];
      MPI_Request request;
      MPI_Isend(a, 100, MPI_INT, 3, 1, MPI_COMM_WORLD, &request);
      MPI_Recv(b, 10, MPI_INT, 3, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      """)
plant("two-ompi-assert", "ompi", r"cells > 0", """\
      #include <assert.h>
      int cells = 0;
      assert(cells > 0);
      """)

# ---- shells ----

plant("two-sh-no-env", "sh", r"env\.sh", """\
. ./env.sh
exec python3 train.py
""")
plant("two-sh-trap", "sh", r"model-7b\.part", """\
set -eE
trap 'echo "step failed: line $LINENO" >&2' ERR
mv model-7b.part model-7b.bin
""", command=["bash", "./train.sh"])
plant("two-sh-operator", "sh", r"\[: .*(operator|argument|expected)", """\
set -e
[ 3 -gt $limit ]
""")

# ---- limits ----

plant("two-limit-of-pipes", "py", r"Too many open files", """\
      resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
      readers = []
      while True:
          readers.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE))
      """, top="import resource\nimport subprocess")
plant("two-limit-of-dd", "sh", r"[Ff]ile size limit|SIGXFSZ|153", """\
ulimit -f 100
dd if=/dev/zero of=ckpt bs=1M count=10
""")
plant("two-limit-of-child", "sh", r"CPU time limit|SIGXCPU|152", """\
ulimit -S -t 1
python3 -c 'while True: pass'
""")

# ---- disks ----

plant("two-dangling-link", "py", r"latest/model", """\
      os.symlink("step-4000", "latest")
      open("latest/model.bin", "rb")
      """)
plant("two-other-file-system", "py", r"Invalid cross-device link", """\
      path = f"/dev/shm/two.{os.getpid()}"
      open(path, "w").close()
      try:
          os.rename(path, "ckpt.bin")
      finally:
          os.unlink(path)
      """)

# ---- the network ----

LOST = (r"lost|no answer|nothing (came|heard)|heard nothing|acknowledged|unreachable|"
        r"cannot reach|[Nn]o route|heartbeat|not answer|silent|packets|address")


def on_h2(command):
    def hook(hosts, job):
        wait_for_planted(job)
        subprocess.run(["nsenter", f"--net=/proc/{hosts.pid['h2']}/ns/net",
                        *command.split()], check=True)
    return hook


plant("two-one-way", "py", LOST, "pass", rank="",
      after=on_h2("iptables -A OUTPUT -o eth0 -j DROP"),
      undo=on_h2("iptables -D OUTPUT -o eth0 -j DROP"))
alone()
plant("two-address-gone", "py", LOST, "pass", rank="",
      after=on_h2("ip addr del 10.79.0.2/24 dev eth0"),
      undo=on_h2("ip addr add 10.79.0.2/24 dev eth0"))
alone()
plant("two-black-hole", "py", LOST + "|Invalid argument", "pass", rank="",
      after=on_h2("ip route add blackhole 10.79.0.1/32"),
      undo=on_h2("ip route del blackhole 10.79.0.1/32"))
alone()
plant("two-data-server", "py", r"Connection refused", """\
      socket.create_connection(("h1", 9))
      """, top="import socket")

# ---- operators ----

plant("two-hang-up", "py", r"SIGHUP|signal 1\b", """\
      subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -HUP {os.getpid()}"])
      """, top="import subprocess")


def end_agent(hosts, job):
    wait_for_planted(job)
    job.nodes[1].send_signal(signal.SIGTERM)


plant("two-agent-ended", "py", r"SIGTERM|signal 15|stopped|ended|left|terminated", "pass",
      rank="", after=end_agent)

# ---- set-ups ----

plant("two-wrong-folder", "py", r"can't open file|No such file", rank="2|3",
      command=["python3", "src/main.py"],
      files={"h1/src/main.py": "import time\ntime.sleep(1000)\n"})
plant("two-conflict", "py", r"SyntaxError", rank="2|3", top="import config",
      files={"h1/config.py": "lr = 0.1\n", "h2/config.py": """\
<<<<<<< HEAD
lr = 0.1
=======
lr = 0.2
>>>>>>> fix
"""})
plant("two-folder-as-program", "sh", r"directory|[Pp]ermission denied|not a program|execut",
      rank="", command=["./prog"],
      files={"h1/prog": "#!/bin/sh\nexec sleep 1000\n", "h2/prog/main.c": ""})
plant("two-shadowed", "py", r"queue\.py|module 'queue'|from 'queue'", rank="2|3",
      top="import multiprocessing.queues", files={"h2/queue.py": "def pick(n):\n    return 4\n"})
