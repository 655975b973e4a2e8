"""plants_later.py: 44 failures that were planted last. The list was written before a look
at the code that finds the cause. Two were not failures as planned; 32 of the other 42 were
right the first time (76 %), and 6 were silent for 40 s, including 4 ranks that read, write,
allocate or start processes in a loop. After the mends 42 of all 44 are right, which shows
less. Two are silent: ranks of MPI that poll while one rank sleeps, or has exited with 0
without MPI_Finalize."""

import time

from program import PLANTS, plant

# ---- Python ----

plant("later-attribute", "py", r"AttributeError: 'NoneType' object has no attribute "
      r"'shape'.*train\.py:\d+", "print(None.shape)")
plant("later-assert", "py", r"AssertionError.*train\.py:\d+", "assert rank < 0")
plant("later-newline-first", "py", r"ValueError: .*shapes differ", """\
      raise ValueError("\\n\\nshapes differ:\\n  got (3, 4)\\n  expected (4, 3)")
      """)
plant("later-module", "py", r"DataError: shard 12 is empty.*loader\.py:\d+", """\
      shards.loader.load(12)
      """, top="import shards.loader",
      files={"shards/__init__.py": "", "shards/loader.py": """\
class DataError(Exception):
    pass


def load(n):
    raise DataError(f"shard {n} is empty")
"""})
plant("later-thread-after", "py", r"ValueError: bad shard 3", """\
      def late():
          time.sleep(0.3)
          raise OSError("writer: bad file descriptor")
      threading.Thread(target=late).start()
      raise ValueError("bad shard 3")
      """, top="import threading")
plant("later-logged", "py", r"KeyError: 'lr'", """\
      logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
      try:
          {}["lr"]
      except KeyError:
          logging.exception("training failed")
          sys.exit(1)
      """, top="import logging")
plant("later-rich", "py", r"ValueError: bad shard 7", """\
      sys.stderr.write('''\\
╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /w/train.py:7 in <module>                                                    │
│                                                                              │
│   4 def load(n):                                                             │
│   5     raise ValueError(f"bad shard {n}")                                   │
│ ❱ 7 load(7)                                                                  │
╰──────────────────────────────────────────────────────────────────────────────╯
ValueError: bad shard 7
''')
      sys.exit(1)
      """)
plant("later-hydra", "py", r"ValueError: lr must be positive", """\
      sys.stderr.write('''\\
Error executing job with overrides: ['lr=-3']
Traceback (most recent call last):
  File "/w/train.py", line 12, in main
    check(cfg)
  File "/w/train.py", line 8, in check
    raise ValueError("lr must be positive")
ValueError: lr must be positive

Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.
''')
      sys.exit(1)
      """)
plant("later-wrapper", "sh", r"(SIGKILL|137|Killed)", """\
python3 -c 'import os; os.kill(os.getpid(), 9)'
exit $?
""")
plant("later-asyncio-hang", "py", r"rank 3.*(poll|sleeps|waits)", """\
      async def main():
          await asyncio.Event().wait()
      asyncio.run(main())
      """, top="import asyncio")
plant("later-condition", "py", r"rank 3.*(futex|lock)", """\
      c = threading.Condition()
      with c:
          c.wait()
      """, top="import threading")
plant("later-thread-keeps", "py", r"ValueError: bad shard 4", """\
      threading.Thread(target=time.sleep, args=(1000,)).start()
      raise ValueError("bad shard 4")
      """, top="import threading")
plant("later-reads-shard", "py", r"rank 3.*(reads|works|computes)", """\
      with open("shard", "wb") as f:
          f.write(bytes(8 << 20))
      with open("shard", "rb") as f:
          while True:
              while f.read(1 << 20):
                  pass
              f.seek(0)
      """)
plant("later-allocates", "py", r"rank 3.*(works|computes|memory)", """\
      while True:
          bytearray(b"x" * (64 << 20))
      """)
plant("later-forks", "py", r"rank 3.*(works|computes|process|child)", """\
      while True:
          subprocess.run(["false"])
          time.sleep(0.1)
      """, top="import subprocess")
plant("later-log-loop", "py", r"rank 3.*(writes|works|computes)", """\
      with open("train.log", "w") as f:
          while True:
              f.write("no batch in the queue, looking again\\n" * 100)
              f.flush()
              time.sleep(0.01)
      """)
plant("later-sigterm", "py", r"SIGTERM", """\
      os.kill(os.getpid(), signal.SIGTERM)
      time.sleep(60)
      """, top="import signal")
plant("later-faulthandler", "py", r"Timeout \(0:00:01\)!", """\
      faulthandler.dump_traceback_later(1, exit=True)
      time.sleep(60)
      """, top="import faulthandler")
plant("later-pool", "py", r"ValueError: bad image 7", """\
      with multiprocessing.get_context("fork").Pool(1) as pool:
          pool.map(decode, [7])
      """, top="import multiprocessing\n\n\ndef decode(n):\n"
      "    raise ValueError(f'bad image {n}')\n")
plant("later-url", "py", r"URLError: .*Connection refused", """\
      urllib.request.urlopen("http://127.0.0.1:9/model")
      """, top="import urllib.request")
plant("later-sqlite", "py", r"OperationalError: database is locked", """\
      a = sqlite3.connect("runs.db", isolation_level=None)
      a.execute("create table runs (id)")
      a.execute("begin exclusive")
      b = sqlite3.connect("runs.db", timeout=0.2)
      b.execute("insert into runs values (1)")
      """, top="import sqlite3")
plant("later-negative", "py", r"exited with code 253", "sys.exit(-3)")

