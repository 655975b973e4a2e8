"""rdzv_greedy.py HOST:PORT WAY: a job that makes a ddprdzv --auth none --max-memory 4 MiB
hold what it can, one WAY, until one of its clients is refused: prints the refusal, then
each line of stdin is answered by "modest" when a second job was served as ever.
"""
import select
import struct
import sys

from rdzv_wire import (BARRIER, ERROR, GATHER, GET, REPLY, REQUEST, SET, Job, Reader,
                       pack)

PART = 1_500_000
VALUE = b'v' * 400_000


class At:
    def __init__(self, text):
        host, port = text.rsplit(':', 1)
        self.at = (host, int(port))


def refusal(conns):
    """The text of the first error that one of them gets."""
    while True:
        for s in select.select([c.s for c in conns], [], [])[0]:
            c = next(c for c in conns if c.s is s)
            _, kind, _, body = c.frame()
            if kind == ERROR:
                return Reader(body).take('is')[1].decode()


def parts(job):
    """Requests that do not end."""
    conns = [job.worker(r) for r in range(4)]
    for c in conns:
        c.s.sendall(struct.pack('<IBBHI', 16_000_000, SET, REQUEST, 0, 2) +
                    b'x' * PART)
    return refusal(conns)


def answers(job):
    """Answers that nobody reads before one has been refused, as the server's log says:
    a line of stdin."""
    conns = [job.worker(r) for r in range(8)]
    assert conns[0].ask(SET, pack('ss', 'k', VALUE))[0] == REPLY
    for c in conns:
        for _ in range(40):
            c.send(GET, pack('s', 'k'))
    sys.stdin.readline()
    return 'as the log says'


def waits(job, type_=BARRIER):
    """Barriers of long names to which nobody else comes."""
    conns = [job.worker(r) for r in range(2)]
    for rank, c in enumerate(conns):
        for i in range(1000):
            key = f'{rank} {i} ' + 'k' * 3000
            c.send(type_, pack('sII', key, 2, 0xffffffff) +
                   (pack('s', '') if type_ == GATHER else b''))
    return refusal(conns)


def gathers(job):
    return waits(job, GATHER)


def main():
    server = At(sys.argv[1])
    greedy, modest = Job(server, 'greedy'), Job(server, 'modest')
    greedy.running(nproc=8)
    modest.running(nproc=1)
    other = modest.worker()
    print(globals()[sys.argv[2]](greedy), flush=True)
    for _ in sys.stdin:
        assert other.ask(SET, pack('ss', 'k', VALUE))[0] == REPLY
        kind, body = other.ask(GET, pack('s', 'k'))
        assert kind == REPLY and Reader(body).take('bs') == [1, VALUE], kind
        # and the rest of the greedy one is refused, not ended
        print('modest', flush=True)
        greedy.forget()


main()
