"""plants_operator.py: what operators of clusters meet: limits, files that change or are
damaged, programs that hang on their way out, and ranks that poll in MPI."""

from program import plant

# ---- limits of a user, with real refusals of the kernel ----

NOBODY = """\
      resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
      os.setresgid(65534, 65534, 65534)
      os.setresuid(65534, 65534, 65534)
      """
plant("op-nproc-fork", "py", r"BlockingIOError: .*Resource temporarily unavailable",
      NOBODY + "os.fork()\n", top="import resource")
plant("op-nproc-thread", "py", r"RuntimeError: can't start new thread",
      NOBODY + "threading.Thread(target=print).start()\n",
      top="import resource\nimport threading")
plant("op-rlimit-as", "c", r"SIGSEGV.*null pointer.*train\.c", """\
      struct rlimit r = {1 << 28, 1 << 28};
      setrlimit(RLIMIT_AS, &r);
      char *volatile p = malloc(1ul << 30);
      memset(p, 1, 4096);
      """, top="#include <sys/resource.h>")
plant("op-memlock", "c", r"Cannot allocate memory", """\
      struct rlimit r = {4096, 4096};
      setrlimit(RLIMIT_MEMLOCK, &r);
      setresuid(65534, 65534, 65534);
      if (mlock(malloc(1 << 20), 1 << 20) < 0) {
          perror("mlock");
          exit(1);
      }
      """, top="#define _GNU_SOURCE\n#include <sys/resource.h>\n#include <sys/mman.h>\n"
      "int setresuid(unsigned, unsigned, unsigned);")

# ---- files ----

plant("op-quota", "py", r"Disk quota exceeded.*ckpt", """\
      raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), "ckpt/step_20.pt")
      """, top="import errno")
plant("op-pickle-truncated", "py", r"UnpicklingError: pickle data was truncated", """\
      text = pickle.dumps(list(range(1000)))
      pickle.loads(text[:100])
      """, top="import pickle")
plant("op-zip", "py", r"BadZipFile: File is not a zip file", """\
      open("ckpt.npz", "wb").write(bytes(100))
      zipfile.ZipFile("ckpt.npz")
      """, top="import zipfile")
plant("op-gzip", "py", r"EOFError: Compressed file ended", """\
      text = gzip.compress(os.urandom(1000))
      open("shard.gz", "wb").write(text[:500])
      gzip.open("shard.gz").read()
      """, top="import gzip")
plant("op-elf-short", "py", r"ImportError: .*m\.so: (file too short|invalid ELF header)",
      """\
      open("m.so", "wb").write(b"not a library, but long enough to have a header" * 9)
      sys.path.insert(0, ".")
      import m
      """)
plant("op-undefined-symbol", "py", r"undefined symbol: no_such_function", """\
      open("x.c", "w").write("int no_such_function(void); int f(void) { return no_such_function(); }")
      os.system("gcc -shared -fPIC -o libx.so x.c")
      ctypes.CDLL("./libx.so", mode=os.RTLD_NOW)
      """, top="import ctypes")
plant("op-library-truncated", "c", r"SIGBUS.*libx\.so", """\
      system("printf 'char pad[1<<20]={1}; int f(int i) { return pad[i]; }' >x.c && gcc -shared -fPIC -o libx.so x.c");
      void *x = dlopen("./libx.so", RTLD_LAZY);
      int (*f)(int) = (int (*)(int))dlsym(x, "f");
      truncate("libx.so", 0);
      f(700000);
      """, top="#include <dlfcn.h>")
plant("op-binary-deleted", "c", r"SIGSEGV.*null pointer", """\
      unlink("train");
      *(volatile int *)0 = 1;
      """)
plant("op-own-preload", "sh", r"license server does not answer", """\
echo '#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void f(void) { fputs("license server does not answer", stderr); exit(3); }' >x.c
gcc -shared -fPIC -o x.so x.c
exec env LD_PRELOAD=$PWD/x.so sleep 1000
""")
plant("op-env-file", "sh", r"env\.sh: (No such file|not found)|cannot open .*env\.sh",
      ". ./env.sh\n")
