"""plants_unseen.py: wrappers, pipes, file systems that are full, tools and languages that
print a long error. The list and what each line should have were written before a look at
the code that finds the cause. Of 69, one was no failure as planned; of the other 68, 44
were right the first time (65 %), 24 wrong and none silent. One of the 24 was a mistake in
what the line should have (new-bash-crlf). After the mends 64 were right. A ddprun that
starts a container runtime sees neither the /dev/shm of the container (new-shm-container)
nor a log that its short-lived child has written (new-log-file); and a flood of other errors
hides the first (new-logs-after)."""

import os
import subprocess
import time

from plants_other import in_host
from program import plant, write

FAIL = "raise ValueError('bad shard 5')\n"

# ---- file systems ----

SMALL = "mkdir small && mount -t tmpfs -o size=1m none small"
plant("new-log-full", "py", r"ValueError: bad shard 5.*train\.py", """\
      logging.basicConfig(filename="small/train.log")
      for i in range(40):
          logging.error("x" * 50000)
      raise ValueError("bad shard 5")
      """, top="import logging", before=lambda h, j: in_host(h, j, SMALL))
plant("new-logs-after", "py", r"ValueError: bad shard 5.*train\.py", """\
      logging.basicConfig(filename="small/train.log")
      atexit.register(lambda: [logging.error("x" * 50000) for i in range(40)])
      raise ValueError("bad shard 5")
      """, top="import atexit, logging", before=lambda h, j: in_host(h, j, SMALL))
plant("new-cp-full", "sh", r"error writing 'small/checkpoint': No space left on device",
      "set -e\nhead -c 9m /dev/zero >checkpoint\ncp checkpoint small\nexec sleep 1000\n",
      before=lambda h, j: in_host(h, j, SMALL))
plant("new-fclose-full", "c", r"small/step_20: No space left on device", """\
      FILE *f = fopen("small/step_20", "w");
      static char zeros[1100000];
      if (fwrite(zeros, 1, sizeof(zeros), f) < sizeof(zeros) || fclose(f) != 0) {
          perror("small/step_20");
          exit(1);
      }
      """, before=lambda h, j: in_host(h, j, SMALL))
# its /dev/shm is not that of its host
plant("new-shm-container", "sh", r"SIGBUS.*/dev/shm.*full", """\
cat >x.c <<END
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
	int fd = shm_open("/batch", O_RDWR | O_CREAT, 0600);
	ftruncate(fd, 8 << 20);
	char *p = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(p, 1, 8 << 20);
}
END
gcc -g x.c -o x
exec unshare -m sh -c 'mount -t tmpfs -o size=1m none /dev/shm && exec ./x'
""")
plant("new-torch-shm", "torch", r"(shared memory|/dev/shm|Bus error|SIGBUS)",
      "next(iter(torch.utils.data.DataLoader(Big(), num_workers=1)))", top="""\
class Big(torch.utils.data.Dataset):
    def __len__(self):
        return 9

    def __getitem__(self, i):
        return torch.ones(4 << 20)
""", command=["sh", "-c", "[ $RANK = 1 ] || exec $PLANT_PYTHON train.py; exec unshare -m "
              "sh -c 'mount -t tmpfs -o size=1m none /dev/shm && "
              "exec $PLANT_PYTHON train.py'"])

# ---- wrappers and pipes ----

plant("new-tee", "sh", r"ValueError: bad shard 5", """\
exec bash -c 'set -o pipefail; python3 -u fail.py 2>&1 | tee train.log'
""", files={"fail.py": FAIL})
plant("new-stdout-only", "c", r"cannot open mesh\.dat", """\
      printf("step 19 done\\nERROR: cannot open mesh.dat\\n");
      exit(1);
      """)
plant("new-log-file", "sh", r"(bad shard 5|train\.log)",
      "sleep 2\npython3 fail.py >train.log 2>&1\n", files={"fail.py": FAIL})
plant("new-log-file-exec", "sh", r"(bad shard 5|train\.log)",
      "exec python3 fail.py >train.log 2>&1\n",
      files={"fail.py": "import time\ntime.sleep(3)\n" + FAIL})
