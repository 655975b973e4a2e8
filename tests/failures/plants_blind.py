"""plants_blind.py: 100 failures, with plants_blind_more.py, written before a look at the code
that finds the cause, by somebody who has never read it. Causes, ranks and hosts were fixed in
a commit before the first run, and have not changed since but for one pattern, see below.

The first run: 90 of 100 right, 3 silent. Two plants were wrong themselves: command-timeout
expected "timed out after 2", and Python says 1.9999; import-lock did not hang, as its thread
imported a name that failed at once. With both mended: 92 of 100 right, 2 silent.

                                      plants  right  silent
  Python: input files                     10     10       0
  Python: helpers and services            11     11       0
  Python: how programs report              9      9       0
  Python: hangs                           11      9       1
  memory, CPU time, disks                 10      9       0
  C and C++                               13     12       0
  Fortran, other languages, shells         7      7       0
  PyTorch                                  9      7       0
  libddp: calls that do not match          3      3       0
  MPI                                      3      3       0
  the start                                7      6       1
  networks and operators                   7      6       0

Not right: frozen (said to wait for a disk), script-waits (silent: the rank's Python program
has died of a ValueError, its script waits for another), oom (the memory limit is not named,
and the cause only "perhaps"), large-frame (a stack overflow said to be an invalid address),
torch-monitored and torch-master-port (the victim, rank 0, comes first), wrong-address
(silent: the address that cannot be reached is named after 41 s), large-packets (nothing about
the network). Right, but weak: root-differs (another rank comes first, rank 3 after it), ring
(no cycle), torch-size-mismatch (not which tensor), make (not what its command said)."""

import os
import time

from program import plant


def in_host(hosts, job, command, host="h2"):
    hosts.start(host, ["sh", "-c", command], cwd=f"{job.folder}/{host}").wait()


def then(command):
    """Runs a command in h2 once the plant says that it is there."""
    def after(hosts, job):
        end = time.time() + 60
        while not os.path.exists(job.folder + "/planted") and time.time() < end:
            time.sleep(0.1)
        time.sleep(0.5)
        in_host(hosts, job, command)
    return after


def first(command):
    return lambda hosts, job: in_host(hosts, job, command)


def remove_group(path):
    """A control group, once its processes are gone."""
    for _ in range(50):
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.2)


def without_group(path):
    return lambda hosts, job: remove_group(path)


SMALL = first("mkdir small && mount -t tmpfs -o size=1m none small")

# ---- Python: input files ----

plant("blind-toml", "py", r"TOMLDecodeError: .*line 3", """\
      with open("config.toml", "w") as f:
          f.write('[model]\\nlayers = 12\\nname = "large\\n')
      with open("config.toml", "rb") as f:
          tomllib.load(f)
      """, top="import tomllib")
plant("blind-xml", "py", r"ParseError: (no element found|mismatched tag|unclosed)", """\
      with open("0017.xml", "w") as f:
          f.write("<annotation><object><name>dog</name>")
      ElementTree.parse("0017.xml")
      """, top="from xml.etree import ElementTree")
plant("blind-csv", "py", r"Error: field larger than field limit", """\
      with open("captions.csv", "w") as f:
          f.write('1,"' + "x" * 200000 + '"\\n')
      with open("captions.csv") as f:
          for row in csv.reader(f):
              pass
      """, top="import csv")
plant("blind-xz", "py", r"(LZMAError|EOFError): .*(Corrupt|ended before|format)", """\
      with lzma.open("shard.xz", "wb") as f:
          f.write(os.urandom(100000))
      os.truncate("shard.xz", 5000)
      with lzma.open("shard.xz") as f:
          f.read()
      """, top="import lzma")
plant("blind-record", "py", r"struct\.error: unpack requires a buffer of 12 bytes", """\
      with open("train.rec", "wb") as f:
          f.write(bytes(7))
      with open("train.rec", "rb") as f:
          struct.unpack("<QI", f.read(12))
      """, top="import struct")
plant("blind-unpickle-class", "py", r"AttributeError: Can't get attribute 'Config'", """\
      global Config
      class Config:
          pass
      Config.__qualname__ = "Config"
      state = pickle.dumps(Config())
      del Config
      pickle.loads(state)
      """, top="import pickle")
plant("blind-environment", "py", r"KeyError: 'DATA_ROOT'", """\
      open(os.path.join(os.environ["DATA_ROOT"], "train.bin"))
      """)
plant("blind-environment-int", "py", r"invalid literal for int\(\).*'auto'", """\
      os.environ["NUM_WORKERS"] = "auto"
      workers = int(os.environ["NUM_WORKERS"])
      """)
