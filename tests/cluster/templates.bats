# templates.bats: submits each batch script of slurm/ unchanged. sbatch's arguments set
# the number of GPUs and the data's folder, as a site's users would.
# preempt.bats has preemptible.sbatch.
# covers: slurm

bats_require_minimum_version 1.5.0
load cluster

setup_file() {
	cluster_up
	mkdir "$BATS_FILE_TMPDIR/data"
	t_idx "$BATS_FILE_TMPDIR/data" 640 64
}

teardown_file() { cluster_down; }

setup() {
	cluster_join
	templates=$BATS_TEST_DIRNAME/../../slurm
	export DDP_DATA=$BATS_FILE_TMPDIR/data
}

teardown() { cluster_leave; }

# The trainer's first and last lines: N ranks, and success.
trained() { # N [TEXT]
	local text=${2-$out}
	has "$text" "^(\[0\] )?(.*[^0-9])?$1 ranks? x batch "
	has "$text" '^(\[0\] )?test accuracy [0-9.]+ %'
}

@test "one_node.sbatch works" {
	submit COMPLETED --gpus-per-node 2 "$templates/one_node.sbatch"
	trained 2
	submit COMPLETED --gpus-per-node 0 --ntasks-per-node 1 \
		"$templates/one_node.sbatch"
	trained 1
}

@test "several_nodes.sbatch works" {
	submit COMPLETED -w h1,h2 --gpus-per-node 2 "$templates/several_nodes.sbatch"
	trained 4
	has "$out" '^ddprun: started in Slurm step [0-9]+\.[0-9]+: using --nnodes 2 .*--rdzv-endpoint h1:'
}

