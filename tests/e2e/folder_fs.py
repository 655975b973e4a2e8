"""folder_fs.py FOLDER [FILE]: a file system (FUSE) in memory, with folders, files and FIFOs,
mounted on FOLDER, for tests of a file server that stops: stop this process by SIGSTOP, or
write "stop here" to a file, at which it stops before it answers. Closing a file waits for
an answer (FLUSH). With FILE, an empty file of that name exists; the kernel keeps names for
a minute, and closes files without asking. Prints "mounted" once FOLDER can be used."""

import errno
import os
import signal
import stat
import struct
import subprocess
import sys
import time

ROOT = 1


class Node:
    def __init__(self, number, mode):
        self.number, self.mode = number, mode
        self.data = bytearray()
        self.names = {}
        self.changed = int(time.time())


nodes = {ROOT: Node(ROOT, stat.S_IFDIR | 0o755)}
names_last_s = 0


def attributes(n):
    t = n.changed
    return struct.pack("<6Q3I7I", n.number, len(n.data), 0, t, t, t, 0, 0, 0,
                       n.mode, 1, 0, 0, 0, 4096, 0)


def entry(n):
    return struct.pack("<4Q2I", n.number, 0, names_last_s, 0, 0, 0) + attributes(n)


def child(node, name):
    found = nodes[node].names.get(name)
    if not found:
        raise OSError(errno.ENOENT, "no such file")
    return found


def text(body):
    return body.split(b"\0")[0]


def make(node, name, mode):
    parent = nodes[node]
    if name in parent.names:
        raise OSError(errno.EEXIST, "it exists")
    n = Node(max(nodes) + 1, mode)
    nodes[n.number] = parent.names[name] = n
    return n


def lookup(node, body):
    return entry(child(node, text(body)))


def getattr_(node, body):
    return struct.pack("<QII", 0, 0, 0) + attributes(nodes[node])


def setattr_(node, body):
    valid, _, _, size = struct.unpack_from("<IIQQ", body)
    data = nodes[node].data
    if valid & 8:
        data[size:] = bytes(max(0, size - len(data)))
    return getattr_(node, body)


def mknod(node, body):
    return entry(make(node, text(body[16:]), struct.unpack_from("<I", body)[0]))


def mkdir(node, body):
    mode = struct.unpack_from("<I", body)[0]
    return entry(make(node, text(body[8:]), stat.S_IFDIR | mode))


def create(node, body):
    mode = struct.unpack_from("<I", body, 4)[0]
    return entry(make(node, text(body[16:]), stat.S_IFREG | mode)) + bytes(16)


def unlink(node, body):
    child(node, text(body))
    del nodes[node].names[text(body)]
    return b""


def rmdir(node, body):
    if child(node, text(body)).names:
        raise OSError(errno.ENOTEMPTY, "not empty")
    return unlink(node, body)


def rename(node, body):
    to = struct.unpack_from("<Q", body)[0]
    old, new = body[8:].split(b"\0")[:2]
    nodes[to].names[new] = child(node, old)
    del nodes[node].names[old]
    return b""


def read(node, body):
    _, at, size = struct.unpack_from("<QQI", body)
    return bytes(nodes[node].data[at:at + size])


def write(node, body):
    _, at, size = struct.unpack_from("<QQI", body)
    data = nodes[node].data
    if b"stop here" in body[40:]:
        os.kill(os.getpid(), signal.SIGSTOP)
    data.extend(bytes(max(0, at - len(data))))
    data[at:at + size] = body[40:40 + size]
    nodes[node].changed = int(time.time())
    return struct.pack("<II", size, 0)


def readdir(node, body):
    _, at, size = struct.unpack_from("<QQI", body)
    out = b""
    for i, (name, n) in enumerate(list(nodes[node].names.items())[at:], at + 1):
        one = struct.pack("<QQII", n.number, i, len(name), n.mode >> 12) + name
        one += bytes(-len(one) % 8)
        if len(out) + len(one) > size:
            break
        out += one
    return out


def init(node, body):
    return struct.pack("<4I2H2I2H8I", 7, 31, 65536, 0, 0, 0, 65536, 1, 0, 0, *[0] * 8)


def opened(node, body):
    return bytes(16)


def done(node, body):
    return b""


ANSWERS = {1: lookup, 3: getattr_, 4: setattr_, 8: mknod, 9: mkdir, 10: unlink,
           11: rmdir, 12: rename, 14: opened, 15: read, 16: write,
           17: lambda n, b: bytes(80), 18: done, 20: done, 25: done, 26: init,
           27: opened, 28: readdir, 29: done, 35: create}
FORGET, FLUSH, BATCH_FORGET = 2, 25, 42


def answer_to(opcode, node, body):
    if opcode not in ANSWERS:
        return -errno.ENOSYS, b""
    try:
        return 0, ANSWERS[opcode](node, body)
    except OSError as e:
        return -e.errno, b""


def one_file(name):
    global names_last_s
    make(ROOT, name, stat.S_IFREG | 0o644)
    names_last_s = 60
    del ANSWERS[FLUSH]


def main():
    if len(sys.argv) > 2:
        one_file(os.fsencode(sys.argv[2]))
    fd = os.open("/dev/fuse", os.O_RDWR)
    os.set_inheritable(fd, True)
    subprocess.run(["mount", "-i", "-t", "fuse", "-o",
                    f"fd={fd},rootmode=40000,user_id=0,group_id=0", "folders",
                    sys.argv[1]], check=True, close_fds=False)
    print("mounted", flush=True)
    while True:
        request = os.read(fd, 1 << 20)
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode in (FORGET, BATCH_FORGET):
            continue
        error, answer = answer_to(opcode, node, request[40:])
        os.write(fd, struct.pack("<IiQ", 16 + len(answer), error, unique) + answer)


main()
