"""plants_other.py: failures of programs in other languages, and of nodes."""

import os
import subprocess
import time

from program import PLANTS, plant, write

# ---- C and C++ ----

plant("c-mutex", "c", r"rank 3.*futex", """\
      static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
      pthread_mutex_lock(&m);
      pthread_mutex_lock(&m);
      """, top="#include <pthread.h>")
plant("c-smash", "c", r"stack smashing detected", """\
      char b[8];
      volatile size_t n = 80;
      memset(b, 1, n);
      """)
plant("c-double-free", "c", r"double free", """\
      char *volatile p = malloc(100);
      free(p);
      free(p);
      """)
plant("c-assert-thread", "c", r"Assertion `.*loss.*' failed", """\
      pthread_t t;
      pthread_create(&t, NULL, check, NULL);
      pthread_join(t, NULL);
      """, top="#include <assert.h>\n#include <pthread.h>\nstatic void *check(void *x)"
      " { int loss = -1; assert(loss > 0); return x; }")
plant("c-sigsys", "c", r"SIGSYS.*(seccomp|system call)", """\
      struct sock_filter f[] = {
      	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sysinfo, 0, 1),
      	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      };
      struct sock_fprog p = {4, f};
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
      syscall(SYS_sysinfo);
      """, top="#include <linux/filter.h>\n#include <linux/seccomp.h>\n"
      "#include <sys/prctl.h>\n#include <sys/syscall.h>")
plant("c-sigill", "c", r"SIGILL.*(illegal instruction|instruction)",
      "__builtin_trap();")
plant("c-exit0-in-handler", "c", r"left early with code 0|exited with code 0", """\
      signal(SIGALRM, (void (*)(int))_exit);
      kill(getpid(), SIGUSR2 * 0);
      struct sigaction a = {.sa_handler = done};
      sigaction(SIGALRM, &a, NULL);
      alarm(1);
      pause();
      """, top="static void done(int s) { _exit(0); }")
plant("c-ignored-error", "c", r"exited with code 255", "exit(-1);")
plant("c-pipe-full", "c", r"rank 3.*(write|pipe)", """\
      int p[2];
      static char b[1 << 20];
      pipe(p);
      write(p[1], b, sizeof(b));
      """)
plant("c-core-limit", "c", r"SIGABRT.*fault|abort", """\
      struct rlimit none = {0, 0};
      setrlimit(RLIMIT_CORE, &none);
      abort();
      """, top="#include <sys/resource.h>")
plant("c-use-after-unmap", "c", r"SIGSEGV.*(address|unmapped|0x)", """\
      char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      munmap(p, 4096);
      p[7] = 1;
      """, top="#include <sys/mman.h>")
plant("c-stack-overflow-loop", "c", r"stack overflow", "deep(1);",
      top="static int deep(int n) { char b[4096]; memset(b, n, sizeof(b));"
      " return deep(n + 1) + b[7]; }")
plant("cxx-throw-int", "cxx", r"terminate called.*int", "throw 42;")
plant("cxx-bad-alloc", "cxx", r"bad_alloc", "new char[1ul << 60];")
plant("cxx-vector-at", "cxx", r"out_of_range.*vector", """\
      std::vector<int> v(3);
      v.at(7) = 1;
      """, top="#include <vector>\n#include <stdexcept>")
plant("cxx-pure-virtual", "cxx", r"pure virtual method called", "B b;",
      top="struct A { A() { g(); } void g() { f(); } virtual void f() = 0; };\n"
      "struct B : A { void f() {} };")
plant("cxx-thread-throw", "cxx", r"terminate called.*no reader", """\
      std::thread t([] { throw std::runtime_error("no reader"); });
      t.join();
      """, top="#include <thread>\n#include <stdexcept>")
plant("cxx-joinable", "cxx", r"terminate called", """\
      std::thread t([] { pause(); });
      """, top="#include <thread>")