plant("blind-math", "py", r"OverflowError: math range error", """\
      perplexity = math.exp(4711.5)
      """, top="import math")
plant("blind-warning-error", "py", r"DeprecationWarning: scheduler\.step\(epoch\) is "
      "deprecated", """\
      warnings.simplefilter("error")
      warnings.warn("scheduler.step(epoch) is deprecated", DeprecationWarning)
      """, top="import warnings")

# ---- Python: helpers and services ----

plant("blind-git", "py", r"(not a git repository|CalledProcessError: .*git.*128)", """\
      subprocess.check_output(["git", "-C", "/", "rev-parse", "HEAD"])
      """, top="import subprocess")
plant("blind-command-timeout", "py", r"TimeoutExpired: .*timed out after (2|1\.9)", """\
      subprocess.run(["sleep", "600"], timeout=2)
      """, top="import subprocess")
plant("blind-http-403", "py", r"HTTP Error 403: Forbidden|HTTPError.*403", """\
      class Handler(http.server.BaseHTTPRequestHandler):
          def do_GET(self):
              self.send_error(403)
      server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
      threading.Thread(target=server.serve_forever, daemon=True).start()
      urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/shard-3")
      """, top="import http.server, threading, urllib.request")
plant("blind-http-short", "py", r"IncompleteRead", """\
      class Handler(http.server.BaseHTTPRequestHandler):
          def do_GET(self):
              self.send_response(200)
              self.send_header("Content-Length", "1000000")
              self.end_headers()
              self.wfile.write(bytes(5000))
      server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
      threading.Thread(target=server.serve_forever, daemon=True).start()
      urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/shard-3").read()
      """, top="import http.server, threading, urllib.request")
plant("blind-http-slow", "py", r"(TimeoutError|URLError|timeout).*timed out", """\
      s = socket.create_server(("127.0.0.1", 0))
      urllib.request.urlopen(f"http://127.0.0.1:{s.getsockname()[1]}/shard-3",
                             timeout=2)
      """, top="import socket, urllib.request")
plant("blind-async-refused", "py", r"(ConnectionRefusedError|Connect call failed)", """\
      async def fetch(n):
          await asyncio.open_connection("127.0.0.1", 9)
      async def main():
          await asyncio.gather(*(fetch(n) for n in range(3)))
      asyncio.run(main())
      """, top="import asyncio")
plant("blind-pool-raises", "py", r"OSError: cannot read tile 9", """\
      with multiprocessing.Pool(2) as pool:
          pool.map(tile, range(12))
      """, top="""\
import multiprocessing


def tile(n):
    if n == 9:
        raise OSError("cannot read tile 9")""")
plant("blind-process-raises", "py", r"UnicodeDecodeError|can't decode byte", """\
      p = multiprocessing.Process(target=b"caption \\xff".decode)
      p.start()
      p.join()
      if p.exitcode:
          sys.exit(p.exitcode)
      """, top="import multiprocessing")
plant("blind-manager-killed", "py", r"(BrokenPipe|EOF|ConnectionRe\w+)Error", """\
      manager = multiprocessing.Manager()
      shared = manager.dict()
      os.kill(manager._process.pid, 9)
      manager._process.join()
      shared["step"] = 20
      """, top="import multiprocessing")
plant("blind-shared-memory", "py", r"FileExistsError: .*train_cache", """\
      shared_memory.SharedMemory("train_cache", create=True, size=4096)
      shared_memory.SharedMemory("train_cache", create=True, size=4096)
      """, top="from multiprocessing import shared_memory")
plant("blind-lock-taken", "py", r"BlockingIOError: .*(unavailable|Errno 11)", """\
      a, b = open("cache.lock", "w"), open("cache.lock", "w")
      fcntl.flock(a, fcntl.LOCK_EX)
      fcntl.flock(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
      """, top="import fcntl")

# ---- Python: how programs report ----

plant("blind-loguru", "py", r"ZeroDivisionError: division by zero", """\
      def line(level, text):
          now = time.strftime("%Y-%m-%d %H:%M:%S.123")
          sys.stderr.write(f"{now} | {level:8} | __main__:main:44 - {text}\\n")
      line("INFO", "epoch 3")
      try:
          1 / 0
      except ZeroDivisionError:
          line("ERROR", "An error has been caught in function 'main', process "
               "'MainProcess' (4711), thread 'MainThread' (1402):")
          traceback.print_exc()
          line("INFO", "closing the writer")
          line("SUCCESS", "checkpoint saved")
          sys.exit(1)
      """, top="import traceback")
