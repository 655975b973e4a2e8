"""python_state.py: prints, a line each, what a Python program can know about the
process that it runs in, so that a test can compare two ways to start it. What
differs between any two runs is left out, or compared with what it must be.
"""
import atexit
import gc
import os
import resource
import signal
import sys


def show(name, value):
    print("%s: %s" % (name, value))


def stream(f):
    raw = getattr(f.buffer, "raw", f.buffer)
    return (f.name, f.mode, f.encoding, f.errors, f.line_buffering,
            f.write_through, f.newlines, type(f.buffer).__name__, raw.name,
            raw.mode, raw.closefd, raw.isatty(), f.fileno(), f.seekable())


def descriptors():
    # listdir's own is closed by now; libffi keeps itself open once ctypes is used
    return [n for n in map(int, os.listdir("/proc/self/fd"))
            if os.path.exists("/proc/self/fd/%d" % n) and
            "/libffi." not in os.readlink("/proc/self/fd/%d" % n)]


def status(*names):
    with open("/proc/self/status") as f:
        return [line.split()[:2] for line in f if line.split(":")[0] in names]


main = sys.modules["__main__"]
show("argv", sys.argv)
show("orig_argv", getattr(sys, "orig_argv", None))
show("path", sys.path)
show("flags", sys.flags)
show("executable", (sys.executable, sys.prefix, sys.base_prefix))
show("options", (sys.warnoptions, sys._xoptions, sys.dont_write_bytecode))
show("main", sorted(vars(main)))
show("main's", [(n, vars(main).get(n)) for n in (
    "__name__", "__file__", "__cached__", "__package__", "__doc__")])
show("spec", getattr(__spec__, "name", None))
show("loader", (type(__loader__).__name__, getattr(__loader__, "path", None)))
show("is main", globals() is vars(main))
for f in sys.stdin, sys.stdout, sys.stderr:
    show("stream", stream(f))
show("original streams", (sys.stdin is sys.__stdin__,
                          sys.stdout is sys.__stdout__,
                          sys.stderr is sys.__stderr__))
show("handlers", [(n, str(signal.getsignal(n))) for n in range(1, 32)])
show("masks", status("SigBlk", "SigIgn", "SigCgt", "Threads", "Umask"))
show("environ", sorted(k for k in os.environ if k != "LINES"))
show("same environ", dict(os.environ) == {
    os.fsdecode(k): os.fsdecode(v) for k, v in os.environb.items()})
with os.popen("env | cut -d= -f1 | sort") as f:
    show("C's environ", f.read().split())
show("rank", [os.environ[n] for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE")])
show("folder", os.getcwd())
show("descriptors", descriptors())
show("limits", [resource.getrlimit(n) for n in (
    resource.RLIMIT_NOFILE, resource.RLIMIT_STACK, resource.RLIMIT_CORE)])
show("cpus", sorted(os.sched_getaffinity(0)))
show("leads its group", os.getpgrp() == os.getpid())
show("session", os.getsid(0) == os.getsid(os.getppid()))
with open("/proc/%d/comm" % os.getppid()) as f:
    show("parent", f.read().strip())
with open("/proc/self/comm") as f:
    show("comm", f.read().strip())
with open("/proc/self/cmdline") as f:
    show("cmdline", f.read().split("\0"))
show("gc", (gc.isenabled(), gc.get_threshold()))
show("excepthook", sys.excepthook is sys.__excepthook__)
atexit.register(print, "atexit: last of all")
