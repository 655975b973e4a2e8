# Covers MPI programs under ddprun: the warning, and the variables that mislead them.
load ../lib

# A program that needs LIBRARY, which has nothing in it.
link_with() { # LIBRARY
	echo 'int nothing(void) { return 0; }' >"$T/l.c"
	echo 'int nothing(void); int main(void) { return nothing(); }' >"$T/p.c"
	cc -shared -fPIC -Wl,-soname,"$1" -o "$T/$1" "$T/l.c"
	cc -o "$T/prog" "$T/p.c" "$T/$1" -Wl,-rpath,"$T"
}

@test "ddprun warns once if N MPI processes would be N worlds of one" {
	link_with libmpi.so.20
	expect 0 ddprun --nproc-per-node 3 "$T/prog"
	has "$err" "^ddprun: warning: $T/prog is an MPI program \(it needs libmpi\.so\.20\), and its 3 processes are 3 MPI worlds of one process: ddprun does not know whether it starts up by PMI-1 or PMIx; try --mpi pmi or --mpi pmix, or start it with mpirun or srun"
	[ "$(grep -c 'MPI program' <<<"$err")" = 1 ]
	expect 0 ddprun --mpi none --nproc-per-node 2 "$T/prog"
	[ -z "$err" ]
	link_with libmpi.so.12
	expect 0 ddprun --nproc-per-node 2 "$T/prog"
	[ -z "$err" ]
}

@test "one MPI process is a world of one, and causes no warning" {
	link_with libmpi.so.20
	expect 0 ddprun "$T/prog"
	! grep -q 'MPI program' <<<"$err"
}

@test "a program that needs no MPI library causes no warning" {
	link_with libmpi_tools.so.1
	expect 0 ddprun --nproc-per-node 2 "$T/prog"
	! grep -q 'MPI program' <<<"$err"
}

show='echo "${TF_CONFIG-none} ${PADDLE_TRAINER_ID-none} ${HOROVOD_GLOO_IFACE-none}"'

@test "variables of another job are hidden from several workers, and ddprun reports it" {
	export TF_CONFIG='{"task": {"index": 0}}' PADDLE_TRAINER_ID=0 HOROVOD_GLOO_IFACE=lo
	expect 0 ddprun --nproc-per-node 2 sh -c "$show"
	[ "$(grep -c 'none none none' <<<"$out")" = 2 ]
	[ "$(grep -c 'not passed on to the workers: all 2 of this node' <<<"$err")" = 1 ]
	has "$err" 'warning: .*TF_CONFIG'
	has "$err" 'warning: .*PADDLE_TRAINER_ID'
	expect 0 ddprun --nproc-per-node 2 --dry-run sh -c "$show"
	has "$out" '^  removed  TF_CONFIG$'
}

@test "a single worker gets TF_CONFIG without a warning" {
	export TF_CONFIG=mine
	expect 0 ddprun sh -c "$show"
	[ "$out" = "[0] mine none none" ]
	[ -z "$err" ]
}

@test "one worker on each node gets its ddprun's TF_CONFIG, with a warning" {
	local port name both
	port=$(w_port free)
	for name in a b; do
		TF_CONFIG="place-$name" start $name ddprun --nnodes 2 \
			--rdzv-endpoint "127.0.0.1:$port" sh -c "$show"
	done
	finish a
	both=$out$'\n'
	finish b
	both+=$out
	[ "$(sed 's/^\[[01]\] //; s/ .*//' <<<"$both" | sort)" = $'place-a\nplace-b' ]
	[ "$(cat a.err b.err | grep -c 'warning: TF_CONFIG is passed on to the workers')" = 1 ]
}