plant("new-timeout", "py", r"code 124.*(timeout|timed out|time limit)",
      "time.sleep(1000)", command=["sh", "-c", "[ $RANK = 3 ] && exec timeout 6 python3 "
                                   "train.py; exec python3 train.py"])
plant("new-not-executable", "sh", r"run\.sh: Permission denied",
      "chmod 644 run.sh\nexec ./run.sh\n", files={"run.sh": "#!/bin/sh\nsleep 9\n"})
plant("new-bash-crlf", "sh", r"fail\.py\\r|CRLF", "exec bash run.sh\n",
      files={"run.sh": "set -e\r\npython3 fail.py\r\n"})
plant("new-bash-unbound", "sh", r"run\.sh: line 2: DATA: unbound variable",
      "exec bash run.sh\n", files={"run.sh": "set -u\ncp $DATA .\n"})
plant("new-bash-segv", "sh", r"(Segmentation fault|SIGSEGV|code 139)",
      "bash run.sh\n", files={"run.sh": "python3 -c 'import ctypes; "
                              "ctypes.string_at(0)'\ncode=$?\necho done >&2\nexit $code\n"})
plant("new-curl", "sh", r"Could not resolve host: storage\.invalid",
      "set -e\ncurl -O http://storage.invalid/model\n")
plant("new-pythonhome", "sh", r"(init_fs_encoding|No module named 'encodings')",
      "PYTHONHOME=/opt/old exec python3 train.py\n")
plant("new-other-machine", "sh", r"(aarch64|architecture)", rank="", command=["./prog"],
      files={"h1/prog": "#!/bin/sh\nexec sleep 1000\n"},
      before=lambda hosts, job: other_machine(job.folder + "/h2/prog"))
plant("new-other-machine-exec", "sh", r"(Exec format error|aarch64|cannot execute)",
      "exec ./prog\n", before=lambda hosts, job: other_machine(job.folder + "/h2/prog"))


def other_machine(path):
    with open("/bin/true", "rb") as f:
        elf = bytearray(f.read())
    elf[18] = 183
    write(path, bytes(elf))


plant("new-symbol", "sh", r"symbol lookup error: .*undefined symbol: mine_v2",
      "exec ./prog\n", before=lambda hosts, job: old_library(job.folder))


def old_library(folder):
    """libmine.so of an older version, without the function that prog calls."""
    prog, library = folder + "/prog.c", folder + "/h2/libmine.so"
    write(prog, "int mine_v2(void); int main(void) { return mine_v2(); }\n")
    for version in ("mine_v2", "mine_v1"):
        write(folder + "/mine.c", f"int {version}(void) {{ return 1; }}\n")
        subprocess.run(["gcc", "-shared", "-o", library, folder + "/mine.c"], check=True)
        if version == "mine_v2":
            subprocess.run(["gcc", "-o", folder + "/h2/prog", prog, library,
                            "-Wl,-rpath,$ORIGIN", "-Wl,-z,lazy"], check=True)


# ---- threads ----

plant("new-libgomp", "sh", r"libgomp: Thread creation failed", """\
cat >x.c <<END
int main(void)
{
	int n = 0;
	_Pragma("omp parallel num_threads(8) reduction(+:n)")
	n++;
	return n != 8;
}
END
gcc -fopenmp x.c -o x
exec prlimit --nproc=1 setpriv --reuid 65533 --clear-groups ./x
""")
plant("new-pids-cgroup", "cxx", r"terminate called.*Resource temporarily unavailable", """\
      mkdir("/sys/fs/cgroup/pids/plant", 0755);
      FILE *f = fopen("/sys/fs/cgroup/pids/plant/pids.max", "w");
      fputs("4", f);
      fclose(f);
      f = fopen("/sys/fs/cgroup/pids/plant/cgroup.procs", "w");
      fputs("0", f);
      fclose(f);
      for (int i = 0; i < 8; i++)
          new std::thread([] { pause(); });
      """, top="#include <sys/stat.h>\n#include <thread>",
      undo=lambda hosts, job: os.rmdir("/sys/fs/cgroup/pids/plant"))
