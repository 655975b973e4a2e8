# covers: rendezvous/auth launcher/membership launcher/logs
load ../lib
load netns

# Hosts whose clocks are an hour apart: the first failure is the first that the server
# saw, and no lease ends because of it.

setup() {
	lib_setup
	# its program fails if a process with its pid was killed before
	faketime=$(ls /usr/lib*/*/faketime/libfaketime.so.1 2>/dev/null) ||
		skip "no libfaketime here"
	[ -z "${SAN:-}" ] || skip "faketime must be loaded before the sanitizers"
	hosts_up 2
	job=(ddprun --nnodes 2 --nproc-per-node 1 --rdzv-endpoint
		"${at[h1]}:29400")
}

# Rank 1's clock is an hour behind: by timestamps it failed an hour before rank 0.
@test "with clocks an hour apart the page still names the first failure" {
	mkfifo first second
	worker='echo "up $(date +%s)"
		[ $RANK = 0 ] && { read _ <first; exit 3; }
		trap "exit 4" TERM
		: >second
		tail -f /dev/null & wait'
	start_on h1 on_h1 "${job[@]}" --node-rank 0 sh -c "cd $T; $worker"
	start_on h2 on_h2 env LD_PRELOAD="$faketime" FAKETIME=-1h "${job[@]}" --node-rank 1 \
		sh -c "cd $T; $worker"
	await on_h1.out '^\[0\] up '
	ahead=${line##* }
	await on_h2.out '^\[1\] up '
	[ $((ahead - ${line##* })) -gt 3000 ]
	read -r _ <second || true
	echo >first
	finish on_h1 3
	has "$err" 'failed: rank 0 .* on .*exited with code 3'
	finish on_h2 3
	has "$err" 'failed: rank 0 .* on .*exited with code 3'
}

@test "with clocks an hour apart a job succeeds" {
	start_on h1 on_h1 "${job[@]}" --node-rank 0 c_collectives 40000
	start_on h2 on_h2 env LD_PRELOAD="$faketime" FAKETIME=+1h \
		"${job[@]}" --node-rank 1 c_collectives 40000
	finish on_h1
	has "$out" '^\[0\] .*: ok$'
	finish on_h2
	has "$out" '^\[1\] .*: ok$'
}

@test "with clocks an hour apart the lines of both hosts are merged in their real order" {
	local worker
	mkfifo turn1 turn2
	worker='now() { date "+%F %T.%N $*"; }
		if [ $RANK = 0 ]; then
			now a; echo >turn1; read _ <turn2; now c; echo >turn1
		else
			read _ <turn1; now b; echo >turn2; read _ <turn1; now d
		fi'
	start_on h1 on_h1 "${job[@]}" --node-rank 0 --log-dir "$T/L" sh -c "cd $T; $worker"
	start_on h2 on_h2 env LD_PRELOAD="$faketime" FAKETIME=-1h "${job[@]}" --node-rank 1 \
		--log-dir "$T/L" sh -c "cd $T; $worker"
	finish on_h1
	finish on_h2
	expect 0 ddprun logs "$T/L"
	[ "$(sed 's/.* //' <<<"$out" | tr -d '\n')" = abcd ]
	# where there are no hosts of one's own, both have this host's name
	local here
	here=$(uname -n)
	has "$err" "the clock of (h2|$here) is about (3599|3600|3601) s behind that of (h1|$here)"
}
