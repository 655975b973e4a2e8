# covers: launcher/inspect rendezvous/query
load ../lib
load netns

# A job that hangs, seen from one host.

setup() {
	lib_setup
	hosts_up 2
	J=dump.$TEST_COOKIE
}

# dump_on H OPTIONS...: its texts are $out and $err
dump_on() {
	start_on "$1" dump ddprun dump --no-stacks --job "$J" "${@:2}"
	finish dump
}

# until_hang H: waits until H shows three of four ranks in the third call.
until_hang() {
	local end=$((SECONDS + 60))
	while [ $SECONDS -lt $end ]; do
		start_on "$1" dump ddprun dump --no-stacks --job "$J"
		finish dump -
		[ "$(grep -cE '^  in all_reduce #3 ' <<<"$out")" != 3 ] ||
			return 0
	done
	echo "they are not there:"
	echo "$out"
	return 1
}

@test "dump on either host shows all ranks, and names a node that is stopped" {
	local h agent
	for h in h1 h2; do
		start_on "$h" "on_$h" bash -c 'echo agent $$; exec "$@"' bash \
			ddprun --nnodes 2 --nproc-per-node 2 --rdzv-id "$J" \
			--rdzv-endpoint "${at[h1]}:29400" \
			--heartbeat-timeout 300 c_fault late 1
	done
	for h in h1 h2; do
		until_hang "$h"
		[ "$(grep -E '^rank ' <<<"$out" | cut -d ' ' -f 1-2 | xargs)" = \
			"rank 0 rank 1 rank 2 rank 3" ]
		[ "$HOSTS" = loopback ] || {
			has "$out" "^job '$J', attempt 1: 2 of 4 ranks are on h1$"
			has "$out" "^job '$J', attempt 1: 2 of 4 ranks are on h2$"
			has "$out" '^3 of 4 ranks have reached all_reduce #3 .*; missing: rank 1 \(h1\)$'
		}
		has "$out" '^  in all_reduce #3 .*; missing: rank 1; unknown: 2 ranks of other nodes$'
	done
	await "$T/on_h2.out" '^agent'
	agent=${line#* }
	start_on h2 stopper kill -STOP "$agent"
	finish stopper
	dump_on h1 --timeout 4
	[ "$(grep -c '^rank ' <<<"$out")" = 2 ]
	has "$out" '^node [01] \(.*\) did not answer within 4 s; the server has not heard from it for [0-9.]+ s$'
	start_on h2 goer kill -CONT "$agent"
	finish goer
	until_hang h1
	signal on_h1 TERM
	finish on_h1 143
	finish on_h2 -
}

@test "the page on each host has the stack of a rank of another host that hangs, escaped" {
	local h name=$'pau\e[31mse.py'
	cat >"$name" <<-'END'
		import ctypes, os, signal
		libddp = ctypes.CDLL(os.environ["LIBDDP"])
		world, one = ctypes.c_void_p(), ctypes.c_float(1)
		libddp.ddp_init(ctypes.byref(world), None)


		def all_reduce():
		    return libddp.ddp_all_reduce(world, ctypes.byref(one), ctypes.byref(one),
		                                 ctypes.c_size_t(1), 0, 0)


		def last_step():
		    while os.environ["RANK"] == "1":
		        signal.pause()


		all_reduce()
		last_step()
		os._exit(all_reduce() != 0)
	END
	export LIBDDP=$O/libddp.so DDP_TIMEOUT=3 DDP_TEST_WATCH_MS=1000
	for h in h1 h2; do
		start_on "$h" "on_$h" ddprun --nnodes 2 --node-rank $((${h#h} - 1)) \
			--rdzv-endpoint "${at[h1]}:29400" --log-dir "$T/$h" python3 "$name"
	done
	for h in h1 h2; do
		finish "on_$h" 79
		has "$err" "^ddprun: job 'none' failed: rank 1 \(local rank 0\) on "
		has "$err" '^\|    #py0 last_step at .*/pau\?\[31mse\.py:14$'
		lacks "$err" $'\e'
		grep -qF 'pau?[31mse.py:14' "$T/$h"/*/attempt_0/report.json
	done
}
