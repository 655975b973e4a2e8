"""rdzv_wire.py: a client of a ddprdzv --auth none by docs/protocol.txt, as an agent,
a worker or a tool, and one of PyTorch's store.
"""
import os
import socket
import struct

PREFACE = b'DDPR\13\0\0\0'
GREETING = 56
AGENT, WORKER, TOOL = 1, 2, 3
REQUEST, REPLY, ERROR, NOTICE = 0, 1, 2, 3
NO_PROOF = 1
(HELLO, SET, GET, WAIT, ADD, COMPARE_SET, APPEND, DELETE, MULTI_GET, MULTI_SET,
 BARRIER, GATHER, SHARE, SHARED_LIST) = (1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                                   21, 22)
(JOIN, STATE, START, EXITED, FAILED, LEAVE, END, PING, STOP, RESUME, FATE, WAITING,
 STATUS, JOB) = (30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 50, 52, 64, 65)
NOT_YET = {-20014, -20015}


def pack(fmt, *values):
    """b u8, h u16, I u32, i i32, Q u64, q i64, s str, l list of str"""
    out = b''
    for kind, v in zip(fmt, values, strict=True):
        if kind in 'sl':
            items = [v] if kind == 's' else v
            if kind == 'l':
                out += struct.pack('<I', len(items))
            for item in items:
                item = item.encode() if isinstance(item, str) else item
                out += struct.pack('<I', len(item)) + item
        else:
            out += struct.pack('<' + kind.replace('b', 'B').replace('h', 'H'), v)
    return out


class Reader:
    def __init__(self, body):
        self.b, self.at = body, 0

    def take(self, fmt):
        got = []
        for kind in fmt:
            if kind == 's':
                n = self.take('I')[0]
                got.append(self.b[self.at:self.at + n])
                self.at += n
            else:
                f = '<' + kind.replace('b', 'B').replace('h', 'H')
                got.append(struct.unpack_from(f, self.b, self.at)[0])
                self.at += struct.calcsize(f)
        return got


class Closed(Exception):
    pass


class Conn:
    """A client of a job, up to its WELCOME."""

    def __init__(self, job, role, rank=0, session=0, round_=0):
        self.job, self.number, self.notices = job, 1, []
        self.code = -1
        while True:
            self.s = socket.create_connection(job.server.at, 60)
            self.code, self.text = self.hello(role, rank, session, round_)
            if self.code not in NOT_YET:
                return
            self.s.close()

    def hello(self, role, rank, session, round_):
        self.s.sendall(PREFACE)
        self.read(GREETING)
        body = pack('bssIIQbs', role, self.job.id, 'h', round_, rank, session,
                    NO_PROOF, os.urandom(32)) + pack('s', b'')
        self.put(HELLO, REQUEST, 1, body)
        grant, code, text, proof = Reader(self.frame()[3]).take('siss')
        return code, text

    def read(self, n):
        got = b''
        while len(got) < n:
            more = self.s.recv(n - len(got))
            if not more:
                raise Closed
            got += more
        return got

    def put(self, type_, kind, number, body):
        self.s.sendall(struct.pack('<IBBHI', len(body), type_, kind, 0, number) +
                       body)

    def frame(self):
        n, type_, kind, _, number = struct.unpack('<IBBHI', self.read(12))
        return type_, kind, number, self.read(n)

    def send(self, type_, body, number=None):
        if number is None:
            self.number += 1
            number = self.number
        self.put(type_, REQUEST, number, body)
        return number

    def reply(self, number):
        """Its kind and body; what else comes is kept in notices."""
        while True:
            type_, kind, n, body = self.frame()
            if kind in (REPLY, ERROR) and n in (number, 0):
                return kind, body
            self.notices.append((type_, body))

    def ask(self, type_, body, number=None):
        return self.reply(self.send(type_, body, number))

    def notice(self, type_, body):
        self.put(type_, NOTICE, 0, body)

    def await_notice(self, *types):
        while True:
            for i, (t, body) in enumerate(self.notices):
                if t in types:
                    del self.notices[i]
                    return t, body
            type_, kind, n, body = self.frame()
            self.notices.append((type_, body))

    def close(self):
        self.s.close()