plant("blind-json-log", "py", r"lr is negative", """\
      def hook(kind, value, trace):
          for level, text in (("info", "saving state"), ("error", f"{kind.__name__}: "
                              f"{value}"), ("info", "wandb: run finished")):
              sys.stderr.write(json.dumps({"ts": time.time(), "level": level,
                                           "msg": text, "rank": rank}) + "\\n")
      sys.excepthook = hook
      raise ValueError("lr is negative: -0.1")
      """, top="import json")
plant("blind-says-and-returns", "py", r"data path /data/train is not mounted", """\
      print("error: data path /data/train is not mounted", file=sys.stderr)
      sys.exit(-1)
      """)
plant("blind-progress-bar", "py", r"ValueError: bad caption 88.*train\.py:\d+", """\
      for i in range(300):
          sys.stderr.write(f"\\r{i / 3:3.0f}%|{'#' * (i // 10):30}| {i}/300 "
                           "[00:12<00:34, 8.11it/s]")
      raise ValueError("bad caption 88")
      """)
plant("blind-long-line", "py", r"RuntimeError: the cache is inconsistent", """\
      for i in range(20):
          sys.stderr.write("." * (1 << 20))
      sys.stderr.write("\\n")
      raise RuntimeError("the cache is inconsistent")
      """)
plant("blind-latin1", "py", r"Datei nicht gefunden", """\
      sys.stderr.buffer.write("Fehler: Datei nicht gefunden: grün.bin\\n"
                              .encode("latin-1"))
      sys.stderr.flush()
      os._exit(3)
      """)
plant("blind-retries-first", "py", r"gave up after 3 tries", """\
      for i in range(3):
          print(f"WARNING: try {i + 1}: ConnectionResetError: [Errno 104] Connection "
                "reset by peer", file=sys.stderr)
          time.sleep(0.1)
      raise RuntimeError("registry h9: gave up after 3 tries")
      """)
plant("blind-faulthandler-timeout", "py", r"Timeout \(0:00:02\)|train\.py:\d+", """\
      faulthandler.dump_traceback_later(2, exit=True)
      time.sleep(1000)
      """, top="import faulthandler")
plant("blind-thread-exits", "py", r"code 17", """\
      threading.Thread(target=os._exit, args=(17,)).start()
      time.sleep(1000)
      """, top="import threading")

# ---- Python: hangs ----

plant("blind-producer-dies", "py", r"FileNotFoundError.*part-00017", """\
      q = queue.Queue()
      def produce():
          q.put(open("part-00017").read())
      threading.Thread(target=produce, daemon=True).start()
      q.get()
      """, top="import queue, threading")
plant("blind-thread-barrier", "py", r"rank 3.*(futex|lock|waits|train\.py:\d+)", """\
      threading.Barrier(2).wait()
      """, top="import threading")
plant("blind-queue-full", "py", r"rank 3.*(futex|lock|queue|train\.py:\d+)", """\
      q = queue.Queue(1)
      q.put(1)
      q.put(2)
      """, top="import queue")
plant("blind-import-lock", "py", r"rank 3.*(futex|lock|join|waits|shards\.py:\d+)", """\
      import shards
      """, files={"shards.py": """\
import threading


def load():
    import shards


t = threading.Thread(target=load)
t.start()
t.join()
"""})
plant("blind-accept", "py", r"rank 3.*(accept|train\.py:\d+)", """\
      socket.create_server(("127.0.0.1", 0)).accept()
      """, top="import socket")
plant("blind-marker-file", "py", r"rank 3.*(sleep|train\.py:\d+)", """\
      while not os.path.exists("tokenizer.done"):
          time.sleep(0.5)
      """)
plant("blind-native-long", "py", r"rank 3.*(comput|works|runs|CPU|busy|train\.py:\d+)",
      """\
      hashlib.pbkdf2_hmac("sha256", b"key", b"salt", 2000000000)
      """, top="import hashlib")
plant("blind-stopped-helper", "py", r"rank 3.*(reads?|pipe|child|helper|stopped"
      r"|train\.py:\d+)", """\
      p = subprocess.Popen(["yes"], stdout=subprocess.PIPE)
      os.kill(p.pid, 19)
      while p.stdout.read(1 << 16):
          pass
      """, top="import subprocess")
plant("blind-traced", "py", r"rank 3.*(trac|debugger|stopped)", """\
      # as an operator's debugger that was left open: it stops its parent
      pid = os.getpid()
      if os.fork() == 0:
          libc = ctypes.CDLL(None)
          libc.prctl(1, 9)
          if libc.ptrace(16, pid, None, None):
              os._exit(1)
          time.sleep(1000)
      time.sleep(1000)
      """, top="import ctypes")