# ---- other languages ----

plant("rust-panic", "rust", r"index out of bounds: the len is 3 but the index is 5",
      "exec ./x", top='fn main() { let v = vec![1, 2, 3]; let i = std::env::args()'
      '.count() + 4; println!("{}", v[i]); }\n')
plant("rust-unwrap", "rust", r"called `Result::unwrap\(\)` on an `Err` value",
      "exec ./x", top='fn main() { std::fs::read("no/such/file").unwrap(); }\n')
plant("fortran-bounds", "f90", r"Fortran runtime error: Index '5' of dimension 1",
      "exec ./x", top="program x\n  integer :: a(3), i\n  a = 0\n"
      "  i = 4 + command_argument_count() + 1\n  print *, a(i)\nend program\n")
plant("fortran-file", "f90", r"Fortran runtime error:.*(No such file|Cannot open)",
      "exec ./x", top="program x\n  open(10, file='no/such', status='old')\n"
      "end program\n")
plant("fortran-stop", "f90", r"ERROR STOP.*residual|residual is too large",
      "exec ./x", top="program x\n  error stop 'residual is too large'\n"
      "end program\n")
plant("go-panic", "sh", r"index out of range \[5\] with length 3", """\
cat >&2 <<END
panic: runtime error: index out of range [5] with length 3

goroutine 1 [running]:
main.main()
	/w/main.go:8 +0x1d
exit status 2
END
exit 2
""")
plant("go-deadlock", "sh", r"all goroutines are asleep - deadlock!", """\
cat >&2 <<END
fatal error: all goroutines are asleep - deadlock!

goroutine 1 [chan receive]:
main.main()
	/w/main.go:5 +0x2e
END
exit 2
""")
plant("java", "sh", r"OutOfMemoryError: Java heap space", """\
cat >&2 <<END
Exception in thread "main" java.lang.OutOfMemoryError: Java heap space
	at Main.main(Main.java:5)
END
exit 1
""")
plant("glog", "sh", r"Check failed: loss > 0 \(-1 vs. 0\)", """\
cat >&2 <<END
F1129 03:12:44.123456   812 trainer.cc:42] Check failed: loss > 0 (-1 vs. 0)
*** Check failure stack trace: ***
    @     0x7f0a1c2d3e4f  google::LogMessage::Fail()
    @     0x7f0a1c2d5a60  google::LogMessage::SendToLog()
    @     0x55d0c1a2b3c4  main
    @     0x7f0a1b8c9d90  (unknown)
    @              (nil)  (unknown)
END
kill -ABRT $$
""")
plant("ucx", "sh", r"Transport retry count exceeded", """\
cat >&2 <<END
[h2:812  :0:812] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)
[h2:812  :0:812] ib_mlx5_log.c:177  RC QP 0x28c wqe[3]: SEND s-e [rqpn 0x28d rlid 12]
==== backtrace (tid:    812) ====
 0  /lib/libucs.so.0(ucs_handle_error+0x2e4) [0x7f1c0d0a3fc4]
 1  /lib/libucs.so.0(ucs_fatal_error_message+0xb8) [0x7f1c0d0a0e78]
 2  /lib/ucx/libuct_ib.so.0(uct_ib_mlx5_completion_with_err+0x54a) [0x7f1c0c3c5b2a]
=================================
END
kill -ABRT $$
""")
plant("nccl-warn", "sh", r"unhandled system error|ncclSystemError|Connection refused", """\
cat >&2 <<END
h2:812:830 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.79.0.1<41291> failed : Connection refused
h2:812:830 [0] NCCL INFO misc/socket.cc:561 -> 2
h2:812:830 [0] NCCL INFO transport/net_socket.cc:333 -> 2
train.cu:55: NCCL failure 'unhandled system error (run with NCCL_DEBUG=INFO for details)'
END
exit 1
""")
plant("mkl", "sh", r"MKL FATAL ERROR", """\
echo "INTEL MKL ERROR: libmkl_def.so.2: cannot open shared object file: No such file or directory." >&2
echo "Intel MKL FATAL ERROR: Cannot load libmkl_avx2.so.2 or libmkl_def.so.2." >&2
exit 2
""")
plant("omp", "sh", r"OMP: Error #15", """\
cat >&2 <<END
OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.
OMP: Hint This means that multiple copies of the OpenMP runtime have been linked into the program. That is dangerous, since it can degrade performance or cause incorrect results. For more information, please see http://www.intel.com/software/products/support/.
END
kill -ABRT $$
""")
plant("julia", "sh", r"BoundsError: attempt to access 3-element", """\
cat >&2 <<END
ERROR: LoadError: BoundsError: attempt to access 3-element Vector{Int64} at index [5]
Stacktrace:
 [1] getindex(A::Vector{Int64}, i1::Int64)
   @ Base ./essentials.jl:13
 [2] top-level scope
   @ /w/train.jl:3
in expression starting at /w/train.jl:3
END
exit 1
""")
plant("r-error", "sh", r"Error in solve.default\(m\) : Lapack routine dgesv", """\
cat >&2 <<END
Error in solve.default(m) :
  Lapack routine dgesv: system is exactly singular: U[2,2] = 0
Calls: fit -> solve -> solve.default
Execution halted
END
exit 1
""")
plant("perl", "sh", r"Can't locate Foo/Bar.pm",
      "exec perl -e 'use Foo::Bar;'\n")