class Agent(Conn):
    def __init__(self, job, node, host=None):
        super().__init__(job, AGENT)
        self.node, self.host = node, host or node

    def join(self, nproc=1, nodes=1, least=None, restarts=0, call_ms=0,
             rank=-1, torch=0, addrs=()):
        return self.ask(JOIN, pack(
            'ssshbiIIIIIIIsIIbbQsl', self.node, self.host, '127.0.0.1', 1234, torch,
            rank, least or nodes, nodes, nproc, restarts, 3, 3, 0, 'default', call_ms, 0,
            torch, torch, 0, '', addrs))

    def started(self):
        return self.await_notice(START)[1]

    def exited(self, rank, code=0, signal=0, stopped=0, round_=0, early=0,
               missed=''):
        self.notice(EXITED, pack('IIIqiiQbbQsssssbsQ', round_, rank, rank, 4711,
                                 code, signal, 55, stopped, 1, 9140, 'last words', 'why',
                                 '{}', '/tmp/log', 'all_reduce', early,
                                 missed, 0))

    def ended(self):
        return self.await_notice(END)[1]


class Job:
    """One row's job on one server; remembers its connections."""

    def __init__(self, server, name):
        self.server, self.id, self.conns = server, name, []
        self.round = 0 # a name's rounds go on where its last job ended

    def keep(self, c):
        self.conns.append(c)
        return c

    def agent(self, node, host=None, **join):
        a = self.keep(Agent(self, node, host))
        kind, body = a.join(**join)
        assert kind == REPLY, body
        return a

    def worker(self, rank=0, session=0, round_=None):
        return self.keep(Conn(self, WORKER, rank, session,
                              self.round if round_ is None else round_))

    def running(self, nproc=2, **join):
        """One node whose round runs."""
        a = self.agent('n0', nproc=nproc, **join)
        self.round = Reader(a.started()).take('I')[0]
        return a

    def status(self):
        """Without what is time; what it says of connections is theirs."""
        c = Conn(self, TOOL)
        if c.code:
            c.close()
            return []
        c.ask(STATUS, b'')
        said = []
        for type_, body in c.notices:
            r = Reader(body)
            head = r.take('sbQIIIIIIIIIIIQssQQ')
            head[2] = head[13] = head[14] = 0
            if 'append' in self.id: # makes room ahead, which counts
                head[18] = 0
            nodes = [r.take('ssibIIIIQ')[:-2] for _ in range(r.take('I')[0])]
            said.append((head, nodes))
        c.close()
        return said

    def settle(self, agent):
        """What the agent said is done, and kept: STATUS waits for that."""
        agent.ask(PING, b'')
        self.status()

    def resume(self, node, began=1, round_=0, ended=0, more=None):
        """RESUMED, and what it has missed; the agent."""
        a = self.keep(Agent(self, node))
        number = a.send(RESUME, pack('sbIbl', node, began, round_, ended, []))
        said = [a.reply(number)]
        got = [a.await_notice(more)] if more else []
        if not self.server.etcd or not more:
            # in etcd a PONG overtakes what is being kept
            a.ask(PING, b'')
        got += [n for n in a.notices if n[0] != STATE]
        return a, ['RESUME', node, said, got]

    def forget(self):
        for c in self.conns:
            c.close()
        self.conns = []


def keys(w, *names):
    return ['MULTI_GET', w.ask(MULTI_GET, pack('l', names))]


(T_VALIDATE, T_SET, T_COMPARE_SET, T_GET, T_ADD, T_DELETE, T_APPEND, T_MULTI_SET,
 T_PUSH, T_POP, T_LEN, T_LIST, T_BARRIER) = (0, 1, 2, 3, 4, 8, 9, 11, 14, 15, 16,
                                             17, 18)


def t(op, *texts, number=None, count=None):
    out = bytes([op])
    if count is not None:
        out += struct.pack('<Q', count)
    for x in texts:
        out += struct.pack('<Q', len(x)) + x.encode()
    return out + (b'' if number is None else struct.pack('<q', number))


class Torch:
    def __init__(self, j, port):
        self.s = j.keep(socket.create_connection(('127.0.0.1', port), 60))
        self.s.sendall(t(T_VALIDATE) + struct.pack('<I', 0x3C85F7CE))

    def read(self, n):
        return Conn.read(self, n)

    def byte(self):
        return self.read(1)

    def number(self):
        return struct.unpack('<q', self.read(8))[0]

    def text(self):
        return self.read(self.number())

    def all(self):
        """Every key with its value, and what is queued."""
        self.s.sendall(t(T_LIST))
        names = sorted(self.text() for _ in range(self.number()))
        said = []
        for name in names:
            self.s.sendall(t(T_GET, name.decode()))
            said.append((name, self.text()))
        self.s.sendall(t(T_LEN, 'q'))
        n = self.number()
        for _ in range(n):
            self.s.sendall(t(T_POP, 'q'))
            said.append((self.number(), self.text()))
        return said
