"""rdzv_hostile.py HOST:PORT: a neighbour who has a token and no manners, written
from docs/protocol.txt alone (so it also says whether that page is right). The
server has the agent of a job j of two ranks that runs, and DDP_TOKEN as we have.
Prints a line for each case that does not end as it should, else "ok".
"""
import hashlib
import hmac
import os
import socket
import struct
import sys

from rdzv_cipher import Way

PREFACE = b'DDPR\13\0\0\0'
GREETING = 56
AGENT, WORKER, TOOL = 1, 2, 3
REQUEST, REPLY, ERROR, NOTICE = 0, 1, 2, 3
HELLO, PING = 1, 37
AGENTS_NOTICES = {33, 34, 35, 38, 40, 62}
wrong = 0


def check(ok, *what):
    global wrong
    if not ok:
        wrong += 1
        print(*what)


def part(p):
    return struct.pack('<Q', len(p)) + p


def mac(key, *parts):
    return hmac.new(key, b''.join(map(part, parts)), hashlib.sha512).digest()[:32]


def blake(*parts):
    return hashlib.blake2b(b''.join(map(part, parts)), digest_size=32).digest()


SECRET = blake(b'ddprun secret 2', os.environb[b'DDP_TOKEN'])


def key_of(job):
    return hashlib.blake2b(b'ddprun job\0' + job, digest_size=32, key=SECRET).digest()


def text(t):
    return struct.pack('<I', len(t)) + t


def frame(kind_of, kind, number, body):
    return struct.pack('<IBBHI', len(body), kind_of, kind, 0, number) + body


class Caller:
    """A connection that has its greeting."""

    def __init__(self):
        host, port = sys.argv[1].rsplit(':', 1)
        self.s = socket.create_connection((host.strip('[]'), int(port)), 30)
        self.s.sendall(PREFACE)
        self.ways = None
        self.text = b''
        self.greeting = self.read(GREETING)

    def record(self):
        """The text of the next; None: there is none any more."""
        head = self.raw(4)
        if len(head) < 4:
            return None
        return self.ways[1].open(head + self.raw(struct.unpack('<I', head)[0] + 16))

    def send(self, data):
        self.s.sendall(self.ways[0].seal(data) if self.ways else data)

    def read(self, n):
        while self.ways and len(self.text) < n:
            more = self.record()
            if more is None:
                break
            self.text += more
        if not self.ways:
            return self.raw(n)
        got, self.text = self.text[:n], self.text[n:]
        return got

    def raw(self, n):
        got = b''
        while len(got) < n:
            more = self.s.recv(n - len(got))
            if not more:
                break
            got += more
        return got

    def rest(self):
        got = b''
        try:
            while True:
                more = self.s.recv(65536)
                if not more:
                    return got
                got += more
        except ConnectionResetError:
            return got

    def frame(self):
        head = self.read(12)
        if len(head) < 12:
            return None
        n, kind_of, kind, _, number = struct.unpack('<IBBHI', head)
        return kind_of, kind, number, self.read(n)

    def hello(self, role=TOOL, job=b'j', method=2, nonce=None, key=None,
              greeting=None, round_=0, rank=0):
        body = (bytes([role]) + text(job) + text(b'evil') +
                struct.pack('<IIQB', round_, rank, 7, method) +
                text(os.urandom(32) if nonce is None else nonce))
        proof = mac(key or key_of(job), b'ddprun client 2', PREFACE,
                    greeting or self.greeting, body)
        self.said, self.proof = body, proof
        return frame(HELLO, REQUEST, 1, body + text(proof))

    def welcomed(self):
        """WELCOME's code, if the server has proved itself; else None."""
        got = self.frame()
        if not got or got[:3] != (HELLO, REPLY, 1):
            return None
        body = got[3]
        want = mac(key_of(b'j'), b'ddprun server 2', PREFACE, self.greeting,
                   self.said, self.proof, body[:-36])
        if body[-32:] != want:
            return None
        self.ways = [Way(mac(key_of(b'j'), b'ddprun stream %s 4' % end, PREFACE,
                             self.greeting, self.said, self.proof, body[:-36]))
                     for end in (b'client', b'server')]
        return struct.unpack_from('<i', body, 4)[0]


def said(data, *what):
    """A new caller who says that hears nothing and is closed."""
    c = Caller()
    c.s.sendall(data(c) if callable(data) else data)
    got = c.rest()
    check(got == b'', *what, 'heard', got)


def proofs():
    c = Caller()
    for byte in c.hello():
        c.s.send(bytes([byte]))
    check(c.welcomed() == 0, 'HELLO byte by byte is not welcome')
    c = Caller()
    once = c.hello()
    c.s.sendall(once)
    check(c.welcomed() == 0, 'HELLO is not welcome')
    said(once, 'HELLO of another connection')
    said(lambda c: c.greeting, 'its own greeting')
    said(lambda c: c.hello(greeting=bytes(GREETING)), 'a proof of another greeting')
    said(lambda c: c.hello(key=key_of(b'other')), "another job's key")
    said(lambda c: c.hello(role=AGENT, job=b'other', key=key_of(b'j')),
         "an agent of another job with this one's key")
    for method in (0, 1, 3, 4, 6, 255):
        said(lambda c: c.hello(method=method), 'method', method)