plant("new-two-locks", "c", r"rank 3.*(futex|lock|thread)", """\
      pthread_t t;
      pthread_create(&t, NULL, other, NULL);
      pthread_mutex_lock(&a);
      usleep(100000);
      pthread_mutex_lock(&b);
      """, top="""\
#include <pthread.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static void *other(void *x)
{
	pthread_mutex_lock(&b);
	usleep(100000);
	pthread_mutex_lock(&a);
	return x;
}""")
plant("new-thread-then-exit", "py", r"ValueError: bad block 9", """\
      def load():
          raise ValueError("bad block 9")
      t = threading.Thread(target=load)
      t.start()
      t.join()
      sys.exit(1)
      """, top="import threading")

# ---- Python ----

plant("new-atexit-raises", "py", r"ValueError: bad shard 8", """\
      def late():
          raise RuntimeError("cannot close the writer")
      atexit.register(late)
      raise ValueError("bad shard 8")
      """, top="import atexit")
plant("new-del-raises", "py", r"ValueError: bad shard 9", """\
      global keep
      class Reader:
          def __del__(self):
              self.file.close()
      keep = Reader()
      raise ValueError("bad shard 9")
      """)
plant("new-group-of-two", "py", r"(2 shards failed|bad shard 3)", """\
      raise ExceptionGroup("2 shards failed", [
          ValueError("bad shard 3"),
          ExceptionGroup("reading", [OSError(5, "Input/output error")])])
      """)
plant("new-source-encoding", "py", r"SyntaxError: .*(Non-UTF-8|utf-8)", rank="[23]",
      files={"h2/train.py": b"import os\nname = 'K\xe4se'\n"})
plant("new-tabs", "py", r"TabError: inconsistent use of tabs", rank="[23]",
      files={"h2/train.py": "if True:\n        x = 1\n\ty = 2\n"})
plant("new-pool-worker-killed", "py", r"rank 3.*(futex|lock|sleeps|child)", """\
      with multiprocessing.get_context("fork").Pool(1) as pool:
          pool.map(die, [7])
      """, top="import multiprocessing\n\n\ndef die(n):\n    os.kill(os.getpid(), 9)\n")
plant("new-error-then-info", "py", r"validation loss is inf", """\
      logging.basicConfig(level=logging.INFO,
                          format="%(asctime)s %(levelname)s %(name)s: %(message)s")
      logging.error("validation loss is inf, stopping")
      logging.info("closing 4 readers")
      logging.info("goodbye")
      sys.exit(4)
      """, top="import logging")
plant("new-metrics-port", "py", r"OSError: .*Address already in use", rank="[0123]",
      host="h", files={"train.py": """\
import http.server, os, time
open(os.environ["PLANTED"], "a").close()
s = http.server.HTTPServer(("", 9400), None)
time.sleep(1000)
"""})
plant("new-clock-stands", "py", r"rank 3.*sleeps", "time.sleep(1000)",
      command=["sh", "-c", "[ $RANK = 3 ] && exec faketime '2020-01-01 00:00:00' python3 "
               "train.py; exec python3 train.py"])
plant("new-posix-lock", "py", r"rank 3.*(fcntl|file lock|lock on)", """\
      f = open("lock", "w")
      r, w = os.pipe()
      if os.fork() == 0:
          fcntl.lockf(f, fcntl.LOCK_EX)
          os.write(w, b"1")
          time.sleep(1000)
      os.read(r, 1)
      fcntl.lockf(f, fcntl.LOCK_EX)
      """, top="import fcntl")
plant("new-inotify", "c", r"rank 3.*inotify", """\
      char b[4096];
      int fd = inotify_init1(0);
      inotify_add_watch(fd, ".", IN_CLOSE_WRITE | IN_MOVED_TO);
      while (access("flag", F_OK) != 0)
          read(fd, b, sizeof(b));
      """, top="#include <sys/inotify.h>")


def stop_rank_3(hosts, job):
    while not os.path.exists(job.folder + "/h2/rank_3.pid"):
        time.sleep(0.2)
    in_host(hosts, job, "kill -STOP $(cat rank_3.pid)")


plant("new-operator-stops", "py", r"rank 3.*SIGSTOP", """\
      with open("pid", "w") as f:
          f.write(str(os.getpid()))
      os.rename("pid", "rank_3.pid")
      """, after=stop_rank_3)

# ---- C, C++, Fortran, Rust ----

