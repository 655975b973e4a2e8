"""hosts.py: hosts on one machine, and the faults of a whole host: a pulled cable,
paths that delay, lose or drop packets, a freeze, a power cut.

Each host is a set of namespaces (tests/programs/tools/host.c) with an eth0 that leads to our
switch (tests/chaos/chaos_switch.c). This module only knows the names of ddprun's
processes. It expects to run in its own PID and mount namespaces (`inside`), so that
everything that it starts ends with it.
"""
import os
import select
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
O = os.path.abspath(os.environ.get("O") or os.path.join(HERE, "../../build"))
NETWORK = "10.79.0."
SSHD = "/usr/sbin/sshd"
NAMES = {"ddprdzv": "server", "ddp-guard": "guard", "c_chaos": "worker"}


def inside():
    """Starts this program again in namespaces whose processes end with it, and
    returns there; outside, it returns the reason why that failed."""
    if os.environ.pop("CHAOS_INSIDE", None) and os.getpid() == 1:
        return None
    if os.getuid():
        return "it needs root"
    if not os.path.exists("/dev/net/tun"):
        return "no /dev/net/tun here"
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child",
               "--mount-proc", "--propagation", "private"]
    try:
        if subprocess.run(unshare + ["true"], capture_output=True).returncode:
            return "namespaces are not allowed here"
    except OSError as e:
        return str(e)
    os.environ["CHAOS_INSIDE"] = "1"
    os.execvp("unshare", unshare + [sys.executable] + sys.argv)


def find(program):
    return shutil.which(program)


def freezer():
    """The folder for cgroups that can be frozen: (folder, is_v2)."""
    with open("/proc/mounts") as f:
        mounts = [line.split() for line in f]
    for _, at, kind, options, *_ in mounts:
        if kind == "cgroup" and "freezer" in options.split(",") and \
                os.access(at, os.W_OK):
            return at, False
    for _, at, kind, *_ in mounts:
        if kind == "cgroup2" and os.access(at, os.W_OK):
            return at, True
    return None, False


