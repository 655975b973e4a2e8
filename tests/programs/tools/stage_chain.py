#!/usr/bin/env python3
"""stage_chain.py SOURCE FOLDER... [WORD=N:AT]... [raw=N]: stage helpers of nodes 0,
1, ..., one for each FOLDER, as their agents start them, with a relay in each link.
Link N is from node N to node N + 1. What node N reports is printed after `N: `.

  flip=N:AT     byte AT that link N carries down is changed, once
  flips=N:AT    the same on each connection
  skip=N:AT     bytes are lost after byte AT, once
  stop=N:AT     after AT bytes of link N all helpers are killed
  raw=N         node N has no zstd
"""
import os
import signal
import socket
import struct
import subprocess
import sys
import threading

TOKEN = bytes(range(32))


def piece(text):
    return struct.pack("<I", len(text)) + text.encode()


class Relay:
    """A link: listens for the node below, and connects to the one above."""

    def __init__(self, number, port, faults, stop):
        self.number, self.up, self.faults, self.stop = number, port, faults, stop
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            below = self.listener.accept()[0]
            above = socket.create_connection(("127.0.0.1", self.up))
            for way in (below, above, None), (above, below, self.change):
                threading.Thread(target=self.carry, args=way, daemon=True).start()

    def carry(self, source, to, change):
        at = 0
        try:
            while data := source.recv(1 << 16):
                to.sendall(change(data, at) if change else data)
                at += len(data)
        except OSError:
            pass
        for s in source, to:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def change(self, data, at):
        for word, link, where in list(self.faults):
            if link != self.number or not at <= where < at + len(data):
                continue
            i = where - at
            if word == "stop":
                self.stop()
            elif word == "skip":
                data = data[:i]
            else:
                data = data[:i] + bytes([data[i] ^ 1]) + data[i + 1:]
            if word != "flips":
                self.faults.remove((word, link, where))
        return data


def main():
    words = [w.split("=", 1) for w in sys.argv[2:] if "=" in w]
    folders = [w for w in sys.argv[2:] if "=" not in w]
    raw = {int(value) for word, value in words if word == "raw"}
    faults = [(word, *map(int, value.split(":"))) for word, value in words
              if word != "raw"]
    nodes, ended = [], set()
    port = 0

    def stop():
        for p in nodes:
            if p.pid not in ended:
                os.kill(p.pid, signal.SIGKILL)

    for i, folder in enumerate(folders):
        serves = i + 1 < len(folders)
        listener = socket.create_server(("127.0.0.1", 0))
        order = (piece("" if i else sys.argv[1]) + piece(folder) + piece("") +
                 piece("127.0.0.1") + struct.pack("<H", port) +
                 piece(f"node {i - 1} (n{i - 1})") + TOKEN + bytes([serves]) + TOKEN +
                 TOKEN)
        env = dict(os.environ, **({"DDP_STAGE_ZSTD": "0"} if i in raw else {}))
        nodes.append(subprocess.Popen(
            ["ddprun", "--stage-helper"], stdin=subprocess.PIPE, env=env,
            stdout=open(f"{folder}.reports", "wb"), pass_fds=[3],
            preexec_fn=lambda fd=listener.fileno(): os.dup2(fd, 3)))
        nodes[-1].stdin.write(order)
        nodes[-1].stdin.close()
        if serves:
            port = Relay(i, listener.getsockname()[1], faults, stop).port
    # the node that fails first ends the job
    for _ in nodes:
        pid, status = os.wait()
        ended.add(pid)
        if status:
            stop()
    for i, folder in enumerate(folders):
        for line in open(f"{folder}.reports"):
            if line[0] in "DAE":
                print(f"{i}: {line}", end="")


if __name__ == "__main__":
    os.open(os.devnull, os.O_RDONLY)  # so that descriptor 3 is not one of ours
    main()