plant("new-dns", "c", r"trainer: storage\.invalid: .*(not known|[Ff]ailure)", """\
      struct addrinfo *a;
      int rc = getaddrinfo("storage.invalid", "80", NULL, &a);
      fprintf(stderr, "trainer: storage.invalid: %s\\n", gai_strerror(rc));
      exit(1);
      """, top="#include <sys/types.h>\n#include <netdb.h>\n"
      "const char *gai_strerror(int);")
plant("new-fortify", "sh", r"SIGABRT.*buffer overflow detected", """\
cat >x.c <<END
#include <string.h>
char b[8];
int main(int argc, char **argv) { strcpy(b, argv[1]); return b[0]; }
END
gcc -g -O2 -D_FORTIFY_SOURCE=2 x.c -o x
exec ./x 12345678901234567890
""")
SANITIZED = """\
cat >x.c <<END
%s
END
gcc -g -fsanitize=%s x.c -o x
exec ./x
"""
plant("new-asan", "sh", r"heap-buffer-overflow", SANITIZED % ("""\
#include <stdlib.h>
int main(int argc, char **argv) { char *p = malloc(8); return p[8 + argc]; }""", "address"))
plant("new-ubsan", "sh", r"x\.c:1:\d+: runtime error: signed integer overflow", SANITIZED % (
    "int main(int argc, char **argv) { return argc + 2147483647; }",
    "undefined -fno-sanitize-recover=all"))
plant("new-tsan", "sh", r"ThreadSanitizer: data race", SANITIZED % ("""\
#include <pthread.h>
int x;
static void *f(void *p) { x++; return p; }
int main(void)
{
	pthread_t a, b;
	pthread_create(&a, 0, f, 0);
	pthread_create(&b, 0, f, 0);
	pthread_join(a, 0);
	pthread_join(b, 0);
	return 0;
}""", "thread"))
plant("new-fortran-allocate", "f90", r"(Cannot allocate memory|Error allocating|exceed)",
      "exec ./x", top="program x\n  real, allocatable :: a(:)\n"
      "  allocate(a(1000000000000000_8))\n  a(7) = 1\n  print *, a(7)\nend program\n")
plant("new-fortran-stop-code", "f90", r"ERROR STOP 4", "exec ./x",
      top="program x\n  real :: a\n  a = 0\n  print *, 1 / a\n  error stop 4\n"
      "end program\n")
plant("new-rust-thread", "rust", r"bad shard 7", "exec ./x", top="""\
fn main() {
    std::thread::Builder::new().name("loader".into())
        .spawn(|| { panic!("bad shard 7") }).unwrap().join().unwrap();
}
""")
plant("new-anyhow", "sh", r"cannot read the configuration", """\
cat >&2 <<END
Error: cannot read the configuration

Caused by:
    0: cannot open train.toml
    1: No such file or directory (os error 2)
END
exit 1
""")

# ---- texts of languages, libraries and tools ----

