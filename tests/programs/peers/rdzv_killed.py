"""rdzv_killed.py: a ddprdzv that is killed and started again, with its port and its
journal, in memory, in a file or in etcd.
"""
import atexit
import base64
import json
import os
import socket
import subprocess
import urllib.request

from rdzv_wire import *


class Server:
    """Holds the port and the journal, which outlive the processes."""

    def __init__(self, name, place, ddprdzv, etcd):
        self.name, self.process, self.etcd = name, None, etcd
        self.place, self.ddprdzv = place, ddprdzv
        self.listener = socket.create_server(('127.0.0.1', 0), backlog=256)
        self.at = self.listener.getsockname()
        self.fds = [self.listener.fileno()]
        self.log = open('%s.log' % name, 'wb')
        if place == 'memory':
            self.journal = os.memfd_create('journal')
            self.fds.append(self.journal)
            self.options = ['--journal-fd', str(self.journal)]
        elif place == 'file':
            self.options = ['--journal', name + '.journal']
        else:
            self.options = ['--etcd', etcd, '--job', name, '--etcd-ttl', '600',
                            '--etcd-lease', str(4711 + 2 * hash(name) % 10 ** 12)]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [self.ddprdzv, '--auth', 'none', '--heartbeat-timeout', '600',
             '--silent-timeout', '3600', '--hello-timeout', '60',
             '--listen-fd', str(self.fds[0])] + self.options,
            pass_fds=self.fds, stdout=subprocess.DEVNULL, stderr=self.log)
        atexit.register(self.process.kill)

    def kill(self):
        assert self.process.poll() is None, 'it has ended unasked'
        self.process.kill()
        self.process.wait()

    def restart(self):
        self.kill()
        self.start()

    def begins_at(self):
        """Changes with each snapshot."""
        if self.etcd:
            key = base64.b64encode(b'/ddprun/%s/head' % self.name.encode())
            got = urllib.request.urlopen(
                'http://%s/v3/kv/range' % self.etcd,
                json.dumps({'key': key.decode()}).encode())
            return json.load(got)['kvs'][0]['value']
        if self.place == 'memory':
            return os.pread(self.journal, 8, 8)
        with open(self.name + '.journal', 'rb') as f:
            return f.read(16)[8:]

    def compact(self, job):
        """So much is written, and nothing of it is left, that a snapshot is."""
        before = self.begins_at()
        ballast = Job(self, job)
        if not self.etcd:
            ballast.running()
        w = ballast.worker(1, round_=job.startswith('second_round'))
        assert w.code == 0, w.text
        for i in range(40):
            w.ask(SET, pack('ss', 'ballast', b'x' * (1 << 20)))
            w.ask(DELETE, pack('s', 'ballast'))
            if self.begins_at() != before:
                break
        else:
            raise AssertionError('no snapshot was written')
        ballast.status()
        ballast.forget()
