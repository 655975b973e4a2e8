# The macros in the arguments of workers.
# covers: launcher/plan launcher/dry_run.c
load ../lib

lines() {
	sort <<<"$out" | sed 's/^\[[0-9]*\] //'
}

@test "the macro for the local rank is replaced in arguments" {
	expect 0 ddprun --nproc-per-node 2 echo 'a${local_rank}b' '$local_rank' \
		'$$' '${ranks}' '$local_ranks' '$rank'
	[ "$(lines)" = $'a0b 0 $$ ${ranks} $local_ranks $rank\na1b 1 $$ ${ranks} $local_ranks $rank' ]
}

@test "each macro has the value of the worker's variable" {
	expect 0 ddprun --nproc-per-node 2 --role actor --max-restarts 3 --rdzv-id j7 \
		sh -c '
		[ "$1" = "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE" ] &&
		[ "$2" = "$GROUP_RANK $GROUP_RANK $GROUP_WORLD_SIZE $GROUP_WORLD_SIZE" ] &&
		[ "$3" = "$MASTER_ADDR:$MASTER_PORT" ] &&
		[ "$4" = "$ROLE_NAME $ROLE_RANK $ROLE_WORLD_SIZE" ] &&
		[ "$5" = "0 3 j7" ] && echo same' sh \
		'${rank} ${local_rank} ${world_size} ${local_world_size}' \
		'${node_rank} ${group_rank} ${nnodes} ${group_world_size}' \
		'${master_addr}:${master_port}' \
		'${role_name} ${role_rank} ${role_world_size}' \
		'${restart_count} ${max_restarts} ${run_id}'
	[ "$(lines)" = $'same\nsame' ]
}

@test "the ranks in arguments are those of the whole job" {
	local port
	port=$(w_port free)
	for name in a b; do
		start $name ddprun --rdzv-endpoint "127.0.0.1:$port" --nnodes 2 \
			--nproc-per-node 2 echo '${rank}/${world_size}' \
			'${node_rank}/${nnodes}' '${local_rank}'
	done
	finish a
	local first=$out
	finish b
	[ "$(printf '%s\n%s\n' "$first" "$out" | sort)" = "[0] 0/4 0/2 0
[1] 1/4 0/2 1
[2] 2/4 1/2 0
[3] 3/4 1/2 1" ]
}

@test "a restarted worker gets the new attempt in its arguments" {
	expect 0 ddprun --max-restarts 1 sh -c 'echo "attempt $1"; exit $((1 - $1))' \
		sh '${restart_count}'
	[ "$(lines)" = $'attempt 0\nattempt 1' ]
}

@test "a Python script's own name may contain a macro" {
	command -v python3 >/dev/null || skip "python3 is not installed"
	echo 'print("first")' >r0.py
	echo 'print("second")' >r1.py
	expect 0 ddprun --nproc-per-node 2 'r${rank}.py'
	[ "$(lines)" = $'first\nsecond' ]
}

@test "a dry run keeps the macros whose values only a run knows" {
	expect 0 ddprun --dry-run --nproc-per-node 2 echo '${rank}' '${master_port}'
	has "$out" "^  argv     echo 1 '\\$\{master_port\}'$"
	expect 0 ddprun --dry-run --nnodes 2 --rdzv-endpoint 192.0.2.1:29400 \
		echo '${rank}' '${local_rank}' '${nnodes}'
	has "$out" "^  argv     echo '\\$\{rank\}' 0 2$"
}
