"""template.py: the program of ddprun's template process (--preload). It imports
modules once, then forks a worker on each request of its agent. preload.h has the
protocol. The last part of the program that imports.py describes.

It must run on every CPython from 3.9 on. What it imports, each worker has: so it
imports little.
"""
import os
import sys

import _signal
import _socket

# the agent's socket; this text; a file with the first fields
LINK, TEXT, SETUP = 3, 4, 5
FDS_MAX = 8
PR_SET_PDEATHSIG = 1


# ---- the agent's socket: a length, then fields that end with a zero byte ----

def receive(link):
    """The fields of the next request, None at the end; and its descriptors."""
    head, fds = b"", []
    while len(head) < 4:
        part, extra, _, _ = link.recvmsg(4 - len(head),
                                         _socket.CMSG_SPACE(4 * FDS_MAX),
                                         _socket.MSG_CMSG_CLOEXEC)
        for level, kind, raw in extra:
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                fds += [int.from_bytes(raw[i:i + 4], sys.byteorder)
                        for i in range(0, len(raw) - 3, 4)]
        if not part:
            return None, fds
        head += part
    left, parts = int.from_bytes(head, "little"), []
    while left:
        part = link.recv(left)
        if not part:
            return None, fds
        parts.append(part)
        left -= len(part)
    return b"".join(parts).split(b"\0")[:-1], fds


def send(link, *fields):
    text = b"".join(os.fsencode(str(f)).replace(b"\0", b" ") + b"\0"
                    for f in fields)
    link.sendall(len(text).to_bytes(4, "little") + text)


def take(fields, n=None):
    """Removes and returns n fields, or as many as the first one says."""
    if n is None:
        n = int(fields.pop(0))
    taken = fields[:n]
    del fields[:n]
    return taken


def environ_of(fields):
    return dict(var.partition(b"=")[::2] for var in fields)


class Changes:
    """What was added to, and removed from, an environment."""

    def __init__(self, before):
        now = dict(os.environb)
        self.added = {k: v for k, v in now.items() if before.get(k) != v}
        self.removed = [k for k in before if k not in now]

    def apply(self, environ):
        environ.update(self.added)
        for name in self.removed:
            environ.pop(name, None)


class Request:
    """A worker: what the agent says about it."""

    def __init__(self, fields, fds):
        agent, keep, cpus, at = take(fields, 4)
        self.agent, self.keep, self.at = int(agent), int(keep), int(at)
        self.cpus = set()
        for part in cpus.split(b",") if cpus else ():  # 0-3,8
            first, _, last = part.partition(b"-")
            self.cpus.update(range(int(first), int(last or first) + 1))
        self.path = os.fsdecode(take(fields, 1)[0])
        self.argv = [os.fsdecode(word) for word in take(fields)]
        self.environ = environ_of(take(fields))
        self.fds = fds


# ---- the template process ----