plant("op-sh-syntax", "sh", r"[Ss]yntax error.*unexpected", "sh -c 'if true; then; fi'\n")
plant("op-cp", "sh", r"cannot stat '/data/train\.tar'", """\
set -e
cp /data/train.tar .
exec sleep 1000
""")
plant("op-tar", "sh", r"(not look like a tar archive|gzip: stdin: not in gzip format|Error is not recoverable)", """\
set -e
echo damaged >x.tar.gz
tar xzf x.tar.gz
exec sleep 1000
""")

# ---- the end of a program ----

plant("op-atexit", "py", r"rank 3.*sleeps", """\
      atexit.register(time.sleep, 1000)
      sys.exit(0)
      """, top="import atexit")
plant("op-destructor", "cxx", r"rank 3.*(futex|lock)", "exit(0);", top="""\
#include <mutex>
struct deadlock {
	std::mutex m;
	~deadlock() { m.lock(); m.lock(); }
} at_exit;""")
plant("op-thread-not-joined", "py", r"rank 3.*(sleeps|futex|thread)", """\
      threading.Thread(target=time.sleep, args=(1000,)).start()
      sys.exit(0)
      """, top="import threading")
plant("op-daemonizes", "py", r"(left early|exited) with code 0", """\
      if os.fork():
          os._exit(0)
      time.sleep(1000)
      """)
plant("op-main-thread-ends", "c", r"rank 3", """\
      pthread_t t;
      pthread_create(&t, NULL, (void *(*)(void *))sleep, (void *)1000);
      pthread_exit(NULL);
      """, top="#include <pthread.h>")
plant("op-finalizes-early", "py", r"rank 3.*(ddp_finalize|left early)", """\
      world.finalize()
      time.sleep(1000)
      """)
plant("op-closes-stderr", "py", r"exited with code 1", """\
      os.close(2)
      raise ValueError("nobody reads this")
      """)
plant("op-closes-all", "py", r"Bad file descriptor", """\
      os.closerange(3, 4096)
      open("/dev/null").close()
      os.write(7, b"x")
      """)
plant("op-execs", "py", r"rank 3.*sleeps", 'os.execvp("sleep", ["sleep", "1000"])')

# ---- what waits ----

plant("op-signal-pause", "py", r"rank 3.*(signal|sleeps)", "signal.pause()",
      top="import signal")
plant("op-epoll", "py", r"rank 3.*(poll|sleeps)", "select.epoll().poll()",
      top="import select")
plant("op-nested-pool", "py", r"rank 3.*(futex|lock|thread)", """\
      pool = concurrent.futures.ThreadPoolExecutor(1)
      pool.submit(lambda: pool.submit(int).result()).result()
      """, top="import concurrent.futures")
plant("op-queue-of-child", "py", r"rank 3.*(pipe|child|process)", """\
      q = multiprocessing.Queue()
      multiprocessing.Process(target=os._exit, args=(9,)).start()
      q.get()
      """, top="import multiprocessing")
plant("op-connect-hangs", "py", r"rank 3.*connect", """\
      s = socket.socket()
      s.bind(("127.0.0.1", 0))
      s.listen(0)
      keep = [socket.socket() for i in range(4)]
      for c in keep[:3]:
          c.setblocking(False)
          c.connect_ex(s.getsockname())
      keep[3].connect(s.getsockname())
      """, top="import socket")
plant("op-vfork", "c", r"rank 3.*(child|vfork)", """\
      if (vfork() == 0) {
          char *argv[] = {"sleep", "1000", NULL};
          sleep(1000);
          _exit(0);
      }
      """)
plant("op-semop", "c", r"rank 3.*semop", """\
      int id = semget(IPC_PRIVATE, 1, 0600);
      struct sembuf op = {0, -1, 0};
      semop(id, &op, 1);
      """, top="#define __USE_GNU 1\n#include <sys/ipc.h>\n#include <sys/sem.h>")
plant("op-debugger", "c", r"rank 3.*debugger", """\
      pid_t parent = getpid();
      if (fork() == 0) {
          ptrace(PTRACE_SEIZE, parent, 0, 0);
          ptrace(PTRACE_INTERRUPT, parent, 0, 0);
          sleep(1000);
      }
      sleep(1000);
      """, top="#include <sys/ptrace.h>")
plant("op-spinlock", "c", r"rank 3.*computes", """\
      static volatile int lock = 1;
      while (__sync_lock_test_and_set(&lock, 1))
          ;
      """)

