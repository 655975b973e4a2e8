"""imports.py: imports modules in the template process, and finds out whether a
process forked after that works like a process that imports them itself.
template.c joins find_imports.py, this file, worker.py and template.py to one program.
"""
import gc
import os
import sys

import _signal

SIGNALS = range(1, _signal.NSIG)

# Open files without a state that two processes could share.
HARMLESS = ("/dev/null", "/dev/urandom", "/dev/random")

# New objects after which the imports' garbage is collected. Python's own 700 lets gc
# look at the modules' objects again and again, for a seventh of the time.
GC_THRESHOLD = 500000


class Refused(Exception):
    """Why workers cannot be forked from here."""


# ---- what an import leaves behind ----

def status(*names):
    with open("/proc/self/status") as f:
        lines = dict(line.split(":", 1) for line in f if ":" in line)
    return [lines[name].strip() for name in names]


def descriptors():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            pass  # that of the folder
    return {fd: to for fd, to in found.items() if to not in HARMLESS}


def shared_maps():
    """Memory that stays shared after a fork, and devices."""
    found = set()
    with open("/proc/self/maps") as f:
        for line in f:
            part = line.split(None, 5)
            path = part[5].strip() if len(part) > 5 else ""
            is_shared = part[1][1] == "w" and part[1][3] == "s"
            is_device = path.startswith("/dev/") and not path.startswith(
                ("/dev/zero", "/dev/shm/"))
            if is_shared or is_device:
                found.add(path or "anonymous")
    return found


def has_children():
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return True
    except ChildProcessError:
        return False


def other_threads():
    """The names of the other threads, which a forked process lacks. jemalloc's threads
    do not count: after a fork it works without them (background_thread_postfork_child
    in its sources)."""
    names = []
    for thread in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/comm" % thread) as f:
                name = f.read().strip()
        except OSError:
            continue  # it has ended since
        if int(thread) != os.getpid():
            names.append(name)
    return [name for name in names if name != "jemalloc_bg_thd"]


def stops_threads_to_fork():
    """A library may end its threads before a fork, and start others when it needs
    them (OpenBLAS)."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return not other_threads()


class State:
    """What an import must leave as it was."""

    def __init__(self):
        self.pid = os.getpid()
        self.fds = descriptors()
        self.maps = shared_maps()
        # without 32 and 33, which the C library uses for threads
        self.masks = [int(mask, 16) & ~(3 << 31)
                      for mask in status("SigCgt", "SigIgn", "SigBlk")]
        self.handlers = [_signal.getsignal(n) for n in SIGNALS]
        self.cwd = os.getcwd()
        self.umask = status("Umask")

    def changes(self):
        """What a fork would copy or share, or ""."""
        now = State()
        for fd, to in now.fds.items():
            if to != self.fds.get(fd):
                is_socket = to.startswith("socket:")
                return "left %s open" % ("a socket" if is_socket else to)
        for path in now.maps - self.maps:
            return "left a device or shared memory mapped (%s)" % path
        if has_children():
            return "left a child process"
        for number, was, handler in zip(SIGNALS, self.handlers, now.handlers):
            if was is not handler and was != handler:
                return "set a handler of signal %d (%s)" % (
                    number, _signal.strsignal(number))
        if self.masks != now.masks:
            return "changed how signals are handled"
        if self.cwd != now.cwd:
            return "changed the working directory"
        if self.umask != now.umask:
            return "changed the umask"
        if other_threads() and not stops_threads_to_fork():
            names = other_threads()
            return "left %s (%s)" % (
                "a thread" if len(names) == 1 else "%d threads" % len(names),
                ", ".join(sorted(set(names))))
        return ""


def poisoned():
    """A library that refuses to work in this forked process, or ""."""
    torch = sys.modules.get("torch")
    for name in ("cuda", "xpu", "mtia") if torch else ():
        is_bad = getattr(getattr(torch, name, None), "_is_in_bad_fork", None)
        if is_bad and is_bad():
            return "torch." + name
    return ""


# ---- what an import reads ----

class WatchedEnviron(dict):
    """The dict of os.environ, which records what is read."""

    def __init__(self, data):
        super().__init__(data)
        self.first = dict(data)  # what the modules have not set themselves
        self.seen = {}  # name: (first value, the module that read it)

    def __getitem__(self, key):
        # the crash library's alone; tqdm goes through all variables
        if key not in self.seen and key != b"DDP_CRASH_RECORD":
            frame = sys._getframe(1)
            while frame and frame.f_globals.get("__name__") in (
                    "os", "_collections_abc", "collections.abc"):
                frame = frame.f_back
            where = frame.f_globals.get("__name__") if frame else "?"
            self.seen[key] = self.first.get(key), where
        return super().__getitem__(key)


class Collections:
    """Few of gc while modules are imported; then what they have made stays as it is:
    a collection in a worker would copy all pages."""

    def __init__(self):
        self.thresholds = gc.get_threshold()
        self.ours = (GC_THRESHOLD,) + self.thresholds[1:]
        gc.set_threshold(*self.ours)

    def stop(self):
        # Without a collection before, which takes 0.1 s after `import torch`, the
        # few objects that are dead stay too. It comes first: gc counts anew then.
        gc.freeze()
        if gc.get_threshold() == self.ours:  # no module has set another
            gc.set_threshold(*self.thresholds)


class Seeds:
    """The generators that the system has seeded: a fresh process has others."""

    def __init__(self):
        import random
        self.random, self.seed, self.found = random, random.Random.seed, {}
        found, seed = self.found, self.seed

        def watched(instance, a=None, *rest, **more):
            if a is None:
                found[id(instance)] = instance
            else:
                found.pop(id(instance), None)
            return seed(instance, a, *rest, **more)

        random.Random.seed = watched

    def stop(self):
        self.random.Random.seed = self.seed

    def renew(self):
        for instance in self.found.values():
            instance.seed()
        numpy = sys.modules.get("numpy.random")
        mtrand = sys.modules.get("numpy.random.mtrand")
        bits = getattr(getattr(mtrand, "_rand", None), "_bit_generator", None)
        if numpy and bits and self.is_untouched(bits):
            numpy.seed()

    @staticmethod
    def is_untouched(bits):
        """Whether the state still comes from the system's seed."""
        try:
            seed = getattr(bits, "seed_seq", None) or bits._seed_seq
            return str(type(bits)(seed).state) == str(bits.state)
        except (AttributeError, TypeError):
            return False


