# doctor.bats: ddprun doctor on this host, on hosts over a stand-in for ssh, and with
# drivers and variables that are wrong.
# covers: launcher/doctor launcher/ddprun.c
load ../lib

@test "doctor reports this host and the job that ddprun would start" {
	expect 0 ddprun doctor --nproc-per-node 3 --rdzv-id run7
	has "$out" '^ddprun doctor [0-9.]+: .* UTC$'
	has "$out" '^  CPUs  '
	has "$out" '^  ddprdzv +.*/ddprdzv$'
	has "$out" '^  workers per node +3$'
	has "$out" '^  job name +run7$'
	has "$out" '^(no problem found|0 errors \(X\), [0-9]+ warnings? \(!\))$'
	[ ! -e "$XDG_CONFIG_HOME/ddprun/key" ]
	nothing_left
}

@test "doctor shows no secret" {
	echo 0123456789abcdef0123 >token
	chmod 600 token
	DDP_TOKEN=hunter2hunter2hunter2 PET_PASSWORD=hunter3 NCCL_X=http://u:hunter4@h \
		expect 0 ddprun doctor --token-file token
	has "$out" '^  DDP_TOKEN +\(21 characters, not shown\)$'
	has "$out" '^  proof +the token file'
	lacks "$out" 'hunter|0123456789abcdef'
}

@test "doctor says what is wrong and how to mend it, and exits with 78" {
	echo 0123456789abcdef0123 >token
	chmod 644 token
	NCCL_SOCKET_IFNAME=nope0 NCCL_P2P_DISABLE=1 \
		expect 78 ddprun doctor --token-file token
	has "$out" '^X proof +.*token'
	has "$out" '^X NCCL_SOCKET_IFNAME +this host has no interface nope0$'
	has "$out" '^! NCCL_P2P_DISABLE +is 1$'
	has "$out" '^2 errors \(X\), '
	# a job that cannot start is a finding, not the end of the report
	expect 78 ddprun doctor --nnodes 2:1
	has "$out" '^X job +--nnodes'
	expect 2 ddprun doctor --nnodse 2
	expect 2 ddprun doctor ./trainer
	has "$err" 'takes no program, but .\./trainer'
}

@test "a driver that crashes is a finding" {
	echo 'int nvmlInit_v2(void) { __builtin_trap(); }
	#define F(name) int name(void) { return 0; }
	F(nvmlErrorString) F(nvmlSystemGetDriverVersion)
	F(nvmlSystemGetCudaDriverVersion_v2) F(nvmlDeviceGetCount_v2)
	F(nvmlDeviceGetHandleByIndex_v2) F(nvmlDeviceGetName)
	F(nvmlDeviceGetMemoryInfo)' |
		${CC:-cc} -x c -shared -fPIC -o libnvidia-ml.so.1 -
	LD_LIBRARY_PATH=$T expect 78 ddprun doctor
	has "$out" '^X the probe crashed +signal [45]$'
	has "$out" '^  job name ' # the sections after it are there
}

@test "programs that hang or print garbage are findings, in bounded time" {
	mkdir hang garbage
	printf '#!/bin/sh\nexec tail -f /dev/null\n' >hang/python3
	printf '#!/bin/sh\nprintf "\\033]0;x\\007\\377\\302\\233 broken\\r\\n" >&2\nexit 3\n' >garbage/python3
	chmod +x hang/python3 garbage/python3
	cp hang/python3 hang/ssh
	PATH=$T/hang:$PATH DEADLINE=40 expect 0 ddprun doctor
	has "$out" '^! ssh +ssh does not answer within 5 s$'
	has "$out" '^! python +python3 does not answer within 10 s$'
	has "$out" '^  job name ' # the sections after it are there
	PATH=$T/garbage:$PATH expect 0 ddprun doctor
	has "$out" '^! python +.* broken$'
	! grep -qP '[\x01-\x08\x0b-\x1f\x7f]|\xff|\xc2[\x80-\x9f]' <<<"$out"
	nothing_left
}

@test "a host without /proc, or whose folders cannot be written, is a finding" {
	unshare -m true 2>/dev/null || skip "mounts are not allowed here"
	# a sanitizer needs /proc itself
	if [ -z "${SAN:-}" ]; then
		expect 78 unshare -m sh -c 'mount -t tmpfs none /proc && exec ddprun doctor'
		has "$out" '^X /proc +not mounted$'
		lacks "$out" 'memory|not found at'
	fi
	expect 78 unshare -m sh -c 'mount -t tmpfs -o ro none /dev/shm && exec ddprun doctor'
	has "$out" '^X /dev/shm +cannot be written: Read-only file system$'
	TMPDIR=/nonexistent expect 0 ddprun doctor
	has "$out" '^! temporary files +/nonexistent: No such file or directory$'
}

@test "doctor -H reports each host, and those that it cannot reach" {
	cat >reach <<-'END'
		#!/bin/sh
		case $1 in
		h3) echo "ssh: connect to host h3 port 22: No route to host" >&2; exit 255 ;;
		h2) export NCCL_IB_DISABLE=1 ;;
		esac
		echo "welcome to $1"
		exec sh -c "$2"
	END
	chmod +x reach
	expect 78 ddprun doctor --ssh ./reach -H h1:2,h2,h3
	has "$out" '^ddprun doctor .*: 3 hosts over \./reach'
	has "$out" '^h1$'
	has "$out" '^h2: as the first host, but$'
	has "$out" '^! NCCL_IB_DISABLE +is 1$'
	[ "$(grep -c '^  CPUs ' <<<"$out")" = 1 ]
	has "$out" '^h3: as the first host, but$'
	has "$out" '^X no report +ssh: connect to host h3 port 22: No route to host$'
	has "$out" '^1 error \(X\), '
	lacks "$out" welcome
	nothing_left
}

@test "each line names its host if a launcher runs doctor on several nodes" {
	SKYPILOT_NODE_IPS=$'127.0.0.1\n127.0.0.2' SKYPILOT_NODE_RANK=1 \
		SKYPILOT_NUM_NODES=2 expect 0 ddprun doctor
	has "$out" ': +nodes +2$'
	lacks "$out" '^  '
}
