# ${port}: a reserved port for each worker, only where it is asked for.
# covers: launcher/plan launcher/worker launcher/agent
load ../lib

@test "each worker can listen on its own port, which it also has in DDP_WORKER_PORT" {
	expect 0 ddprun --nproc-per-node 3 sh -c 'w_port take $1 >&2
		[ $1 = $DDP_WORKER_PORT ] && echo $1' sh '${port}'
	[ "$(grep -cE '^\[[0-2]\] [1-9][0-9]*$' <<<"$out")" = 3 ]
	[ "$(sed 's/.* //' <<<"$out" | sort -u | wc -l)" = 3 ]
}

@test "the workers of two nodes have ports of their own" {
	local meet name first
	meet=127.0.0.1:$(w_port free)
	for name in a b; do
		start $name ddprun --nnodes 2 --nproc-per-node 2 \
			--rdzv-endpoint "$meet" echo '${rank}' '${port}'
	done
	finish a
	first=$out
	finish b
	printf '%s\n%s\n' "$first" "$out" | sort >ports
	[ "$(cut -d' ' -f1,2 ports)" = $'[0] 0\n[1] 1\n[2] 2\n[3] 3' ]
	[ "$(cut -d' ' -f3 ports | sort -u | grep -cE '^[1-9][0-9]*$')" = 4 ]
}

@test "two jobs that run on a host at once have no port in common" {
	mkfifo go
	exec 7<>go
	for name in a b; do
		start $name ddprun --nproc-per-node 8 \
			sh -c 'echo $1 $JAX_COORDINATOR_PORT; read -r _ <go' sh '${port}'
	done
	for name in a b; do
		for rank in 0 1 2 3 4 5 6 7; do
			await $name.out "\\[$rank\\] [1-9]"
		done
	done
	for ((i = 0; i < 16; i++)); do
		echo >&7
	done
	exec 7>&-
	finish a
	finish b
	# 8 of each, and one of each job's coordinator
	[ "$(cat a.out b.out | sed 's/^.*\] //' | tr ' ' '\n' | sort -u | wc -l)" = 18 ]
}

@test "a restarted worker gets another port" {
	expect 0 ddprun --max-restarts 2 sh -c 'echo $1
		[ $TORCHELASTIC_RESTART_COUNT = 2 ]' sh '${port}'
	[ "$(sort -u <<<"$out" | grep -cE '^\[0\] [1-9][0-9]*$')" = 3 ]
}

@test "a file names the hosts and ports of all workers by rank, on two nodes, again after a restart" {
	local meet name all
	meet=127.0.0.1:$(w_port free)
	for name in a b; do
		start $name ddprun --nnodes 2 --nproc-per-node $([ $name = a ] && echo 2 || echo 1) \
			--max-restarts 1 --rdzv-endpoint "$meet" sh -c '
			[ $1 = $DDP_PEERS_FILE ] && [ "$(sed -n $((RANK + 1))p $1)" = "$2 $DDP_WORKER_PORT" ] &&
			echo "$TORCHELASTIC_RESTART_COUNT: $(tr "\n" , <$1)"
			[ $TORCHELASTIC_RESTART_COUNT$RANK != 02 ] || exit 1
			[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec tail -f /dev/null' \
			sh '${peers_file}' 127.0.0.1
	done
	finish a
	all=$out
	finish b
	all=$(printf '%s\n' "$all" "$out" | sed -n 's/^\[[0-2]\] 1: //p')
	[ "$(wc -l <<<"$all")" = 3 ]
	[ "$(sort -u <<<"$all" | wc -l)" = 1 ]
	[ "$(sed 1q <<<"$all" | tr , '\n' | sort -u | grep -cE '^127\.0\.0\.1 [1-9][0-9]*$')" = 3 ]
	# the first attempt's, which are others
	has "$(cat a.out b.out)" '^\[2\] 0: '
	[ "$(sed -n 's/^\[2\] 0: //p' a.out b.out)" != "$(sed 1q <<<"$all")" ]
}

@test "TensorFlow's workers have the file as well, and IPv6 addresses without brackets" {
	expect 0 ddprun --nproc-per-node 2 --env tf sh -c 'grep -c "^127.0.0.1 [1-9]" $DDP_PEERS_FILE'
	[ "$(sort <<<"$out")" = $'[0] 2\n[1] 2' ]
	expect 0 ddprun --rdzv-endpoint '[::1]:0' --nproc-per-node 2 sh -c 'cat $1' sh '${peers_file}'
	[ "$(grep -cE '^\[[01]\] ::1 [1-9][0-9]*$' <<<"$out")" = 4 ]
}

@test "without the macro there is no port, and none is inherited" {
	DDP_WORKER_PORT=9 DDP_PEERS_FILE=/x expect 0 ddprun \
		sh -c 'echo ${DDP_WORKER_PORT-none} ${DDP_PEERS_FILE-none} $1' sh '${ports}'
	[ "$out" = '[0] none none ${ports}' ]
}

@test "a dry run reserves no port" {
	expect 0 ddprun --dry-run echo '${port}'
	has "$out" "^  argv     echo '\\$\{port\}'$"
	has "$out" '^  later .* DDP_WORKER_PORT'
	expect 0 ddprun --dry-run echo
	lacks "$out" 'DDP_WORKER_PORT'
}

@test "ports fit into the limit of open files, beside the files of --tee" {
	ulimit -Sn 256
	expect 0 ddprun --nproc-per-node 64 --max-restarts 1 --tee 3 --log-dir "$T/logs" \
		sh -c '[ $TORCHELASTIC_RESTART_COUNT = 1 ] && echo $1' sh '${port}'
	[ "$(sed 's/.* //' <<<"$out" | sort -u | grep -cE '^[1-9][0-9]*$')" = 64 ]
}