def flip(c):
    data = bytearray(c.hello())
    data[len(data) // 2] ^= 1
    return bytes(data)


def huge(at):
    def data(c):
        body = bytearray(c.hello()[12:])
        struct.pack_into('<I', body, at, 0xffffffff)
        return frame(HELLO, REQUEST, 1, bytes(body))
    return data


def shapes():
    said(flip, 'a bit of it is another')
    for at in (1, 6, 14 + 13 + 4):
        said(huge(at), 'a length of 2^32-1 at', at)
    said(struct.pack('<IBBHI', 0xffffffff, 1, 0, 0, 1) + b'x' * 9, 'a frame of 2^32-1')
    for n in (0, 31, 33, 1024, 1025):
        said(lambda c: c.hello(nonce=b'x' * n), 'the nonce has', n)
    for role in (0, 4, 255):
        said(lambda c: c.hello(role=role), 'role', role)
    for job in (b'\0', b'a\nb', b'x' * 1025):
        said(lambda c: c.hello(role=AGENT, job=job), 'job', job[:9])
    said(lambda c: frame(HELLO, REQUEST, 1, c.hello()[12:] + b'xx'), 'more behind it')
    c = Caller()
    data = c.hello()
    c.s.sendall(data + data)
    check(c.welcomed() == 0, 'HELLO with more behind it is not welcome')
    c.send(data)
    check(c.rest() == b'', 'what is plain behind HELLO is heard')
    c = Caller()
    c.s.sendall(c.hello())
    check(c.welcomed() == 0, 'HELLO before HELLO is not welcome')
    c.send(data)
    got = c.frame()
    check(got and got[1:3] == (ERROR, 0) and b'not allowed' in got[3] and
          c.rest() == b'', 'HELLO twice', got)


def records():
    """What is not a record of this connection, and in its place, ends it."""
    ping = frame(PING, REQUEST, 2, b'')

    def is_closed_by(data, *what):
        c = Caller()
        c.s.sendall(c.hello(role=AGENT))
        check(c.welcomed() == 0, 'an agent is not welcome')
        c.s.sendall(data(c))
        check(c.rest() == b'', *what)

    def flipped(c, at):
        data = bytearray(c.ways[0].seal(ping))
        data[at] ^= 1
        return bytes(data)

    def second_first(c):
        first, second = c.ways[0].seal(ping), c.ways[0].seal(ping)
        return second + first

    is_closed_by(lambda c: ping, 'a plain frame')
    for at in range(4, 4 + 12 + 16):
        is_closed_by(lambda c: flipped(c, at), 'a bit of byte', at)
    is_closed_by(lambda c: flipped(c, 0) + bytes(16384), 'a bit of its length')
    for n in (0, 16385, 0xffffffff):
        is_closed_by(lambda c: struct.pack('<I', n), 'a length of', n)
    is_closed_by(second_first, 'records in another order')
    is_closed_by(lambda c: c.ways[1].seal(ping), "the server's key")
    c = Caller()
    c.s.sendall(c.hello(role=AGENT))
    check(c.welcomed() == 0, 'an agent is not welcome')
    record = c.ways[0].seal(ping)
    for byte in record[:-1]:
        c.s.send(bytes([byte]))
    c.s.sendall(record[-1:])
    check(c.frame() == (PING, REPLY, 2, b''), 'PING byte by byte')
    c.s.sendall(record)
    check(c.rest() == b'', 'a record again')


def roles():
    """Nobody does another role's work; what only the server says is nobody's."""
    tools, workers, agents = {60, 64}, set(range(10, 21)) | {50, 51}, {
        30, 33, 34, 35, 37, 38, 40, 41, 62}
    all_types = tools | workers | agents | {31, 32, 36, 39, 52, 61, 63, 65}
    for role, own in (TOOL, tools), (WORKER, workers), (AGENT, agents):
        for kind_of in sorted(all_types - own):
            c = Caller()
            c.s.sendall(c.hello(role=role, rank=1))
            check(c.welcomed() == 0, 'role', role, 'is not welcome')
            kind = NOTICE if kind_of in AGENTS_NOTICES | {51} else REQUEST
            c.send(frame(kind_of, kind, 0 if kind == NOTICE else 2, b''))
            got = c.frame()
            while got and got[:2] == (52, NOTICE):
                got = c.frame()
            check(got and got[1:3] == (ERROR, 0) and b'not allowed' in got[3],
                  'type', kind_of, 'of role', role, got)


proofs()
shapes()
records()
roles()
print('ok' if not wrong else '%d wrong' % wrong)
