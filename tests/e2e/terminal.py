"""terminal.py STEP... -- COMMAND...: runs the command as the session leader of a new
terminal, and types and reads in place of a person:

  expect:REGEX    waits for output that matches, from the last match on
  send:TEXT       types it, with Python's escapes (\\x03 is Ctrl-C)
  paste:N         types N letters meanwhile
  size:CxR        resizes the window
  kill:SIGNAL     sends it to the command
  stopped         waits until the command is suspended; then the terminal must be as
                  it was in the beginning
  continue        continues it
  restored        waits until the terminal is as it was

Prints what the terminal shows, and exits as the command does. A step that is not done
after 60 s is an error. After the last step it reads until the end.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import threading
import time

LIMIT = 60


class Terminal:
    def __init__(self, command):
        self.master, worker = pty.openpty()
        self.worker = worker  # kept open: its settings are compared
        self.resize("80x24")
        self.before = termios.tcgetattr(worker)
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(worker, termios.TIOCSCTTY, 0)
            for fd in 0, 1, 2:
                os.dup2(worker, fd)
            os.closerange(3, 100)
            os.execvp(command[0], command)
        self.seen, self.at, self.status = "", 0, None

    def resize(self, size):
        columns, rows = map(int, size.split("x"))
        fcntl.ioctl(self.worker, termios.TIOCSWINSZ,
                    struct.pack("4H", rows, columns, 0, 0))

    def read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        text = os.read(self.master, 65536).decode(errors="replace")
        sys.stdout.write(text)
        sys.stdout.flush()
        self.seen += text
        return True

    def is_restored(self):
        return termios.tcgetattr(self.worker) == self.before

    def has_stopped(self):
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        if pid and not os.WIFSTOPPED(status):
            self.status = status
            raise SystemExit("terminal.py: the command has ended")
        return pid and os.WIFSTOPPED(status)

    def wait(self, what, is_done):
        until = time.monotonic() + LIMIT
        while not is_done():
            self.read(0.02)
            if time.monotonic() > until:
                raise SystemExit("terminal.py: in vain: " + what)

    def found(self, pattern):
        match = re.compile(pattern, re.M).search(self.seen, self.at)
        self.at = match.end() if match else self.at
        return match

    def paste(self, n):
        while n > 0:
            n -= os.write(self.master, b"a" * min(n, 4096))

    def take(self, step):
        word, _, text = step.partition(":")
        if word == "expect":
            self.wait(step, lambda: self.found(text))
        elif word == "send":
            os.write(self.master, text.encode().decode("unicode_escape").encode())
        elif word == "paste":
            threading.Thread(target=self.paste, args=(int(text),),
                             daemon=True).start()
        elif word == "size":
            self.resize(text)
        elif word == "kill":
            os.kill(self.pid, getattr(signal, "SIG" + text))
        elif word == "stopped":
            self.wait(step, self.has_stopped)
            if not self.is_restored():
                raise SystemExit("terminal.py: not as it was")
        elif word == "continue":
            os.kill(self.pid, signal.SIGCONT)
        else:
            self.wait(step, self.is_restored)

    def has_ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def end(self):
        self.wait("the command's end", self.has_ended)
        while self.read(0):
            pass
        if not self.is_restored():
            raise SystemExit("terminal.py: not as it was")
        if os.WIFSIGNALED(self.status):
            return 128 + os.WTERMSIG(self.status)
        return os.WEXITSTATUS(self.status)


def main():
    end = sys.argv.index("--")
    terminal = Terminal(sys.argv[end + 1:])
    try:
        for step in sys.argv[1:end]:
            terminal.take(step)
        code = terminal.end()
    finally:
        if terminal.status is None:
            os.kill(terminal.pid, signal.SIGKILL)
    sys.exit(code)


main()
