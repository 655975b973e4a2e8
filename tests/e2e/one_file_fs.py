"""one_file_fs.py FOLDER: a file system (FUSE) of one file, "err", in memory, mounted on
FOLDER, for tests of a file server that stops: stop this process by SIGSTOP. A file is
closed without waiting for it. Prints "mounted" once FOLDER can be used."""

import os
import stat
import struct
import subprocess
import sys
import time

ROOT, FILE = 1, 2
ENOENT, ENOSYS = 2, 38
data = bytearray()
changed = int(time.time())


def attributes(node):
    mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o644
    size = 0 if node == ROOT else len(data)
    return struct.pack("<6Q3I7I", node, size, 0, changed, changed, changed, 0, 0, 0,
                       mode, 1, 0, 0, 0, 4096, 0)


def setattr_(node, body):
    valid, _, _, size = struct.unpack_from("<IIQQ", body)
    if valid & 8:
        data[size:] = bytes(max(0, size - len(data)))
    return getattr_(node, body)


def getattr_(node, body):
    return struct.pack("<QII", 0, 0, 0) + attributes(node)


def init(node, body):
    return struct.pack("<4I2H2I2H8I", 7, 31, 65536, 0, 0, 0, 65536, 1, 0, 0, *[0] * 8)


def lookup(node, body):
    if body.rstrip(b"\0") != b"err":
        return -ENOENT
    return struct.pack("<4Q2I", FILE, 0, 60, 0, 0, 0) + attributes(FILE)


def write(node, body):
    global changed
    _, at, size = struct.unpack_from("<QQI", body)
    data[at:at + size] = body[40:40 + size]
    changed = int(time.time())
    return struct.pack("<II", size, 0)


def read(node, body):
    _, at, size = struct.unpack_from("<QQI", body)
    return bytes(data[at:at + size])


ANSWERS = {1: lookup, 3: getattr_, 4: setattr_, 14: lambda n, b: bytes(16), 15: read,
           16: write, 17: lambda n, b: bytes(80), 18: lambda n, b: b"", 26: init,
           27: lambda n, b: bytes(16)}
FORGET, BATCH_FORGET = 2, 42


def main():
    fd = os.open("/dev/fuse", os.O_RDWR)
    os.set_inheritable(fd, True)
    subprocess.run(["mount", "-i", "-t", "fuse", "-o",
                    f"fd={fd},rootmode=40000,user_id=0,group_id=0", "one_file",
                    sys.argv[1]], check=True, close_fds=False)
    print("mounted", flush=True)
    while True:
        request = os.read(fd, 1 << 20)
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode in (FORGET, BATCH_FORGET):
            continue
        answer = ANSWERS.get(opcode, lambda n, b: -ENOSYS)(node, request[40:])
        error, answer = (answer, b"") if isinstance(answer, int) else (0, answer)
        os.write(fd, struct.pack("<IiQ", 16 + len(answer), error, unique) + answer)


main()
