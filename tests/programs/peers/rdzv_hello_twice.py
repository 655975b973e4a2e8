"""rdzv_hello_twice.py HOST:PORT MUNGE_SOCKET N: N clients of a server that authenticates
by munge, each of which sends a second HELLO while munge is asked for the first: after 0
to 4 ms, with a valid credential. With N below 0, -N clients whose credential is none:
munged need not answer. Prints how many were welcome before the server closed their
connection, and how many were not.
"""
import collections
import hashlib
import os
import random
import socket
import struct
import subprocess
import sys
import time

from rdzv_wire import AGENT, GREETING, HELLO, PREFACE, REQUEST, pack

MUNGE = 4
host, port = sys.argv[1].rsplit(':', 1)
munged, n = sys.argv[2], int(sys.argv[3])


def blake(*parts):
    text = b''.join(struct.pack('<Q', len(p)) + p for p in parts)
    return hashlib.blake2b(text, digest_size=32).digest()


def frame(body):
    return struct.pack('<IBBHI', len(body), HELLO, REQUEST, 0, 1) + body


def credential(payload):
    if n < 0:
        return b'MUNGE:none:'
    return subprocess.run(['munge', '--socket', munged], input=payload, check=True,
                          capture_output=True).stdout.strip()


def begin():
    s = socket.create_connection((host, int(port)), 60)
    s.sendall(PREFACE)
    greeting = b''
    while len(greeting) < GREETING:
        greeting += s.recv(GREETING - len(greeting))
    hello = pack('bssIIQbs', AGENT, 'none', 'h', 0, 0, 0, MUNGE, os.urandom(32))
    payload = blake(b'ddprun munge client 2', PREFACE, greeting, hello)
    return s, frame(hello + pack('s', credential(payload)))


def rest(s):
    got = b''
    try:
        while more := s.recv(65536):
            got += more
    except ConnectionResetError:
        pass
    return got


ends = collections.Counter()
for _ in range(abs(n)):
    s, hello = begin()
    s.sendall(hello)
    time.sleep(0 if n < 0 else random.random() * 0.004)
    try:
        s.sendall(hello)
        # after a welcome, the server takes it for the begin of a record
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    ends['welcome' if rest(s) else 'refused'] += 1
print(dict(ends))