FROZEN = "/sys/fs/cgroup/freezer/plant_blind"


def thaw(hosts, job):
    with open(FROZEN + "/freezer.state", "w") as f:
        f.write("THAWED")
    remove_group(FROZEN)


plant("blind-frozen", "py", r"rank 3.*(frozen|freez|suspended|paused|cgroup|stopped)",
      f"""\
      os.makedirs("{FROZEN}", exist_ok=True)
      open("{FROZEN}/cgroup.procs", "w").write("0")
      open("{FROZEN}/freezer.state", "w").write("FROZEN")
      """, undo=thaw)
plant("blind-script-waits", "py", r"ValueError: bad shard 21", "raise ValueError('bad "
      "shard 21')", command=["bash", "run.sh"], files={"run.sh": """\
python3 train.py &
[ "$RANK" = 3 ] && sleep 1000 &
wait
"""})

# ---- memory, CPU time and disks ----

plant("blind-oom", "py", r"([Oo]ut of memory|OOM|memory.*limit)", """\
      group = "/sys/fs/cgroup/memory/plant_blind"
      os.makedirs(group, exist_ok=True)
      open(group + "/memory.limit_in_bytes", "w").write(str(64 << 20))
      open(group + "/cgroup.procs", "w").write("0")
      data = []
      while True:
          data.append(os.urandom(1 << 20))
      """, undo=without_group("/sys/fs/cgroup/memory/plant_blind"))
plant("blind-oom-helper", "py", r"([Oo]ut of memory|OOM|memory.*limit|SIGKILL"
      "|died with)", """\
      group = "/sys/fs/cgroup/memory/plant_blind_helper"
      os.makedirs(group, exist_ok=True)
      open(group + "/memory.limit_in_bytes", "w").write(str(64 << 20))
      subprocess.run(["sh", "-c", f"echo $$ >{group}/cgroup.procs; exec python3 -c "
                      "'x = bytes(b\\"1\\") * (1 << 30)'"], check=True)
      """, top="import subprocess", undo=without_group(
          "/sys/fs/cgroup/memory/plant_blind_helper"))
plant("blind-cpu-limit", "py", r"SIGXCPU.*(CPU|limit)", """\
      resource.setrlimit(resource.RLIMIT_CPU, (2, 10))
      while True:
          pass
      """, top="import resource")
plant("blind-file-limit", "c", r"SIGXFSZ.*(file|size|limit)", """\
      struct rlimit limit = {1 << 20, 1 << 20};
      FILE *f = fopen("checkpoint", "w");
      static char block[65536];
      setrlimit(RLIMIT_FSIZE, &limit);
      for (;;) {
          fwrite(block, 1, sizeof(block), f);
          fflush(f);
      }
      """, top="#include <sys/resource.h>")
plant("blind-tmpfs-mapped", "c", r"SIGBUS.*(full|[Nn]o space)", """\
      int fd = open("small/cache", O_RDWR | O_CREAT, 0666);
      ftruncate(fd, 64 << 20);
      char *p = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      memset(p, 1, 64 << 20);
      """, top="#include <sys/mman.h>", before=SMALL)
plant("blind-truncated-map", "c", r"SIGBUS.*(trunc|end of|shorter|tokens\.bin)", """\
      int fd = open("tokens.bin", O_RDWR | O_CREAT, 0666);
      ftruncate(fd, 1 << 20);
      char *p = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, fd, 0);
      ftruncate(fd, 4096);
      volatile char c = p[500000];
      """, top="#include <sys/mman.h>")
plant("blind-inodes", "py", r"OSError: .*No space left on device", """\
      for i in range(1000):
          open(f"small/sample_{i}", "w").close()
      """, before=first("mkdir small && mount -t tmpfs -o nr_inodes=100 none small"))
plant("blind-sort-full", "sh", r"sort: write failed.*[Nn]o space left", """\
      seq 1 3000000 | TMPDIR=small sort -S 1M -r >/dev/null
      """, before=SMALL)
plant("blind-log-dir-full", "py", r"ValueError: bad shard 22|No space left", """\
      for i in range(4000):
          print("x" * 1000)
      sys.stdout.flush()
      raise ValueError("bad shard 22")
      """, options=["--log-dir", "small"], before=SMALL)
plant("blind-huge-pages", "c", r"mmap: Cannot allocate memory", """\
      if (mmap(NULL, 1UL << 40, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS
               | MAP_HUGETLB, -1, 0) == MAP_FAILED) {
          perror("trainer: mmap");
          exit(1);
      }
      """, top="#include <sys/mman.h>")
