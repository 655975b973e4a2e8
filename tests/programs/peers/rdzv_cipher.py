"""rdzv_cipher.py: the records of docs/protocol-records.txt (ChaCha20-Poly1305, RFC 8439), written from those pages alone.
"""
import struct

TEXT_MAX = 16384


def chacha_block(key, counter, nonce):
    start = (list(struct.unpack('<4I', b'expand 32-byte k')) +
             list(struct.unpack('<8I', key)) + [counter] +
             list(struct.unpack('<3I', nonce)))
    s = start[:]

    def rotate(a, n):
        return (a << n | a >> (32 - n)) & 0xffffffff

    def quarter(a, b, c, d):
        for x, y, z, n in (a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7):
            s[x] = s[x] + s[y] & 0xffffffff
            s[z] = rotate(s[z] ^ s[x], n)

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack('<16I', *(a + b & 0xffffffff for a, b in zip(s, start)))


def chacha(key, nonce, data):
    out = b''
    for i in range(0, len(data), 64):
        block = chacha_block(key, 1 + i // 64, nonce)
        out += bytes(a ^ b for a, b in zip(data[i:i + 64], block))
    return out


def tag(key, nonce, extra, ciphertext):
    once = chacha_block(key, 0, nonce)
    r = int.from_bytes(once[:16], 'little') & 0x0ffffffc0ffffffc0ffffffc0fffffff
    data = (extra + bytes(-len(extra) % 16) + ciphertext +
            bytes(-len(ciphertext) % 16) +
            struct.pack('<QQ', len(extra), len(ciphertext)))
    sum_ = 0
    for i in range(0, len(data), 16):
        n = int.from_bytes(data[i:i + 16] + b'\1', 'little')
        sum_ = (sum_ + n) * r % (2**130 - 5)
    return (sum_ + int.from_bytes(once[16:32], 'little') & 2**128 - 1).to_bytes(
        16, 'little')


class Way:
    """One direction of a connection."""

    def __init__(self, key):
        self.key, self.count = key, 0

    def nonce(self):
        self.count += 1
        return struct.pack('<QI', self.count - 1, 0)

    def seal(self, text):
        out = b''
        for i in range(0, len(text), TEXT_MAX):
            part, nonce = text[i:i + TEXT_MAX], self.nonce()
            head = struct.pack('<I', len(part))
            body = chacha(self.key, nonce, part)
            out += head + body + tag(self.key, nonce, head, body)
        return out

    def open(self, record):
        nonce, head, body = self.nonce(), record[:4], record[4:-16]
        if tag(self.key, nonce, head, body) != record[-16:]:
            raise ValueError('record %d does not authenticate' % (self.count - 1))
        return chacha(self.key, nonce, body)
