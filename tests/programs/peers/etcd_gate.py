"""etcd_gate.py HOST:PORT WORD...: a way to that member of etcd. Prints where it
listens; holds each request that has all of these words (a key has to be in
base64, as in JSON for etcd), prints `held`, and lets them through when it
reads a line from stdin; prints `answered` when etcd has answered such a request,
even if its client is gone. All else passes at once. Ends when it is killed.
"""
import socket
import sys
import threading

host, port = sys.argv[1].rsplit(':', 1)
words = [w.encode() for w in sys.argv[2:]]
opened = threading.Event()
late = {}  # connections of ours with a request that was held


def open_it():
    sys.stdin.readline()
    opened.set()


def hold(b):
    if not opened.is_set():
        late[b] = threading.Event()
        print('held', flush=True)
        opened.wait()


def pump(a, b, looks):
    data = b'x'
    while data:
        try:
            data = a.recv(1 << 16)
            if looks and all(w in data for w in words):
                hold(b)
            if data and not looks and a in late and opened.is_set():
                late.pop(a).set()
                print('answered', flush=True)
            b.sendall(data)
            answered = looks and late.get(b)
            if answered:  # etcd drops what nobody waits for
                answered.wait(60)
        except OSError:
            break
    for s in (a, b):
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


threading.Thread(target=open_it, daemon=True).start()
at = socket.create_server(('127.0.0.1', 0))
print('127.0.0.1:%d' % at.getsockname()[1], flush=True)
while True:
    here, _ = at.accept()
    there = socket.create_connection((host, int(port)))
    for s in (here, there):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for pair in ((here, there, True), (there, here, False)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
