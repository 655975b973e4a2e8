# etcd.bats: srun's ddpruns meet at an etcd beside the cluster: no node is special,
# and nodes authenticate by munge.
# covers: etcd launcher/membership slurm rendezvous/election

bats_require_minimum_version 1.5.0
load cluster
load ../hosts/etcd

setup_file() { cluster_up; }
teardown_file() { cluster_down; }
setup() { cluster_join; }

teardown() {
	nothing_left || touch failed
	cluster_leave
	[ ! -e failed ]
}

# ask ARGS...: etcdctl on the login host; its output is in $out
ask() {
	on_login ask env ETCDCTL_API=3 etcdctl --endpoints "$etcd" "$@"
	finish ask
}

@test "srun with etcd: all nodes agree, and a killed server resumes" {
	local host server
	mkfifo go
	exec 8<>go
	etcd_here h4
	on_login job srun -N 3 --ntasks-per-node 1 ddprun --nproc-per-node 2 \
		--rdzv-backend etcd --rdzv-endpoint "$etcd" bash -c '
		echo "$RANK of $WORLD_SIZE on $(hostname) in $TORCHELASTIC_RUN_ID"
		read -r _ <'"$T"'/go
		exec c_init'
	for rank in 0 1 2 3 4 5; do
		await job.out "^\\[$rank\\] $rank of 6 on h$((rank / 2 + 1)) in slurm-[0-9]+\\.0\$"
	done
	ask get --prefix /ddprun/ --keys-only
	has "$out" "^/ddprun/${line##* }/server\$"
	ask get --prefix "/ddprun/${line##* }/server" --print-value-only
	for host in h1 h2 h3; do
		[ "${out%:*}" != "${addr[$host]}" ] || server=$host
	done
	start_on "$server" killer pkill -KILL -x ddprdzv
	finish killer
	await job.err 'killed by SIGKILL: restarted it; the job continues'
	printf '\n\n\n\n\n\n' >&8
	finish job
	[ "$(grep -c 'rank [0-5] of 6, local [01]' <<<"$out")" = 6 ]
	[ "$(grep -c 'not\|error' <<<"$err")" = 0 ]
	ask get --prefix / --keys-only
	[ -z "$out" ]
}