plant("new-go-log", "sh", r"lookup storage.*no such host", """\
cat >&2 <<END
2026/11/30 03:12:44 loading the model
2026/11/30 03:12:45 Get "https://storage.cluster/model": dial tcp: lookup storage.cluster on 10.96.0.10:53: no such host
END
exit 1
""")
plant("new-logfmt", "sh", r"cannot open shard", """\
cat >&2 <<END
time=2026-11-30T03:12:44.123Z level=INFO msg=starting rank=3
time=2026-11-30T03:12:45.123Z level=ERROR msg="cannot open shard" err="open /data/7: permission denied"
time=2026-11-30T03:12:45.124Z level=INFO msg="shutting down"
END
exit 1
""")
plant("new-java-cause", "sh", r"(cannot start the trainer|UnknownHostException: store)", """\
cat >&2 <<END
Exception in thread "main" java.lang.RuntimeException: cannot start the trainer
	at com.acme.Trainer.main(Trainer.java:12)
Caused by: java.net.UnknownHostException: store
	at java.base/java.net.InetAddress.getAllByName(InetAddress.java:1519)
	at com.acme.Trainer.main(Trainer.java:10)
	... 3 more
END
exit 1
""")
plant("new-java-crash", "sh", r"(SIGSEGV \(0xb\)|libjnimine\.so|fatal error has been)", """\
cat <<END
#
# A fatal error has been detected by the Java Runtime Environment:
#
#  SIGSEGV (0xb) at pc=0x00007f3f0d5a1119, pid=812, tid=813
#
# JRE version: OpenJDK Runtime Environment (17.0.9+9) (build 17.0.9+9-Debian-1deb12u1)
# Problematic frame:
# C  [libjnimine.so+0x1119]  Java_Mine_step+0x10
#
# An error report file with more information is saved as:
# /w/hs_err_pid812.log
#
# If you would like to submit a bug report, please visit:
#   https://bugs.debian.org/openjdk-17
#
END
kill -ABRT $$
""")
plant("new-julia-task", "sh", r"(TaskFailedException|DomainError with -1\.0)", """\
cat >&2 <<END
ERROR: LoadError: TaskFailedException

    nested task error: DomainError with -1.0:
    sqrt was called with a negative real argument but will only return a complex result if called with a complex argument. Try sqrt(Complex(x)).
    Stacktrace:
     [1] throw_complex_domainerror(f::Symbol, x::Float64)
       @ Base.Math ./math.jl:33
Stacktrace:
 [1] wait
   @ ./task.jl:345 [inlined]
in expression starting at /w/train.jl:3
END
exit 1
""")
plant("new-ocaml", "sh", r'exception (Stdlib\.)?Failure\("bad shard 7"\)', """\
cat >&2 <<END
Fatal error: exception Failure("bad shard 7")
Raised at Stdlib.failwith in file "stdlib.ml", line 29, characters 17-33
Called from Dune__exe__Train in file "bin/train.ml", line 3, characters 9-20
END
exit 2
""")
plant("new-dotnet", "sh", r"FileNotFoundException: Could not find file '/data/7'", """\
cat >&2 <<END
Unhandled exception. System.IO.FileNotFoundException: Could not find file '/data/7'.
File name: '/data/7'
   at Microsoft.Win32.SafeHandles.SafeFileHandle.Open(String fullPath, FileMode mode)
   at Program.Main(String[] args) in /w/Program.cs:line 3
END
kill -ABRT $$
""")
plant("new-node-reason", "sh", r"bad shard 7", """\
exec node -e 'Promise.reject("bad shard 7"); setTimeout(() => 1, 1000)'
""")
plant("new-perl-confess", "sh", r"bad shard 7 at ", """\
exec perl -MCarp -e 'sub load { confess "bad shard $_[0]" } sub all { load(7) } all()'
""")
plant("new-hdf5", "sh", r"(unable to open file|mesh\.h5)", """\
cat >&2 <<END
HDF5-DIAG: Error detected in HDF5 (1.10.8) thread 1:
  #000: ../../../src/H5F.c line 429 in H5Fopen(): unable to open file
    major: File accessibilty
    minor: Unable to open file
  #001: ../../../src/H5Fint.c line 1803 in H5F_open(): unable to open file: time = Mon Nov 30 03:12:44 2026
, name = 'mesh.h5', tent_flags = 0
    major: File accessibilty
    minor: Unable to open file
  #002: ../../../src/H5FDsec2.c line 352 in H5FD_sec2_open(): unable to open file: name = 'mesh.h5', errno = 2, error message = 'No such file or directory', flags = 0, o_flags = 0
    major: File accessibilty
    minor: Unable to open file
END
exit 1
""")
plant("new-petsc", "sh", r"Zero pivot in LU factorization", """\
cat >&2 <<END
[3]PETSC ERROR: --------------------- Error Message --------------------------------------------------------------
[3]PETSC ERROR: Zero pivot in LU factorization: https://petsc.org/release/faq/#zeropivot
[3]PETSC ERROR: Zero pivot row 7 value 0. tolerance 2.22045e-14
[3]PETSC ERROR: See https://petsc.org/release/faq/ for trouble shooting.
[3]PETSC ERROR: Petsc Release Version 3.18.1, Oct 26, 2022
[3]PETSC ERROR: ./solver on a  named h2 by user Mon Nov 30 03:12:44 2026
[3]PETSC ERROR: #1 MatPivotCheck_none() at ./include/petsc/private/matimpl.h:802
[3]PETSC ERROR: #2 PCSetUp_LU() at ./src/ksp/pc/impls/factor/lu/lu.c:135
[3]PETSC ERROR: #3 main() at solver.c:88
[3]PETSC ERROR: No PETSc Option Table entries
[3]PETSC ERROR: ----------------End of Error Message -------send entire error message to petsc-maint@mcs.anl.gov----------
END
exit 71
""")
plant("new-openfoam", "sh", r'cannot find file "?/w/constant', """\
cat >&2 <<END


--> FOAM FATAL ERROR: (openfoam-2306)
cannot find file "/w/constant/polyMesh/points"

    From virtual Foam::autoPtr<Foam::ISstream> Foam::fileOperations::uncollatedFileOperation::readStream(Foam::regIOobject&, const Foam::fileName&, const Foam::word&, bool) const
    in file global/fileOperations/uncollatedFileOperation/uncollatedFileOperation.C at line 561.

FOAM parallel run exiting

END
exit 1
""")
plant("new-lammps", "sh", r"Lost atoms: original 4000", """\
cat <<END
Step          Temp          E_pair
       100   1.6510577     -4.7567887
ERROR on proc 3: Lost atoms: original 4000 current 3998 (../thermo.cpp:494)
Last command: run             1000
END
exit 1
""")
plant("new-gromacs", "sh", r"There is no domain decomposition for 7 ranks", """\
cat >&2 <<END

-------------------------------------------------------
Program:     gmx mdrun, version 2022.5-Debian_2022.5_2
Source file: src/gromacs/domdec/domdec.cpp (line 2240)
MPI rank:    3 (out of 4)

Fatal error:
There is no domain decomposition for 7 ranks that is compatible with the given
box and a minimum cell size of 1.3 nm
Change the number of ranks or mdrun option -rdd or -dds

For more information and tips for troubleshooting, please check the GROMACS
website at http://www.gromacs.org/Documentation/Errors
-------------------------------------------------------
END
exit 1
""")
plant("new-lmod", "sh", r'unknown: "cuda/12\.9"|detected the following error', """\
cat >&2 <<END
Lmod has detected the following error: The following module(s) are unknown: "cuda/12.9"

Please check the spelling or version number. Also try "module spider ..."
It is also possible your cache file is out-of-date; it may help to try:
  \\$ module --ignore_cache load "cuda/12.9"

Also make sure that all modulefiles written in TCL start with the string #%Module



END
exit 1
""")

