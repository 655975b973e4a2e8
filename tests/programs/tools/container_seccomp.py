"""container_seccomp.py: writes to stdout a seccomp filter (a BPF program, for bwrap
--seccomp) that refuses what the default profiles of docker and podman refuse to a
container without capabilities, and also ptrace and process_vm_readv, as older kernels
and stricter profiles do. clone3 and close_range do not exist there: C libraries fall
back to the older calls.
"""
import errno
import platform
import struct
import sys

# name: number on x86_64, on aarch64
REFUSED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "mbind": (237, 235),
    "set_mempolicy": (238, 237), "get_mempolicy": (239, 236),
    "move_pages": (279, 239), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40),
    "umount2": (166, 39), "pivot_root": (155, 41), "bpf": (321, 280),
    "keyctl": (250, 219), "open_by_handle_at": (304, 265),
    "syslog": (103, 116), "acct": (163, 89), "reboot": (169, 142),
}
ABSENT = {"clone3": (435, 435), "close_range": (436, 436)}

LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000

column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
program = [(LOAD, 0, 0, 0)]  # the number of the call
for numbers, error in (REFUSED, errno.EPERM), (ABSENT, errno.ENOSYS):
    for pair in numbers.values():
        program.append((JUMP_EQUAL, 0, 1, pair[column]))
        program.append((RETURN, 0, 0, ERROR | error))
program.append((RETURN, 0, 0, ALLOW))
for line in program:
    sys.stdout.buffer.write(struct.pack("=HBBI", *line))
