/* server_input.h: what an input of fuzz_server means: segments of a byte that
 * names the client and how it goes on, one of how many bytes follow, and the
 * bytes. If the input's size is odd, all but the strangers authenticate. */
#ifndef TESTS_FUZZ_SERVER_INPUT_H
#define TESTS_FUZZ_SERVER_INPUT_H

enum { CLIENTS = 8, AGENT = 0, WORKERS = 1, TOOL = 3, STRANGERS = 4 };
enum { WHOSE = 0x07, AS_IT_IS = 0x08, CLOSES = 0x40, RESETS = 0x80 };
enum { SEGMENT_MAX = 255 };

#endif