@test "elastic.sbatch works: a spare replaces a lost node" {
	local id state victim
	mkdir bin
	# stays in its first attempt until a node is lost
	cat >bin/mnist_mlp <<-EOF
	#!/bin/sh
	[ \$RANK != 1 ] || [ \$TORCHELASTIC_RESTART_COUNT != 0 ] ||
		[ -e again ] || { echo "at \$(hostname) \$PPID"; exec tail -f /dev/null; }
	exec $O/mnist_mlp "\$@"
	EOF
	chmod +x bin/mnist_mlp
	slurm 0 env PATH="$T/bin:$PATH" sbatch --parsable --gpus-per-node 1 \
		-o "$T/batch.log" "$templates/elastic.sbatch"
	id=$out
	await batch.log 'waits as a spare'
	await batch.log ' at h[123] [0-9]+'
	set -- ${line#*at }
	: >again
	start_on "$1" killer kill -KILL "$2"
	finish killer
	job_over "$id" FAILED # srun's exit code is that of the ddprun that was killed
	out=$(<batch.log)
	trained 2
	! grep -q 'was not needed' <<<"$out"
	[ -s "mnist.$id.state" ]
}

@test "array.sbatch works" {
	slurm 0 sbatch --parsable -o "$T/batch.%a" "$templates/array.sbatch"
	touch batch.log
	job_over "$out" COMPLETED
	for i in 0 1 2 3; do
		trained 1 "$(<batch.$i)"
	done
	[ "$(ls runs | wc -l)" = 4 ]
}

@test "heterogeneous.sbatch works, also with one program per group" {
	submit COMPLETED "$templates/heterogeneous.sbatch"
	trained 8
	has "$out" '^ddprun: started in Slurm step [0-9]+\.[0-9]+: using --nnodes 3 '
	has "$out" 'srun --het-group=0-1 --ntasks-per-node=1 --overlap '
	# the line in the template's comment
	role='echo "$RANK/$WORLD_SIZE $ROLE_NAME $ROLE_RANK/$ROLE_WORLD_SIZE"'
	batch 0 -N 1 -w h2 : -N 2 <<-EOF
	srun --het-group=0 --ntasks-per-node=1 ddprun --role actor sh -c '$role' : \\
		--het-group=1 --ntasks-per-node=1 ddprun --role learner sh -c '$role'
	srun --ntasks-per-node=1 ddprun true
	EOF
	has "$out" '^\[0\] 0/3 actor 0/1$'
	has "$out" '^\[1\] 1/3 learner 0/2$'
	has "$out" '^\[2\] 2/3 learner 1/2$'
	has "$out" "^ddprun: this step has 1 of the heterogeneous job's 3 nodes; srun --het-group=0-1 uses all\$"
	# tasks that srun starts directly are ranks
	batch 0 -w h2 --ntasks-per-node 2 : -N 2 <<-'EOF'
	srun --het-group=0,1 sh -c 'c_guest && c_collectives 3'
	EOF
	for i in 0 1; do
		has "$out" "^rank $i of 4, local $i of 2, node 0 of 3: ok\$"
		has "$out" "^rank $((i + 2)) of 4, local 0 of 1, node $((i + 1)) of 3: ok\$"
	done
	# salloc's shell has no number of the job, only of its groups
	slurm 0 salloc -N 1 --ntasks-per-node 2 : -N 2 ddprun sh -c \
		'echo "$RANK/$WORLD_SIZE $LOCAL_WORLD_SIZE"'
	has "$out" '^\[0\] 0/4 2$'
	has "$out" '^\[3\] 3/4 1$'
}

@test "steps.sbatch runs independent steps in one allocation" {
	slurm 0 sbatch --parsable -o "$T/batch.log" --gpus-per-node 1 \
		"$templates/steps.sbatch"
	id=$out
	job_over "$id" COMPLETED
	trained 2 "$(<"seed1.$id.log")"
	trained 1 "$(<"seed2.$id.log")"
}

# A root with a shell, ddprun and a worker, without Slurm.
make_image() {
	local file
	mkdir -p "$1"/{proc,sys,dev,tmp,etc,opt,usr/bin,bin}
	: >"$1/etc/hosts"
	echo 'hosts: files' >"$1/etc/nsswitch.conf"
	echo the_image >"$1/etc/image"
	for file in bin/sh usr/bin/env; do
		cp -L "/$file" "$1/$file"
	done
	for file in ddprun ddprdzv tests/c_guest; do
		cp "$O/$file" "$1/usr/bin"
	done
	cat >"$1/opt/trainer" <<-'EOF'
	#!/bin/sh
	read name </etc/image
	echo "in $name, PATH $PATH"
	command -v scontrol || exec c_guest
	EOF
	chmod +x "$1/opt/trainer"
	# with what they are linked to, and libmunge, which ddprun looks for
	{
		ldd "$1"/bin/sh "$1"/usr/bin/* |
			sed -n 's/.*\( \|\t\)\(\/[^ ]*\) (.*/\2/p'
		ldconfig -p | sed -n 's/.*libmunge\.so\.2 .*=> //p'
	} | sort -u | xargs -I LIB cp -L --parents LIB "$1"
}

@test "the Apptainer scripts work (with a stand-in): ddprun outside and inside" {
	local kind
	mkdir bin
	ln -s "$BATS_TEST_DIRNAME/apptainer_stand_in" bin/apptainer
	make_image "$T/image"
	for kind in apptainer apptainer_inside; do
		PATH=$T/bin:$PATH IMAGE=$T/image TRAINER=/opt/trainer \
			submit COMPLETED -w h1,h2 --gpus-per-node 2 \
			"$templates/$kind.sbatch"
		for i in 0 1 2 3; do
			has "$out" "^\[$i\] in the_image, PATH /usr/local/sbin:"
			has "$out" "^\[$i\] rank $i of 4, local $((i % 2)) of 2, node $((i / 2)) of 2: ok\$"
		done
		# where ddprun was
		! grep -q "/apptainer " <<<"$out"
	done
}

@test "venv.sbatch works" {
	python3 -c 'import venv' || skip "no venv in this Python"
	python3 -m venv --without-pip here
	cat >train.py <<-'EOF'
	import os, sys
	print(os.environ["RANK"], os.environ["WORLD_SIZE"], sys.prefix)
	EOF
	VENV=here submit COMPLETED --gpus-per-node 1 "$templates/venv.sbatch"
	has "$out" "^\[0\] 0 2 $T/here\$"
	has "$out" "^\[1\] 1 2 $T/here\$"
}

@test "loop.sbatch works: background sruns, each with its rank" {
	submit COMPLETED --gpus-per-node 2 "$templates/loop.sbatch"
	trained 4
}

# The lines of a terminal, typed into a shell.
terminal() { # NUMBER NAME
	sed -n "s/^$1\\$ //p" "$templates/interactive.txt" >"$2.in"
	on_login "$2" bash -c "exec bash <'$T/$2.in'"
}

@test "interactive.txt works from two terminals" {
	mkfifo up go
	mkdir bin
	# holds the training until the second terminal is done
	cat >bin/mnist_mlp <<-EOF
	#!/bin/sh
	[ \$RANK != 0 ] || { echo >up; read x <go; }
	exec $O/mnist_mlp "\$@"
	EOF
	chmod +x bin/mnist_mlp
	PATH=$T/bin:$PATH SHELL=/bin/bash terminal 1 one
	read -r _ <up
	terminal 2 two
	finish two
	has "$out" '^rank 0 '
	has "$out" '^rank 7 '
	echo >go
	finish one
	trained 8
}
