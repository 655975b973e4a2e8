# covers: worker-sdk/tcp rendezvous/auth
bats_require_minimum_version 1.5.0
load ../lib
load netns
load sshd

# ddprun --encrypt-data between separate hosts: what a reader on the path sees, and
# what both terminals print if one host lacks the option.

setup() {
	lib_setup
}

# on_both OPTIONS... -- CMD...: two ranks on each host
on_both() {
	local h
	for h in h1 h2; do
		start_on $h on_$h ddprun --nnodes 2 --nproc-per-node 2 \
			--rdzv-endpoint "${at[h1]}:29400" "$@"
	done
	for h in h1 h2; do
		finish on_$h
		[ "$(grep -c ': ok$' <<<"$out")" = 2 ]
	done
}

# read_by_others OPTIONS...: the job's text in $line: "weights-nobody-saw in N of
# M packets, B bytes", of all that passed the switch
read_by_others() {
	start reader nsenter --net="/proc/${host_pid[switch]}/ns/net" \
		path_reader weights-nobody-saw
	await reader.out '^reading'
	on_both "$@" c_marked weights-nobody-saw
	signal reader TERM
	finish reader
	line=${out##*$'\n'}
}

@test "with --encrypt-data the network carries no readable bytes of collectives and messages" {
	hosts_up 2
	hosts_real
	read_by_others
	has "$line" '^weights-nobody-saw in [1-9][0-9]* of '
	read_by_others --encrypt-data
	# the broadcast and the message did pass it
	has "$line" '^weights-nobody-saw in 0 of [0-9]* packets, [0-9]{7,} bytes$'
	[ "$(grep -oE '[0-9]+ bytes' <<<"$line" | cut -d' ' -f1)" -gt $((2 << 20)) ]
}

@test "with the option on one host only, both hosts name ranks, hosts and option" {
	local h
	hosts_up 2
	hosts_real
	start_on h1 on_h1 ddprun --nnodes 2 --rdzv-endpoint h1:29400 \
		--encrypt-data c_collectives 10
	start_on h2 on_h2 ddprun --nnodes 2 --rdzv-endpoint h1:29400 \
		c_collectives 10
	for h in h1 h2; do
		finish on_$h 1
		has "$out$err" "-20002: ddp_init: rank (0 on h1 has DDP_ENCRYPT_DATA=1, rank 1 on h2 has 0|1 on h2 has DDP_ENCRYPT_DATA=0, rank 0 on h1 has 1): give all ranks the same \(ddprun --encrypt-data\)"
	done
}

@test "over ssh the option and its variables reach the workers of all hosts" {
	sshd_up 2
	over_ssh job -H h1:1,h2:1 --encrypt-data sh -c 'echo "is $DDP_ENCRYPT_DATA"'
	finish job
	[ "$(sort <<<"$out")" = $'[0] is 1\n[1] is 1' ]
	for name in PET_ENCRYPT_DATA DDP_ENCRYPT_DATA; do
		export $name=1
		over_ssh job -H h1:1,h2:1 sh -c 'echo "is $DDP_ENCRYPT_DATA"'
		unset $name
		finish job
		[ "$(sort <<<"$out")" = $'[0] is 1\n[1] is 1' ]
	done
}
