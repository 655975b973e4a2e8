# The store's hard cases, over real sockets and in both of its protocols: requests
# that arrive in pieces, end anywhere, exceed limits, or are reset while they wait.
# Afterwards the server still serves, with the memory that it had.
# covers: rendezvous/store rendezvous/torch rendezvous/server
load ../lib

setup() {
	lib_setup
	start server ddprdzv --listen 127.0.0.1:0 --auth none
	await "$T/server.err" 'listening on'
	at=${line##* }
}

# small: the server has less than 64 MiB in memory. AddressSanitizer keeps what is
# freed, so that the figure means nothing there.
small() {
	local kib
	kib=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' \
		"/proc/${pid[server]}/status")
	[ "$kib" -lt 65536 ] || grep -q __asan_init "$DDPRDZV"
}

@test "a session that arrives one byte at a time works" {
	expect 0 rdzv_hard bytes "$at"
}

@test "complete requests are applied, whatever byte a session ends after" {
	expect 0 rdzv_hard cuts "$at"
	expect 0 rdzv_hard torch-cuts "$at"
}

@test "a SET followed by a FIN is applied, in PyTorch's protocol" {
	expect 0 rdzv_hard torch-fin "$at"
}

@test "a million waits use bounded memory, and those over the limit are refused" {
	expect 0 rdzv_hard waits "$at" 1000000
	has "$out" '^1024 parked, 998976 refused$'
	small
}

@test "one key over the limit is refused, and fits when another is deleted" {
	expect 0 rdzv_hard keys "$at"
	has "$out" 'is full: it has 1048576 keys, its limit'
}

@test "peers that reset while they wait leave nothing behind" {
	expect 0 rdzv_hard resets "$at" 2000
	expect 0 rdzv_hard torch-resets "$at" 500
	small
	expect 0 rdzv_hard bytes "$at"
}

@test "a client that does not read replies is throttled, and in the end gets them all" {
	expect 0 rdzv_hard deaf "$at"
	has "$out" '^[0-9]* answers$'
	small
}
