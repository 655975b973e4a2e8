"""plants_rare.py: failures that nothing in the tree was written or mended for when they
were first planted."""

from program import plant

# ---- Python ----

plant("rare-task-lost", "py", r"ValueError: bad shard 9", """\
      async def load():
          raise ValueError("bad shard 9")
      async def all():
          keep = asyncio.create_task(load())
          await asyncio.sleep(0.1)
          del keep
          gc.collect()
          await asyncio.Event().wait()
      asyncio.run(all())
      """, top="import asyncio\nimport gc")
plant("rare-json", "py", r"JSONDecodeError: Expecting", 'json.loads("{lr: 1}")',
      top="import json")
plant("rare-guard", "py", r"RuntimeError: .*(bootstrapping|start a new process)",
      files={"train.py": """\
import multiprocessing, os, time
open(os.environ["PLANTED"], "a").close()
if os.environ["RANK"] != "3":
    time.sleep(1000)
p = multiprocessing.get_context("spawn").Process(target=print)
p.start()
p.join()
raise SystemExit(p.exitcode)
"""})
plant("rare-pickle", "py", r"(pickle|local object)", """\
      p = multiprocessing.get_context("spawn").Process(target=lambda: 1)
      p.start()
      """, top="import multiprocessing")
plant("rare-command", "py", r"CalledProcessError: .*exit status 3",
      'subprocess.run(["sh", "-c", "exit 3"], check=True)', top="import subprocess")
plant("rare-eof", "py", r"EOFError: EOF when reading", "input()")
plant("rare-stale", "py", r"Stale file handle",
      'raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), "/nfs/data")',
      top="import errno")
plant("rare-semaphore", "py", r"rank 3.*(futex|lock)", """\
      l = multiprocessing.Lock()
      l.acquire()
      l.acquire()
      """, top="import multiprocessing")
plant("rare-fifo", "py", r"rank 3.*FIFO", """\
      os.mkfifo("fifo")
      open("fifo").read()
      """)
plant("rare-retries", "py", r"rank 3.*sleeps", """\
      while True:
          print("HTTP 503, retrying in 1 s", file=sys.stderr)
          time.sleep(1)
      """)
plant("rare-regex", "py", r"rank 3.*computes",
      're.match("(a+)+$", "a" * 60 + "b")', top="import re")
plant("rare-reads-forever", "py", r"rank 3", """\
      while True:
          open("/proc/self/maps").read()
      """)
plant("rare-alarm", "py", r"SIGALRM", """\
      signal.alarm(1)
      time.sleep(60)
      """, top="import signal")
plant("rare-cuda", "py", r"CUDA error: an illegal memory access", """\
      raise RuntimeError("CUDA error: an illegal memory access was encountered\\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\\n")
      """)
plant("rare-fork-lock", "py", r"rank 3.*child", """\
      lock = threading.Lock()
      lock.acquire()
      child = os.fork()
      if child == 0:
          lock.acquire()
      os.waitpid(child, 0)
      """, top="import threading")

# ---- C and C++ ----

plant("rare-sigpipe", "c", r"SIGPIPE", """\
      int p[2];
      pipe(p);
      close(p[0]);
      write(p[1], "x", 1);
      """)
plant("rare-float", "c", r"SIGFPE.*floating-point division by zero.*train\.c", """\
      volatile double zero = 0;
      feenableexcept(FE_DIVBYZERO);
      zero = 1 / zero;
      """, top="#define __USE_GNU 1\n#include <fenv.h>\nint feenableexcept(int);")
plant("rare-strlen", "c", r"SIGSEGV.*null pointer.*train\.c", """\
      const char *volatile name = getenv("NO_SUCH_VARIABLE");
      printf("%zu", strlen(name));
      """)
plant("rare-constant", "c", r"SIGSEGV.*(forbidden|write).*train\.c", """\
      char *volatile text = "constant";
      text[0] = 'C';
      """)
plant("rare-heap", "c", r"munmap_chunk|corrupt|free\(\)", """\
      char *volatile p = malloc(1 << 16), *volatile q = malloc(1 << 16);
      malloc(16);
      memset(p, 0x41, (1 << 16) + 64);
      free(q);
      """)
plant("rare-glibcxx", "cxx", r"Assertion '__n < this->size\(\)' failed", """\
      std::vector<int> v(3);
      volatile int i = 7;
      v[i] = 1;
      """, top="#include <vector>")
plant("rare-filesystem", "cxx", r"filesystem error.*No such file",
      'std::filesystem::file_size("no/such");', top="#include <filesystem>")
plant("rare-quiet-exit", "c", r"exited with code 3", "exit(3);")

# ---- texts of programs that are not here ----

plant("rare-watchdog", "sh", r"Watchdog caught collective operation timeout", """\
cat >&2 <<END
[rank3]:[E1129 03:12:44.123456789 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1000, NumelOut=1000, Timeout(ms)=600000) ran for 600009 milliseconds before timing out.
[rank3]:[E1129 03:12:44.223456789 ProcessGroupNCCL.cpp:684] [Rank 3] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.
terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [PG ID 0 PG GUID 0 Rank 3] Process group watchdog thread terminated with exception: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)
Exception raised from checkTimeout at ProcessGroupNCCL.cpp:635 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x80 (0x7f libc10.so)
frame #1: clone + 0x40 (0x7f libc.so.6)
END
kill -ABRT $$
""")
plant("rare-tensorflow", "sh", r"Thread creation via pthread_create\(\) failed", """\
echo "2026-11-29 03:12:44.123456: F tensorflow/core/platform/default/env.cc:74] Check failed: ret == 0 (11 vs. 0)Thread creation via pthread_create() failed." >&2
echo "Aborted (core dumped)" >&2
kill -ABRT $$
""")
plant("rare-mpich", "sh", r"Fatal error in internal_Init", """\
cat >&2 <<END
Fatal error in internal_Init: Other MPI error, error stack:
internal_Init(66)............: MPI_Init(argc=(nil), argv=(nil)) failed
MPII_Init_thread(234)........:
MPID_Init(67)................:
init_world(171)..............: channel initialization failed
END
exit 15
""")
plant("rare-lua", "sh", r"x\.lua:1: bad step", """\
printf 'lua: x.lua:1: bad step\\nstack traceback:\\n\\t[C]: in function error\\n\\tx.lua:1: in main chunk\\n\\t[C]: in ?\\n' >&2
exit 1
""")
plant("rare-ruby", "sh", r"bad step \(RuntimeError\)", """\
printf "x.rb:3:in \\140load': bad step (RuntimeError)\\n\\tfrom x.rb:5:in \\140<main>'\\n" >&2
exit 1
""")
plant("rare-haskell", "sh", r"train: bad step", """\
printf 'train: bad step\\nCallStack (from HasCallStack):\\n  error, called at x.hs:3:8 in main:Main\\n' >&2
exit 1
""")
plant("rare-conda", "sh", r"CondaError|conda activate", """\
cat >&2 <<END

CondaError: Run 'conda init' before 'conda activate'

END
exit 1
""")
plant("rare-container", "sh", r"container creation failed", """\
echo "FATAL:   container creation failed: mount /proc/self/fd/3->/var/lib/apptainer/mnt/session/rootfs error: while mounting image: failed to find loop device: no loop devices available" >&2
exit 255
""")
plant("rare-command-not-found", "sh", r"pyhton3: not found", "pyhton3 train.py\n")