class Template:
    def __init__(self, link):
        import ctypes
        self.link = link
        # PyDLL: with the GIL, since fork is one of its functions
        self.libc = ctypes.PyDLL(None, use_errno=True)
        self.get_errno = ctypes.get_errno
        self.libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
        self.folder = None
        # the interpreter that a wrapper has chosen
        with open("/proc/self/cmdline", "rb") as f:
            self.interpreter = os.fsdecode(f.read().partition(b"\0")[0])
        with open(SETUP, "rb") as f:
            fields = f.read().split(b"\0")[:-1]
        agent, what, name, self.modules = take(fields, 4)
        self.agent, self.what = int(agent), what.decode()
        self.name = os.fsdecode(name)
        self.given = environ_of(take(fields))
        self.preload = Preload(lambda module: send(link, "importing", module))

    def start(self):
        if sys.implementation.name != "cpython" or sys.version_info < (3, 9):
            raise Refused("%s is %s %d.%d, and CPython 3.9 or newer is needed" %
                          (sys.executable, sys.implementation.name,
                           *sys.version_info[:2]))
        if os.getppid() != self.agent:
            raise Refused("%s was started through another process (pid %d)" %
                          (sys.executable, os.getppid()))
        self.set_folder(self.name)
        # what a wrapper around the interpreter has set, and later the imports
        self.wrapped, started = Changes(self.given), dict(os.environb)
        collections = Collections()
        self.preload.run(self.imports())
        self.imported = Changes(started)
        for stream in (sys.stdout, sys.stderr):
            if stream:
                stream.flush()
        self.libc.fflush(None)
        collections.stop()

    def imports(self):
        if self.modules != b"auto":
            return [(name, (), True)
                    for name in os.fsdecode(self.modules).split(",")]
        found = found_imports(self.what, self.name)
        if not found:
            raise Refused("auto: %s imports no installed package" % self.name)
        return [(name, wanted, False) for name, wanted in found]

    def set_folder(self, name):
        """sys.path begins with the folder of the program."""
        if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
            return
        folder = os.getcwd() if self.what == "module" else \
            os.path.dirname(os.path.realpath(name))
        old = "" if self.folder is None else self.folder
        if folder != old and old in sys.path:
            sys.path[sys.path.index(old)] = folder
        self.folder = folder

    def serve(self):
        """Returns a request: in its worker."""
        while True:
            fields, fds = receive(self.link)
            if fields is None:
                os._exit(0)
            if fields.pop(0) == b"check":
                path = self.preload.changed()
                send(self.link, "stale" if path else "fresh", path)
                continue
            request = Request(fields, fds)
            request.argv[0] = self.interpreter
            self.wrapped.apply(request.environ)
            why = self.preload.differing(request.environ)
            if why:
                send(self.link, "refused", why)
            elif self.fork(request):
                return request
            for fd in fds:
                os.close(fd)

    def fork(self, request):
        """True in the worker. Its parent is the agent, which adopts orphans: the
        process between it and us has ended before the worker begins."""
        go, said = os.pipe(), os.pipe()
        pid = self.fork_orphan()
        if pid == 0:
            self.become_worker(request, [go[0], said[1]], [go[1], said[0]])
            return True
        os.close(go[0])
        os.close(said[1])
        code = os.waitpid(pid, 0)[1] >> 8 if pid > 0 else self.get_errno()
        text = self.hear(go[1], said[0])
        if code:
            text = b"failed\0" + os.fsencode(os.strerror(code))
        send(self.link, *map(os.fsdecode, text.split(b"\0")))
        return False

    def fork_orphan(self):
        """Forks without Python's handlers, which run once, in the worker. 0 there;
        else the process that has forked it, whose exit code is an errno, or -1."""
        orphan = getattr(self.libc, "ddprun_fork_orphan", None)  # crash_fork.c
        pid = orphan() if orphan else -1
        if pid < 0:  # it is not preloaded
            pid = self.libc.fork()
            if pid == 0:
                worker = self.libc.fork()
                if worker:
                    os._exit(0 if worker > 0 else self.get_errno())
        return pid

    @staticmethod
    def hear(go, said):
        """Lets the new worker begin, and returns what it says."""
        text = b""
        try:
            os.write(go, b"g")
        except BrokenPipeError:
            pass
        part = b"g"
        while part:
            part = os.read(said, 4096)
            text += part
        os.close(go)
        os.close(said)
        return text or b"failed\0the new process has ended"

    def become_worker(self, request, pipes, others):
        try:
            self.libc.PyOS_BeforeFork()
            self.libc.PyOS_AfterFork_Child()
            name = poisoned()
            if name:
                os.write(pipes[1], b"refused\0the imports have initialised %s, which "
                         b"does not work in a forked process" % name.encode())
                os._exit(1)
            for fd in others:
                os.close(fd)
            self.link.close()
            os.setpgid(0, 0)
            pipes = place_descriptors(request.fds, request.keep, pipes)
            if request.cpus:
                os.sched_setaffinity(0, request.cpus)
            self.imported.apply(request.environ)
            renew_environ(request.environ)
            show_in_proc(self.libc, request.argv, request.environ)
            self.move_crash_record(request.environ)
            renew_stream(sys.stdin, 0, "rb")
            renew_stream(sys.stdout, 1, "wb")
            renew_stream(sys.stderr, 2, "wb")
            renew_modules(self.preload.seeds)
            self.set_folder(request.argv[request.at])
            if not os.read(pipes[0], 1):
                os._exit(1)  # the template has been killed
            self.libc.prctl(PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
            if os.getppid() != request.agent:
                os._exit(1)
        except BaseException as e:
            os.write(pipes[1], b"failed\0" + os.fsencode(str(e)))
            os._exit(1)
        os.close(pipes[0])
        os.write(pipes[1], b"forked\0%d" % os.getpid())
        os.close(pipes[1])

    def move_crash_record(self, environ):
        """The preloaded library reads the variable only when it is loaded."""
        try:
            move = self.libc.ddprun_crash_move
        except AttributeError:
            return  # it is not preloaded
        move(environ.get(b"DDP_CRASH_RECORD", b""))


def main():
    link = _socket.socket(fileno=LINK)
    os.set_inheritable(LINK, False)
    os.close(TEXT)
    template = Template(link)
    try:
        template.start()
        send(link, "ready")
    except Exception as e:
        text = str(e) if isinstance(e, Refused) else repr(e)
        send(link, "refused", text)
        receive(link)
        os._exit(0)
    request = template.serve()
    run(template.what, request.path, request.argv, request.at)


main()