plant("node", "sh", r"TypeError: Cannot read properties of undefined", """\
cat >&2 <<END
/w/train.js:3
    console.log(x.y.z);
                    ^

TypeError: Cannot read properties of undefined (reading 'z')
    at Object.<anonymous> (/w/train.js:3:21)
    at Module._compile (node:internal/modules/cjs/loader:1105:14)

Node.js v18.0.0
END
exit 1
""")
plant("sh-unbound", "sh", r"DATA: parameter not set", "set -u\necho $DATA\n")
plant("sh-pipe", "sh", r"exited with code 3", "false | exit 3\n")
plant("sh-timeout", "sh", r"exited with code 124", "timeout 1 sleep 100\nexit $?\n")

# ---- a node that differs ----

plant("node-exec-format", "sh", r"Exec format error", rank="",
      command=["./prog"], files={"h1/prog": "#!/bin/sh\nexec sleep 1000\n",
                                 "h2/prog": b"\x7fELF\x02\x01\x01" + bytes(57)})
plant("node-shebang", "sh", r"/usr/bin/pyton3|interpreter", rank="",
      command=["./prog"], files={"h1/prog": "#!/bin/sh\nexec sleep 1000\n",
                                 "h2/prog": "#!/usr/bin/pyton3\n"})
plant("node-crlf", "sh", r"\\\\r|carriage|CRLF|Windows", rank="",
      command=["./prog"], files={"h1/prog": "#!/bin/sh\nexec sleep 1000\n",
                                 "h2/prog": "#!/bin/sh\r\nexec sleep 1000\r\n"})
plant("node-missing-program", "sh", r"No such file or directory", rank="",
      command=["./prog"], files={"h1/prog": "#!/bin/sh\nexec sleep 1000\n"})


def no_permission(hosts, job):
    os.chmod(job.folder + "/h2/prog", 0o644)


plant("node-permission", "sh", r"Permission denied", rank="", command=["./prog"],
      files={"prog": "#!/bin/sh\nexec sleep 1000\n"}, before=no_permission)
plant("node-loader", "c", r"libmine\.so: cannot open shared object file|libmine\.so",
      rank="[23]", command=["./prog"],
      files={"h1/prog": "#!/bin/sh\nexec sleep 1000\n"})


