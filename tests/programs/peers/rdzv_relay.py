"""rdzv_relay.py HOST:PORT FD [ACT WAY N [always]] [clock=A,B,C[,once]]: what stands
between a client and its ddprdzv, passes the proof on, and then does one thing to what
follows.

Listens, prints 'at HOST:PORT'; keeps all that goes through it in the file FD. ACT is done to
record N (from 0) of the first connection that has one (always: of each), up to the
server or down from it, and printed:

  flip      one bit of it is changed
  replay    it arrives twice
  reorder   it arrives after the next record
  drop      it does not arrive
  truncate  half of it arrives, and then the connection ends
  cut       its end does not arrive, but the next record does
  plain     a frame that is not a record arrives before it

clock: before the greeting of each connection (once: of the first) is passed on, A is
written to descriptor 7, for libfaketime; B before the HELLO; C before the reply to it.
"""
import os
import socket
import struct
import sys
import threading

lock = threading.Lock()
done = False


def read(s, n):
    got = b''
    while len(got) < n:
        more = s.recv(n - len(got))
        if not more:
            break
        got += more
    return got


def frame(s):
    """As it is: HELLO or WELCOME."""
    head = read(s, 12)
    return head + read(s, struct.unpack_from('<I', head)[0] if len(head) == 12 else 0)


def record(s):
    head = read(s, 4)
    if len(head) < 4:
        return b''
    return head + read(s, struct.unpack('<I', head)[0] + 16)


def flip(r):
    return [r[:-20] + bytes([r[-20] ^ 1]) + r[-19:]]


ACTS = {
    'flip': flip,
    'replay': lambda r: [r, r],
    'reorder': lambda r: [],
    'drop': lambda r: [],
    'truncate': lambda r: [r[:len(r) // 2], None],
    'cut': lambda r: [r[:-1]],
    'plain': lambda r: [struct.pack('<IBBHI', 0, 37, 0, 0, 9), r],
}


def is_now(number):
    global done
    with lock:
        if number != act_at or done and not always:
            return False
        done = True
    print('did', act, way, flush=True)
    return True


def send(to, data):
    with lock:
        kept.write(data)
        kept.flush()
    to.sendall(data)


def pass_on(here, to, mine):
    """Records from here, to there; mine: this is the way that ACT is for."""
    number, held = 0, b''
    while True:
        r = record(here)
        if not r:
            break
        out = [r]
        if mine and is_now(number):
            out = ACTS[act](r)
            held = r if act == 'reorder' else b''
        elif held:
            out, held = [r, held], b''
        number += 1
        for part in out:
            if part is None:
                to.shutdown(socket.SHUT_RDWR)
                return
            send(to, part)


def set_clock(steps, part):
    if steps:
        os.pwrite(7, steps[part].encode() + b'\n', 0)
        print('clock', steps[part], flush=True)


def both_ways(client, server, steps):
    def one(here, to, first, its_way):
        try:
            opening = read(here, first)
            if its_way == 'down':
                set_clock(steps, 0)
            send(to, opening)
            opening = frame(here)
            set_clock(steps, 1 if its_way == 'up' else 2)
            send(to, opening)
            pass_on(here, to, way == its_way)
        except OSError:
            pass
        for s in (here, to):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
    threading.Thread(target=one, args=(server, client, 56, 'down')).start()
    one(client, server, 8, 'up')


steps = [a[6:].split(',') for a in sys.argv if a.startswith('clock=')]
steps = steps[0] if steps else None
sys.argv = [a for a in sys.argv if not a.startswith('clock=')]
where = sys.argv[1].rsplit(':', 1)
kept = os.fdopen(int(sys.argv[2]), 'wb')
act, way, act_at = (sys.argv[3:6] + ['', '', -1])[:3]
act_at = int(act_at)
always = 'always' in sys.argv
listener = socket.create_server(('127.0.0.1', 0))
print('at 127.0.0.1:%d' % listener.getsockname()[1], flush=True)
while True:
    caller = listener.accept()[0]
    callee = socket.create_connection((where[0], int(where[1])))
    for end in (caller, callee):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=both_ways, args=(caller, callee, steps),
                     daemon=True).start()
    steps = steps if 'once' not in (steps or []) else None