# ---- MPI ----

plant("new-mpi-comm-null", "mpi", r"[Ii]nvalid communicator", "MPI_Barrier(MPI_COMM_NULL);")
plant("new-mpi-bad-buffer", "mpi", r"SIGSEGV.*(null pointer|address 0x10)", """\
      MPI_Bcast((void *)16, 100, MPI_INT, 3, MPI_COMM_WORLD);
      """)
plant("new-ompi-abort", "ompi", r"(MPI_ABORT was invoked|code 9)",
      "MPI_Abort(MPI_COMM_WORLD, 9);")

# ---- PyTorch ----

DDP = """\
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
open(os.environ["PLANTED"], "a").close()
model = torch.nn.ModuleList([torch.nn.Linear(4, 4) for i in range({layers})])
model.forward = lambda x, i: model[i](x)
ddp = torch.nn.parallel.DistributedDataParallel(model)
for step in range(9):
    ddp(torch.ones(2, 4), {index}).sum().backward()
"""
plant("new-torch-unused", "torch", r"Expected to have finished reduction in the prior "
      "iteration", rank="[01]", host="h",
      files={"train.py": DDP.format(layers=2, index=0)})
plant("new-torch-extra-parameter", "torch", r"(same model across all ranks|inconsistent)",
      rank="[01]", host="h", files={"train.py": DDP.format(layers="1 + rank", index=0)})
plant("new-torch-detail", "torch", r"(mismatch between collectives|BROADCAST)",
      "dist.broadcast(data, 0)", rank="[01]", host="h",
      env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "TIMEOUT": "20"})
plant("new-torch-gather-sizes", "torch", r"rank [01]", """\
      dist.all_gather([torch.ones(7), torch.ones(7)], torch.ones(7))
      """, rank="[01]", host="h", env={"TIMEOUT": "20"})
plant("new-torch-index", "torch", r"IndexError: index out of range in self", """\
      torch.nn.Embedding(10, 3)(torch.tensor([11]))
      """)