# ---- C, C++ and Fortran ----

plant("later-perror", "c", r"open /data/train\.bin: No such file or directory", """\
      if (open("/data/train.bin", O_RDONLY) < 0) {
      	perror("open /data/train.bin");
      	exit(2);
      }
      """)
plant("later-thread-segv", "c", r"SIGSEGV.*null pointer.*decode.*train\.c", """\
      pthread_t t;
      pthread_create(&t, NULL, decode, NULL);
      pthread_join(t, NULL);
      """, top="#include <pthread.h>\nstatic void *decode(void *x)"
      " { *(volatile int *)x = 1; return x; }")
plant("later-cond-wait", "c", r"rank 3.*(futex|lock)", """\
      pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
      pthread_cond_t c = PTHREAD_COND_INITIALIZER;
      pthread_mutex_lock(&m);
      pthread_cond_wait(&c, &m);
      """, top="#include <pthread.h>")
plant("later-spin", "c", r"rank 3.*computes", """\
      static atomic_int ready;
      while (!atomic_load(&ready))
      	sched_yield();
      """, top="#include <sched.h>\n#include <stdatomic.h>")
plant("later-truncated", "c", r"SIGBUS.*(shard|truncated|end of|file)", """\
      int fd = open("shard", O_RDWR | O_CREAT, 0666);
      ftruncate(fd, 8192);
      volatile char *p = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
      ftruncate(fd, 0);
      (void)p[4096];
      """, top="#include <sys/mman.h>")
plant("later-null-call", "c", r"SIGSEGV.*null", """\
      void (*volatile f)(void) = NULL;
      f();
      """)
plant("later-msgrcv", "c", r"rank 3.*(sleeps|waits)", """\
      char b[100];
      msgrcv(msgget(IPC_PRIVATE, 0600), b, 90, 0, 0);
      """, top="#include <sys/msg.h>")
plant("later-nested", "cxx", r"terminate called.*(cannot load shard 7|outer)", """\
      try {
      	throw std::runtime_error("no such file");
      } catch (...) {
      	std::throw_with_nested(std::runtime_error("cannot load shard 7"));
      }
      """, top="#include <exception>\n#include <stdexcept>")
plant("later-promise", "cxx", r"terminate called.*(future_error|Broken promise)", """\
      std::future<int> f;
      {
      	std::promise<int> p;
      	f = p.get_future();
      }
      f.get();
      """, top="#include <future>")
plant("later-fortran-null", "f90", r"SIGSEGV", "exec ./x",
      top="program x\n  integer, pointer :: a(:)\n  nullify(a)\n"
      "  call fill(a)\ncontains\n  subroutine fill(b)\n    integer, pointer :: b(:)\n"
      "    call poke()\n  end subroutine\n"
      "  subroutine poke()\n    use iso_c_binding\n    integer, pointer :: c\n"
      "    call c_f_pointer(transfer(8_8, c_null_ptr), c)\n    c = 1\n"
      "  end subroutine\nend program\n")

# ---- shell and scripts ----

plant("later-exit-trap", "sh", r"(cannot open|No such file).*|manifest", """\
trap 'echo "cleaning up scratch" >&2' EXIT
set -e
cat /no/such/manifest
""")
plant("later-node", "sh", r"Error: bad shard 7", """\
exec node -e 'function load(n) { throw new Error("bad shard " + n); } load(7)'
""")
plant("later-perl", "sh", r"bad shard 7 at ", "exec perl -e 'die \"bad shard 7\"'\n")

# ---- MPI ----

plant("later-mpi-abort", "mpi", r"exited with code 7|MPI_Abort", """\
      MPI_Abort(MPI_COMM_WORLD, 7);
      """)
plant("later-mpi-truncated", "mpi", r"[Mm]essage truncated|MPI_ERR_TRUNCATE", """\
      int in, out[100] = {0};
      MPI_Request r;
      MPI_Isend(out, 100, MPI_INT, 3, 7, MPI_COMM_WORLD, &r);
      MPI_Recv(&in, 1, MPI_INT, 3, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      """)
plant("later-mpi-hang", "mpi", r"rank 3.*sleeps", "sleep(1000);")
plant("later-mpi-exit", "mpi", r"code 0", "_exit(0);")

# ---- a node ----

plant("later-node-file", "py", r"FileNotFoundError: .*labels\.csv", rank="[23]",
      files={"h1/labels.csv": "1\n", "train.py": """\
import os, time
open(os.environ["PLANTED"], "a").close()
open("labels.csv")
time.sleep(1000)
"""})


def link_down(hosts, job):
    time.sleep(3)
    open(job.folder + "/planted", "w").close()
    hosts.net("h2", "link set eth0 down")


def link_up(hosts, job):
    hosts.net("h2", "link set eth0 up")


# it takes the network from all other jobs: alone (see run.py)
plant("later-link-down", "sh", r"was lost.*(silent|heard|connection|unreachable)", rank="",
      files={"train.sh": "exec sleep 1000"}, after=link_down, undo=link_up)
PLANTS[-1].alone = True

# ---- PyTorch ----

plant("later-torch-backward", "torch", r"RuntimeError: Trying to backward through the "
      "graph a second time", """\
      x = torch.ones(3, requires_grad=True)
      y = (x * x).sum()
      y.backward()
      y.backward()
      """)
plant("later-torch-memory", "torch", r"can't allocate memory", """\
      torch.ones(1 << 50)
      """)
plant("later-torch-extra", "torch", r"rank [01]", "dist.barrier(); dist.barrier()",
      env={"TIMEOUT": "8"}, rank="[01]", host="h")
