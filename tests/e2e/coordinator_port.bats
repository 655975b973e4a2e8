# JAX_COORDINATOR_PORT: a second port of rank 0's host, for the program's own use.
# covers: launcher/plan launcher/membership rendezvous/round
load ../lib

@test "rank 0 can listen on the coordinator's port, beside PyTorch's store" {
	expect 0 ddprun --nproc-per-node 2 sh -c '[ $RANK != 0 ] ||
		w_port take $JAX_COORDINATOR_PORT >&2
		[ $JAX_COORDINATOR_PORT != $MASTER_PORT ] && [ $1 = $JAX_COORDINATOR_PORT ] &&
		echo $TORCHELASTIC_USE_AGENT_STORE' sh '${coordinator_port}'
	[ "$(sort <<<"$out")" = $'[0] True\n[1] True' ]
}

@test "all nodes get the coordinator's port of the first node" {
	local port name show
	port=$(w_port free)
	show='[ $RANK != 0 ] || w_port take $JAX_COORDINATOR_PORT >&2
		echo $JAX_COORDINATOR_PORT $1'
	for name in a b; do
		start $name ddprun --nnodes 2 --rdzv-endpoint "127.0.0.1:$port" \
			sh -c "$show" sh '${coordinator_port}'
	done
	finish a
	local first=$out
	finish b
	[ "${first#* }" = "${out#* }" ]
	[[ ${out#* } =~ ^([1-9][0-9]*)\ ([1-9][0-9]*)$ ]]
	[ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ]
}

@test "each attempt has another port of the coordinator" {
	expect 0 ddprun --max-restarts 3 sh -c 'echo $1
		[ $TORCHELASTIC_RESTART_COUNT = 3 ]' sh '${coordinator_port}'
	[ "$(grep -cE '^\[0\] [1-9][0-9]*$' <<<"$out")" = 4 ]
	[ "$(sort -u <<<"$out" | wc -l)" = 4 ]
}

@test "where rank 0 hosts PyTorch's store, both names are of the same port" {
	TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 expect 0 ddprun \
		sh -c '[ $MASTER_PORT = $JAX_COORDINATOR_PORT ] && echo same'
	[ "$out" = "[0] same" ]
}

@test "the user's own port is kept, except that of a ddprun around this one" {
	JAX_COORDINATOR_PORT=9 expect 0 ddprun sh -c 'echo $JAX_COORDINATOR_PORT'
	[ "$out" = "[0] 9" ]
	expect 0 ddprun sh -c 'outer=$JAX_COORDINATOR_PORT exec ddprun sh -c \
		"test \$outer != \$JAX_COORDINATOR_PORT && echo another"'
	has "$out" '\[0\] another$'
}

@test "a dry run does not invent the port" {
	expect 0 ddprun --dry-run echo '${coordinator_port}'
	has "$out" '^  later .* JAX_COORDINATOR_PORT'
	lacks "$out" 'JAX_COORDINATOR_PORT='
	has "$out" "^  argv     echo '\\$\{coordinator_port\}'$"
	JAX_COORDINATOR_PORT=9 expect 0 ddprun --dry-run echo '${coordinator_port}'
	has "$out" '^  argv     echo 9$'
}
