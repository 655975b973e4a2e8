# auth_slurm.bats: a cluster whose Slurm authenticates by auth/slurm, with the munge
# package installed (Debian's slurmd needs it) but no munged running.
# covers: rendezvous/auth

bats_require_minimum_version 1.5.0
load cluster

setup_file() {
	export slurm_auth=slurm
	cluster_up
}

teardown_file() { cluster_down; }

setup() {
	cluster_join
	unset XDG_CONFIG_HOME
	mkdir home
	export HOME=$T/home
}

teardown() { cluster_leave; }

@test "without options or a shared home, the step gets a secret that no worker sees" {
	local h
	for h in h1 h2; do
		start_on $h mounter mount -t tmpfs none "$T/home"
		finish mounter
	done
	batch 0 -w h1,h2 <<-'EOF'
	ddprun --nproc-per-node 1 sh -c 'c_guest
		echo "home: $(ls -A "$HOME")"
		cat /proc/self/environ /proc/$PPID/environ | tr "\0" "\n" |
			sed -n "s/^DDP_SLURM_SECRET=..*/seen/p"'
	EOF
	for i in 0 1; do
		has "$out" "^\\[$i\\] rank $i of 2, .*, node $i of 2: ok\$"
		has "$out" "^\\[$i\\] home: \$"
	done
	! grep -q seen <<<"$out"
	for h in h1 h2; do
		start_on $h mounter umount "$T/home"
		finish mounter
	done
}

@test "a step that the user starts uses the key file of a shared home" {
	slurm 0 srun -w h1,h2 --ntasks-per-node 1 ddprun --nproc-per-node 1 c_guest
	has "$out" '^\[1\] rank 1 of 2, .*: ok$'
	[ -s home/.config/ddprun/key ]
	slurm 0 srun -w h1,h2 -n 4 --ntasks-per-node 2 c_guest
	has "$out" '^rank 3 of 4, .*: ok$'
}

@test "an error names both nodes if one of two has another secret" {
	cat >node.sh <<-'EOF'
	[ $SLURM_NODEID = 0 ] || export HOME=$HOME/other
	exec ddprun --nproc-per-node 1 true
	EOF
	mkdir home/other
	slurm 77 srun -K -w h1,h2 --ntasks-per-node 1 bash node.sh
	has "$err" 'it rejected our secret \(from the key file .*/home/other/.config/ddprun/key'
}