def missing_library(hosts, job):
    folder = job.folder
    write(folder + "/mine.c", "int mine(void) { return 1; }\n")
    write(folder + "/prog.c", "int mine(void); int main(void) { return mine(); }\n")
    subprocess.run(["gcc", "-shared", "-o", folder + "/libmine.so",
                    folder + "/mine.c"], check=True)
    subprocess.run(["gcc", "-o", folder + "/h2/prog", folder + "/prog.c", "-L", folder,
                    "-lmine"], check=True)
    os.remove(folder + "/libmine.so")


PLANTS[-1].before = missing_library
plant("node-glibc", "sh", r"GLIBC_2\.99' not found", """\
echo "./train: /lib/x86_64-linux-gnu/libc.so.6: version \\`GLIBC_2.99' not found (required by ./train)" >&2
exit 1
""")


def in_host(hosts, job, command, host="h2"):
    hosts.start(host, ["sh", "-c", command], cwd=job.folder + "/" + host).wait()


plant("node-disk-full", "py", r"No space left on device", """\
      with open("checkpoint/step_20", "wb") as f:
          f.write(bytes(10 << 20))
      """, before=lambda hosts, job: in_host(
    hosts, job, "mkdir checkpoint && mount -t tmpfs -o size=1m none checkpoint"))
plant("node-read-only", "py", r"Read-only file system", """\
      open("checkpoint/step_20", "wb")
      """, before=lambda hosts, job: in_host(
    hosts, job, "mkdir checkpoint && mount -t tmpfs -o ro none checkpoint"))


plant("node-fuse", "py", r"rank 3.*file server", """\
      os.kill(int(open("fs.pid").read()), signal.SIGSTOP)
      open("fs/err", "wb").write(b"x")
      os.stat("fs/err")
      """, top="import signal", files={"h2/fs/.keep": ""})


def fuse_before(hosts, job):
    top = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
    os.remove(job.folder + "/h2/fs/.keep")
    job.fs = hosts.start("h2", ["sh", "-c", 'echo $$ >fs.pid; exec python3 "$0" fs err',
                                top + "/e2e/folder_fs.py"],
                         cwd=job.folder + "/h2", stdout=subprocess.PIPE, text=True)
    job.fs.stdout.readline()


def fuse_after(hosts, job):
    in_host(hosts, job, "kill -CONT $(cat fs.pid); kill -9 $(cat fs.pid); umount -l fs")
    job.fs.wait()


PLANTS[-1].before, PLANTS[-1].undo = fuse_before, fuse_after


def end_node(signal_name):
    def after(hosts, job):
        time.sleep(3)
        open(job.folder + "/planted", "w").close()
        in_host(hosts, job, f"for p in $(pgrep -x ddprun); do grep -qz "
                f"'h1:{job.port}' /proc/$p/cmdline && kill -{signal_name} $p; done")
    return after


plant("node-agent-killed", "sh", r"was lost", rank="", fault="exec sleep 1000",
      after=end_node("KILL"), files={"train.sh": "exec sleep 1000"})
plant("node-agent-stopped", "sh", r"was lost.*(silent|heard|connection)", rank="",
      fault="", after=end_node("STOP"), files={"train.sh": "exec sleep 1000"},
      undo=lambda hosts, job: None)


def port_taken(hosts, job):
    job.other = hosts.start("h1", ["python3", "-c", "import socket, sys\n"
                            f"l = socket.create_server(('', {job.port}))\n"
                            "print(1, flush=True)\n"
                            "while True:\n    c = l.accept()[0]\n"
                            "    c.sendall(b'SSH-2.0-OpenSSH_9.2\\r\\n')\n"],
                            stdout=subprocess.PIPE, text=True)
    job.other.stdout.readline()


def end_other(hosts, job):
    job.other.kill()
    job.other.wait()


plant("node-port-taken", "sh", r"(is not a ddprdzv|something else|is used|in use)",
      rank="", host="", before=port_taken, undo=end_other)
