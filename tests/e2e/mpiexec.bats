# mpirun's and hydra's options, and ddprun under their names.
# covers: launcher/config/mpi_words.c launcher/config/config_programs.c launcher/link_command.c
load ../lib
load ../openmpi

setup() {
	lib_setup
	unset PET_MPI
}

@test "install-mpiexec makes links that run ddprun as mpiexec" {
	expect 0 ddprun install-mpiexec a/b
	[ "$out" = "a/b/mpiexec -> $(realpath "$DDPRUN")"$'\n'"a/b/mpirun -> $(realpath "$DDPRUN")" ]
	expect 0 ddprun install-mpiexec a/b # again
	expect 0 a/b/mpiexec -n 2 sh -c 'echo $RANK of $WORLD_SIZE: $@' x -- y
	[ "$(sort <<<"$out")" = $'0 of 2: -- y\n1 of 2: -- y' ]
	expect 0 a/b/mpirun -np 2 -l sh -c 'echo $RANK'
	[ "$(sort <<<"$out")" = $'[0] 0\n[1] 1' ]
	expect 2 a/b/mpiexec true
	has "$err" 'give -n N, the number of workers'
	# a subcommand's name is a program's
	expect 127 a/b/mpiexec -n 1 dump
	[ "$(ls a/b)" = $'mpiexec\nmpirun' ]
}

@test "install-torchrun makes a torchrun" {
	expect 0 ddprun install-torchrun .
	expect 0 ./torchrun --nproc 2 sh -c 'echo $WORLD_SIZE'
	[ "$(sort <<<"$out")" = $'[0] 2\n[1] 2' ]
}

@test "a file that is no link to ddprun is never replaced" {
	echo mine >mpirun
	expect 2 ddprun install-mpiexec .
	has "$err" "'\./mpirun' exists and is not a link to ddprun"
	[ "$(cat mpirun)" = mine ]
	[ ! -e mpiexec ]
	rm mpirun
	ln -s /bin/true mpirun
	expect 2 ddprun install-mpiexec .
	[ "$(readlink mpirun)" = /bin/true ]
	expect 2 ddprun install-torchrun
	has "$err" 'ddprun install-torchrun DIR'
	expect 71 ddprun install-torchrun mpirun/x
	has "$err" "cannot create the folder 'mpirun/x'"
}

@test "variables, the folder and the tags of mpirun reach the workers" {
	mkdir sub
	expect 0 ddprun -np 2 --tag-output -x A=1 -genv B 'b c' -env C=3 --mca btl self \
		-wdir sub --output-filename logs:nocopy \
		sh -c 'echo $A $B $C $OMPI_MCA_btl ${PWD##*/}'
	[ -z "$out" ]
	[ "$(cat logs/*/attempt_0/*/stdout.log)" = $'1 b c 3 self sub\n1 b c 3 self sub' ]
	expect 0 ddprun -n 1 --tag-output sh -c 'echo out; echo err >&2'
	[ "$out" = '[1,0]<stdout>:out' ]
	[ "$err" = '[1,0]<stderr>:err' ]
}

@test "mpiexec warns once of a program in which it sees no MPI" {
	ddprun install-mpiexec . >/dev/null
	expect 0 ./mpiexec -n 3 sh -c true
	has "$err" '^ddprun: warning: .*/sh has no MPI library that ddprun can see: .* its 3 processes are worlds of one; give --mpi pmix for Open MPI'
	[ "$(wc -l <<<"$err")" = 1 ]
	expect 0 ./mpiexec -n 3 --mpi none sh -c true
	[ -z "$err" ]
	expect 0 ./mpiexec -n 1 sh -c true # a world of one anyway
	[ -z "$err" ]
	expect 0 ddprun -n 2 sh -c true # not known to be MPI's
	[ -z "$err" ]
	expect 2 ./mpiexec -n 2 python3 train.py
	has "$err" 'cannot see which MPI python3 loads: give --mpi pmix for mpi4py on Open MPI'
	PET_MPI=none expect 0 ./mpiexec -n 2 sh -c true
	[ -z "$err" ]
}

@test "an MPI program runs under the mpiexec that is ddprun" {
	openmpi_or_skip
	ddprun install-mpiexec bin >/dev/null
	PATH=$T/bin:$PATH
	expect 0 mpiexec -n 4 --allow-run-as-root --mca btl self,vader,tcp ./mpi
	[ "$(sort <<<"$out")" = "$(for r in 0 1 2 3; do echo "rank $r of 4, sum 4"; done)" ]
	[ -z "$err" ]
	expect 7 mpirun -np 2 --bind-to none ./mpi abort
	has "$err" 'rank +1 of 2'
}
