/* server_input.h: the format of fuzz_server's inputs: segments of a byte that
 * names the client and what it does next, a byte with the length, and that many
 * bytes. If the input's size is odd, all clients but the strangers
 * authenticate. */
#ifndef TESTS_FUZZ_SERVER_INPUT_H
#define TESTS_FUZZ_SERVER_INPUT_H

enum { CLIENTS = 8, AGENT = 0, WORKERS = 1, TOOL = 3, STRANGERS = 4 };
enum { WHOSE = 0x07, AS_IT_IS = 0x08, CLOSES = 0x40, RESETS = 0x80 };
enum { SEGMENT_MAX = 255 };

#endif