class Switch:
    def __init__(self):
        self.process = subprocess.Popen(
            [O + "/tests/chaos_switch"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, bufsize=1)

    def tell(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        if answer != "ok":
            raise RuntimeError("switch: %s: %s" % (" ".join(words), answer))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Process:
    """A live process in /proc; pid is ours, inner the host's."""

    def __init__(self, pid):
        self.pid = pid
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            self.line = f.read().replace(b"\0", b" ").decode(
                errors="replace").strip()
        with open("/proc/%d/status" % pid) as f:
            rows = dict(row.rstrip("\n").split(":\t", 1) for row in f
                        if ":\t" in row)
        self.name = rows["Name"]
        self.state = rows["State"][0]
        self.parent = int(rows["PPid"])
        self.inner = int(rows["NSpid"].split()[-1])
        self.space = os.readlink("/proc/%d/ns/pid" % pid)

    def kind(self, others):
        """The kind of this process; None: it cannot be a target."""
        if self.name in ("ssh", "etcd"):
            return self.name
        parents = [p for p in others if p.pid == self.parent]
        # an agent has its guard's name while it forks it
        is_guard = self.name == "ddp-guard" and \
            any(p.line == self.line for p in parents)
        if self.name in NAMES and (self.name != "ddp-guard" or is_guard):
            return NAMES[self.name]
        if self.name.startswith("sshd"):
            return None if SSHD in self.line else "sshd"
        if self.name not in ("ddprun", "ddp-guard"):
            return None
        if "--remote-end" in self.line:
            return "far"
        far = any("--remote-end" in p.line for p in parents)
        return "head" if " -H " in self.line and not far else "agent"


def processes():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            p = Process(int(pid))
        except (OSError, KeyError, ValueError):
            continue
        if p.state not in "ZX":
            found.append(p)
    return found


def send(pid, number):
    """0 if it had ended before."""
    try:
        os.kill(pid, number)
        return 1
    except ProcessLookupError:
        return 0


class Host:
    """One host, which may die and be started again."""

    def __init__(self, hosts, index):
        self.hosts, self.index = hosts, index
        self.name = "h%d" % index
        self.address = NETWORK + str(index)
        self.home = os.path.join(hosts.folder, "home." + self.name)
        self.tmp = os.path.join(hosts.folder, "tmp." + self.name)
        self.cgroup = None
        for folder in (self.home, self.tmp):
            os.makedirs(folder, exist_ok=True)
        if hosts.freezer:
            self.cgroup = "%s/chaos.%d.%s" % (hosts.freezer, os.stat(
                "/proc/self/ns/pid").st_ino, self.name)
            os.makedirs(self.cgroup, exist_ok=True)
        self.up = self.frozen = False
        self.boots = 0
        self.boot()

    def join(self):
        """Puts a child into the host's cgroup before its exec."""
        if self.cgroup:
            with open(self.cgroup + "/cgroup.procs", "w") as f:
                f.write("0")

    def boot(self):
        self.proxy = subprocess.Popen(
            [O + "/tests/host", "up", self.name, self.hosts.etc_hosts],
            stdout=subprocess.PIPE, preexec_fn=self.join, text=True)
        line = self.proxy.stdout.readline()
        if not line:
            raise RuntimeError("%s does not start" % self.name)
        self.pid = int(line)
        self.space = os.readlink("/proc/%d/ns/pid" % self.pid)
        self.hosts.switch.tell("add", self.name, str(self.pid), self.address)
        self.up = True
        self.boots += 1
        if self.hosts.ssh:
            self.start_sshd()

    def start(self, argv, env, out, err):
        """Does not return while the host is frozen."""
        return subprocess.Popen(
            [O + "/tests/host", "exec", str(self.pid)] + argv, env=env,
            stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            cwd=self.hosts.folder, preexec_fn=self.join)

    def start_sshd(self):
        log = os.path.join(self.hosts.folder, "sshd." + self.name)
        config = log + ".config"
        with open(config, "w") as f:
            f.write(SSHD_CONFIG % {
                "ssh": self.hosts.ssh, "home": self.home, "tmp": self.tmp,
                "path": "%s:%s/tests:/usr/bin:/bin" % (O, O)})
        err = open(log, "w")
        self.sshd = self.start([SSHD, "-D", "-e", "-f", config], None,
                               subprocess.DEVNULL, subprocess.PIPE)
        for line in self.sshd.stderr:
            if b"Server listening" in line:
                break
        err.close()

    def of_kind(self, kind):
        """Its processes of that kind, the oldest first."""
        all_of = self.processes()
        found = [p for p in all_of if p.kind(all_of) == kind]
        return sorted(found, key=lambda p: p.inner)

    def processes(self):
        return [p for p in processes() if p.space == self.space and
                p.pid != self.pid]

    def freeze(self):
        self.frozen = True
        if not self.cgroup:
            for p in self.processes():
                send(p.pid, signal.SIGSTOP)
        elif self.hosts.is_v2:
            self.write("cgroup.freeze", "1")
        else:
            self.write("freezer.state", "FROZEN")

    def thaw(self):
        self.frozen = False
        if not self.cgroup:
            for p in self.processes():
                send(p.pid, signal.SIGCONT)
        elif self.hosts.is_v2:
            self.write("cgroup.freeze", "0")
        else:
            self.write("freezer.state", "THAWED")

    def write(self, file, text):
        with open(os.path.join(self.cgroup, file), "w") as f:
            f.write(text)

    def power_off(self):
        """Everything on the host ends at once, without notice to others."""
        self.hosts.switch.tell("cable", self.name, "off")
        self.end()

    def power_on(self):
        self.boot()
        self.hosts.switch.tell("cable", self.name, "on")

    def end(self):
        if not self.up:
            return
        self.thaw()
        os.kill(self.pid, signal.SIGKILL)
        self.proxy.wait()
        self.proxy.stdout.close()
        self.up = False

    def left_in_memory(self):
        """Files in /dev/shm."""
        try:
            return sorted(os.listdir("/proc/%d/root/dev/shm" % self.pid))
        except OSError:
            return []

    def close(self):
        self.end()
        if self.cgroup:
            for _ in range(200):
                try:
                    os.rmdir(self.cgroup)
                    return
                except OSError:
                    # a killed process is still exiting
                    select.select([], [], [], 0.01)


SSHD_CONFIG = """HostKey %(ssh)s/host
AuthorizedKeysFile %(ssh)s/authorized_keys
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
UsePAM no
PidFile none
PrintMotd no
SetEnv HOME=%(home)s TMPDIR=%(tmp)s PATH=%(path)s
"""


class Hosts:
    """h0..hN-1, in folder; with sshd on each if ssh is a folder of keys."""

    def __init__(self, folder, n, ssh=None):
        self.folder, self.ssh = folder, ssh
        self.freezer, self.is_v2 = freezer()
        self.switch = Switch()
        self.etc_hosts = os.path.join(folder, "etc_hosts")
        with open(self.etc_hosts, "w") as f:
            print("127.0.0.1 localhost", file=f)
            for i in range(1, n + 1):
                print("%s%d h%d" % (NETWORK, i, i), file=f)
        self.all = [Host(self, i) for i in range(1, n + 1)]
        self.by_name = {h.name: h for h in self.all}

    def __getitem__(self, name):
        return self.by_name[name]

    def heal(self):
        """Undoes what was done to paths, cables and cgroups."""
        self.switch.tell("path", "*", "*", "0")
        for h in self.all:
            if h.up:
                h.thaw()
                self.switch.tell("cable", h.name, "on")

    def close(self):
        for h in self.all:
            h.close()
        self.switch.close()


def make_keys(folder):
    """Throw-away keys for ssh; its arguments, or None where there is no sshd."""
    if not os.path.exists(SSHD) or not shutil.which("ssh-keygen"):
        return None
    os.makedirs("/run/sshd", exist_ok=True)
    os.makedirs(folder)
    for name in ("id", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                        os.path.join(folder, name)], check=True)
    shutil.copy(folder + "/id.pub", folder + "/authorized_keys")
    with open(folder + "/host.pub") as f:
        key = " ".join(f.read().split()[:2])
    with open(folder + "/known_hosts", "w") as f:
        print("*", key, file=f)
    with open(folder + "/config", "w") as f:
        f.write("IdentityFile %s/id\nIdentitiesOnly yes\nIdentityAgent none\n"
                "UserKnownHostsFile %s/known_hosts\n"
                "GlobalKnownHostsFile none\nStrictHostKeyChecking yes\n"
                % (folder, folder))
    return "-F %s/config" % folder