# ---- exceptions ----

plant("op-noexcept", "cxx", r"terminate called.*cannot load shard 7", "f();", top="""\
#include <stdexcept>
static void f() noexcept { throw std::runtime_error("cannot load shard 7"); }""")
plant("op-unlock", "cxx", r"terminate called.*Operation not permitted", """\
      std::unique_lock<std::mutex> l;
      l.unlock();
      """, top="#include <mutex>")
plant("op-variant", "cxx", r"terminate called.*bad_variant_access", """\
      std::variant<int, float> v = 1;
      std::get<float>(v) = 2;
      """, top="#include <variant>")
plant("op-async-timeout", "py", r"TimeoutError", """\
      asyncio.run(asyncio.wait_for(asyncio.sleep(9), 0.1))
      """, top="import asyncio")
plant("op-json-hook", "py", r"bad shard 7", """\
      def hook(kind, value, trace):
          print(json.dumps({"level": "error", "msg": str(value)}), file=sys.stderr)
      sys.excepthook = hook
      raise ValueError("bad shard 7")
      """, top="import json")
plant("op-command-killed", "py", r"CalledProcessError: .*died with .*SIGKILL", """\
      subprocess.run(["sh", "-c", "kill -9 $$"], check=True)
      """, top="import subprocess")
plant("op-abort", "py", r"SIGABRT.*train\.py:\d+", "os.abort()")
plant("op-yaml", "py", r"ScannerError: mapping values are not allowed here", """\
      class ScannerError(Exception):
          pass
      raise ScannerError('mapping values are not allowed here\\n  in "config.yaml", line 3, column 9')
      """)
plant("op-no-route", "py", r"OSError: .*(No route to host|Network is unreachable)", """\
      socket.create_connection(("10.79.0.77", 80))
      """, top="import socket")
plant("op-certificate", "py", r"CERTIFICATE_VERIFY_FAILED", """\
      raise ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate is not yet valid (_ssl.c:1006)")
      """, top="import ssl")
plant("op-broken-pipe", "py", r"BrokenPipeError: .*Broken pipe", """\
      r, w = os.pipe()
      os.close(r)
      os.write(w, b"x")
      """)
plant("op-nan", "py", r"FloatingPointError: loss is nan at step 20", """\
      raise FloatingPointError("loss is nan at step 20")
      """)

# ---- calls that differ ----

plant("op-other-type", "py", r"(another call|all ranks must|differ)", """\
      world.all_reduce(array.array("d", [1.0] * 1000))
      """)
plant("op-other-call", "py", r"(another call|all ranks must|differ)", "world.barrier()")
plant("op-skips-one", "py", r"rank 3", "time.sleep(1000) if step else None")

# ---- MPI, which polls ----

plant("op-mpi-loop", "mpi", r"rank 3.*computes", "for (;;)\n    ;")
plant("op-mpi-recv", "mpi", r"rank 3.*MPI_Recv", """\
      int x;
      MPI_Recv(&x, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      """)
plant("op-mpi-other", "mpi", r"rank 3.*MPI_Win_create", """\
      int x = 1;
      MPI_Win w;
      MPI_Win_create(&x, 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w);
      """)
plant("op-mpi-bad-rank", "mpi", r"[Ii]nvalid rank|MPI_ERR_RANK", """\
      int x = 1;
      MPI_Send(&x, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
      """)
plant("op-mpi-finalize", "mpi", r"rank 3.*MPI_Finalize|(rank 3.*code 0)", """\
      MPI_Finalize();
      _exit(0);
      """)
plant("op-mpi-pipe", "mpi", r"rank 3.*pipe", """\
      int p[2];
      char c;
      pipe(p);
      read(p[0], &c, 1);
      """)
plant("op-ompi-sleep", "ompi", r"rank 3.*(sleeps|signal)", "pause();")
plant("op-ompi-loop", "ompi", r"rank 3.*computes", "for (;;)\n    ;")
plant("op-ompi-recv", "ompi", r"rank 3.*MPI_Recv", """\
      int x;
      MPI_Recv(&x, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      """)
plant("op-ompi-exit", "ompi", r"rank 3.*(code 0|without MPI_Finalize)", "_exit(0);")
