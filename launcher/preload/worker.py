"""worker.py: turns a fork of the template process into a worker: restores what a
fresh process has, and runs the program as `python3 SCRIPT` or `python3 -m MODULE`
would. The third part of the program that imports.py describes.
"""
import io
import os
import sys

PROGRAM = "<ddprun --preload>"  # the name of this text in tracebacks


# ---- what a fresh process has ----

def place_descriptors(fds, keep, pipes):
    """Makes fds 0, 1, 2 and keep. Returns pipes, which may have other numbers."""
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number, inheritable=True)
        os.close(fd)
    if keep < 0:
        return pipes
    pipes = [os.dup(fd) if fd == keep else fd for fd in pipes]
    if fds[3] == keep:
        os.set_inheritable(keep, True)
    else:
        os.dup2(fds[3], keep, inheritable=True)
        os.close(fds[3])
    return pipes


def renew_stream(stream, fd, mode):
    """Makes of the same object what the interpreter makes of the descriptor:
    modules may refer to it."""
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    if not isinstance(stream, io.TextIOWrapper) or \
            not isinstance(raw, io.FileIO) or raw.fileno() != fd:
        return  # an import has replaced it
    encoding, errors = stream.encoding, stream.errors
    through, name = stream.write_through, stream.name
    raw.__init__(fd, mode, closefd=False)
    raw.name = name
    if buffer is not raw:
        buffer.__init__(raw)
    by_line = not through and mode == "wb" and (raw.isatty() or fd == 2)
    stream.__init__(buffer, encoding, errors, "\n", by_line, through)
    stream.mode = mode[0]


def renew_environ(environ):
    """os.environ, and C's, become that."""
    for name in list(os.environb):
        if name not in environ:
            del os.environb[name]
    for name, value in environ.items():
        if name and os.environb.get(name) != value:
            os.environb[name] = value
    posix = sys.modules["posix"]
    posix.environ.clear()
    posix.environ.update(environ)


def show_in_proc(libc, argv, environ):
    """Makes /proc/PID/cmdline and environ the worker's, for ps, pgrep and others.
    Kernels without checkpoint and restore refuse."""
    import ctypes
    PR_SET_MM, PR_SET_MM_MAP = 35, 14
    with open("/proc/self/stat") as f:
        # the fields after the name's bracket: the first is number 3
        number = [int(n) if n.isdigit() else 0
                  for n in f.read().rpartition(")")[2].split()]
    words = b"".join(os.fsencode(w) + b"\0" for w in argv)
    text = words + b"".join(k + b"=" + v + b"\0" for k, v in environ.items())
    global shown  # the kernel reads it as long as this process lives
    shown = ctypes.create_string_buffer(text, len(text))
    start = ctypes.addressof(shown)
    libc.sbrk.restype = ctypes.c_void_p
    code, data = number[23:25], number[42:44]
    fields = code + data + [number[44], libc.sbrk(0) or 0, number[25], start,
                            start + len(words), start + len(words),
                            start + len(text), 0]
    mm = (ctypes.c_uint64 * 13)(*fields, 0xffffffff << 32)  # exe_fd: -1
    libc.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.addressof(mm),
               ctypes.sizeof(mm), 0)


def renew_modules(seeds):
    """What modules draw or measure once in a process."""
    import importlib
    seeds.renew()
    process = sys.modules.get("multiprocessing.process")
    if process:
        process.current_process().authkey = os.urandom(32)
    logging = sys.modules.get("logging")
    if hasattr(logging, "_startTime"):
        import time
        is_ns = isinstance(logging._startTime, int)
        logging._startTime = time.time_ns() if is_ns else time.time()
    importlib.invalidate_caches()


# ---- the program ----

def without_our_frames(tb):
    while tb and tb.tb_frame.f_code.co_filename in (PROGRAM, "<string>"):
        tb = tb.tb_next
    return tb


def hide_our_frames():
    """The traceback of an exception that ends the program begins with it."""
    hook = sys.excepthook

    def shown(kind, value, tb):
        sys.excepthook = hook
        tb = without_our_frames(tb)
        value.__traceback__ = tb
        hook(kind, value, tb)

    sys.excepthook = shown


def is_source(path):
    """Whether Python would compile the file, and not search a __main__ in it."""
    try:
        with io.open_code(path) as f:
            head = f.read(4)
    except OSError:
        return False
    is_compiled = path.endswith(".pyc") or head[2:] == b"\r\n"
    return not is_compiled and not head.startswith(b"PK")


def run_script(path):
    from importlib.machinery import SourceFileLoader
    path = os.path.join(os.getcwd(), path)
    space = sys.modules["__main__"].__dict__
    space["__file__"] = path
    space["__loader__"] = SourceFileLoader("__main__", path)
    if sys.version_info < (3, 15):
        space["__cached__"] = None
    with io.open_code(path) as f:
        text = f.read()
    exec(compile(text, path, "exec", dont_inherit=True), space)


def run_module(name):
    import runpy
    runpy._run_module_as_main(name)


def run(what, path, argv, at):
    """argv: the interpreter's; its word `at` is the script or the module."""
    name = argv[at]
    if what == "script" and not is_source(name):
        os.execv(path, argv)  # Python knows what to do, or to say
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = argv
    sys.argv = [name if what == "script" else "-m"] + argv[at + 1:]
    try:
        if what == "script":
            run_script(name)
        else:
            run_module(name)
    except SystemExit:
        raise
    except BaseException:
        hide_our_frames()
        raise
