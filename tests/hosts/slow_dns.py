"""slow_dns.py: a name server that is silent at first.

  slow_dns.py NAME ADDRESS FILE

Answers queries for NAME with ADDRESS once FILE exists, and none before. Prints a line
when it listens, at port 53 of all addresses, and one for each query.
"""
import os
import socket
import struct
import sys

name, address, ready = sys.argv[1:4]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 53))
print("listening", flush=True)
while True:
    query, peer = s.recvfrom(512)
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    asked, (kind,) = ".".join(labels), struct.unpack("!H", query[at + 1:at + 3])
    print("asked for", asked, kind, flush=True)
    if not os.path.exists(ready):
        continue
    known = asked == name
    answers = known and kind == 1
    head = query[:2] + struct.pack("!HHHHH", 0x8180 | (0 if known else 3), 1,
                                   int(answers), 0, 0)
    body = query[12:at + 5]
    if answers:
        body += struct.pack("!HHHIH", 0xC00C, 1, 1, 1, 4) + socket.inet_aton(address)
    s.sendto(head + body, peer)