# ---- the imports ----

class Preload:
    """Imports the modules, and knows what that tells about a worker."""

    def __init__(self, on_import):
        self.on_import = on_import
        self.known = set(sys.modules)
        self.files = {}
        self.reads = {}
        self.seeds = None

    def import_one(self, name, wanted, is_needed):
        before = State()
        problem = ""
        self.on_import(name)
        try:
            __import__(name, fromlist=list(wanted))
        except ImportError as e:
            problem = "cannot import %s: %s" % (name, e)
        except SystemExit as e:
            problem = "the import of %s calls sys.exit(%r)" % (name, e.code)
            is_needed = True
        except BaseException as e:
            problem = "the import of %s raises %s: %s" % (
                name, type(e).__name__, e)
        if os.getpid() != before.pid:
            os._exit(0)  # the import has forked, and this is its child
        if problem and is_needed:
            raise Refused(problem)
        left = before.changes()
        if left:
            gc.collect()  # perhaps it belongs to an object that nothing refers to
            left = before.changes()
        if left:
            raise Refused("the import of %s %s" % (name, left))

    def run(self, imports):
        self.seeds = Seeds()
        watched = WatchedEnviron(os.environ._data)
        os.environ._data = os.environb._data = watched
        try:
            for one in imports:
                self.import_one(*one)
        finally:
            os.environ._data = os.environb._data = dict(watched)
            self.seeds.stop()
        self.reads = watched.seen
        if "mpi4py.MPI" in sys.modules:
            raise Refused("the import of mpi4py.MPI has initialised MPI")
        self.note_files()

    def note_files(self):
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__dict__", {}).get("__file__")
            if name not in self.known and isinstance(path, str):
                self.files[path] = self.stat(path)
        self.files[sys.executable] = self.stat(sys.executable)

    @staticmethod
    def stat(path):
        try:
            st = os.stat(path)
            return st.st_mtime_ns, st.st_size, st.st_ino
        except OSError:
            return None

    def changed(self):
        """The first imported file that has changed on disk, or ""."""
        for path, was in self.files.items():
            if self.stat(path) != was:
                return path
        return ""

    def differing(self, environ):
        """A variable that an import has read, and that is another one in that
        worker, or ""."""
        for name, (value, where) in self.reads.items():
            if environ.get(name) != value:
                return ("%s reads the variable %s when it is imported, and each "
                        "worker has its own" % (where, os.fsdecode(name)))
        return ""
