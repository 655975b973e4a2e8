# cluster.bash: one Slurm for all tests of a file: hosts h1, h2, h3 (or as many as
# CLUSTER_NODES says) are its nodes, of 8 CPUs and 4 GPUs (which can only be
# counted), and people work on the host after them, which is none. Loads what it
# needs; it knows nothing of ddprun.
#
#   cluster_up      in setup_file; cluster_down in teardown_file
#   cluster_join    in setup, after which lib.bash's helpers are there;
#   cluster_leave   in teardown
#   on_login NAME CMD...   start, where people work
#   as_other H NAME CMD...   start, on H, as a user of the cluster who is not root
#   slurm STATUS CMD...    start there and finish; $out and $err are its texts
#   batch STATUS [OPTION...]   what stands on stdin, as the end of sbatch's script;
#                   waits for it, $out is what it wrote
#   submit, job_over      of a file, and of any job: below

cluster_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$cluster_here/../lib.bash"
. "$cluster_here/../hosts/netns.bash"
. "$cluster_here/slurm.bash"

: "${CLUSTER_NODES:=3}"
slurm_on=start_on

cluster_up() {
	# skipping is for each test to do
	export BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR CLUSTER=$BATS_FILE_TMPDIR
	lib_setup
	if ! cluster_possible; then
		return
	fi
	hosts_up $((CLUSTER_NODES + 1))
	if [ "$HOSTS" = namespaces ]; then
		slurm_gpus=4
		slurm_up $(seq -f h%g "$CLUSTER_NODES")
	fi
	: "${SLURM_CONF:=}" "${S:=}"
	declare -p addr at host_pid HOSTS SLURM_CONF S |
		sed 's/^declare /declare -g /' >"$CLUSTER/state"
}

# slurm_or_skip's own check, where skip cannot be said
cluster_possible() {
	(
		skip() {
			echo "$*" >"$CLUSTER/why"
			exit 1
		}
		slurm_or_skip
	)
}

cluster_down() {
	[ -z "${slurm_started:-}" ] || slurm_down
	lib_teardown
}

cluster_join() {
	lib_setup
	[ ! -e "$CLUSTER/why" ] || skip "$(<"$CLUSTER/why")"
	. "$CLUSTER/state"
	hosts_real
	# munged's socket is slurm.conf's to say
	export SLURM_CONF PATH=$PATH:/usr/sbin
}

# What a test that failed left in the queue is not the next one's.
cluster_leave() {
	if [ -z "${BATS_TEST_COMPLETED:-}" ] && [ ! -e "$CLUSTER/why" ]; then
		on_login scancel scancel --user=root
		finish scancel - || true
	fi
	lib_teardown
}

on_login() {
	start_on "h$((CLUSTER_NODES + 1))" "$@"
}

as_other() {
	local h=$1 name=$2
	shift 2
	# this test's folders are its user's alone, and so may be the build's
	if [ ! -e other ]; then
		chmod a+x "$BATS_RUN_TMPDIR" "$CLUSTER" "${CLUSTER%/*}" "$T" "${T%/*}"
		mkdir -p other/home
		cp "$O/ddprun" "$O/ddprdzv" "$O/tests/rdzv_client" other
		chown -R 65534 other/home
	fi
	start_on "$h" "$name" env -u XDG_CONFIG_HOME HOME="$T/other/home" \
		PATH="$T/other:$PATH" TMPDIR="$T/other/home" \
		setpriv --reuid 65534 --regid 65534 --clear-groups \
		"$(type -P env)" -C / "$@"
}

slurm() {
	local want=$1
	shift
	on_login job "$@"
	finish job "$want"
}

batch() {
	local want=$1
	shift
	cat >body.sh
	cat >batch.sh <<-'EOF'
	#!/bin/sh
	bash body.sh
	echo "batch: $?"
	EOF
	rm -f batch.log
	slurm 0 sbatch -o "$T/batch.log" "$@" batch.sh
	await batch.log '^batch: '
	out=$(<batch.log)
	[ "$line" = "batch: $want" ] && return
	echo "the batch script's status is not $want:"
	sed 's/^/| /' batch.log
	return 1
}

# submit STATE [OPTION...] FILE: sbatch of the file as it is; waits until the job,
# or all of an array or of groups, is over in that STATE; $out is what it wrote.
submit() {
	local want=$1
	shift
	slurm 0 sbatch --parsable -o "$T/batch.log" "$@"
	job_over "$out" "$want"
	out=$(<batch.log)
}

# job_over ID STATE: that is the end of it
job_over() {
	slurm_wait job_ended "$1"
	[ "$(sort -u <<<"$states")" = "$2" ] && return
	echo "job $1 is not $2 but" $states
	sed 's/^/| /' batch.log
	return 1
}

job_ended() {
	slurm 0 scontrol -o show job "$1"
	states=$(sed -n 's/.* JobState=\([A-Z_]*\) .*/\1/p' <<<"$out")
	! grep -qE 'PENDING|RUNNING|CONFIGURING|COMPLETING' <<<"$states"
}
