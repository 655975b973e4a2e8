# ddprun --encrypt-data: encrypted TCP collectives and messages between hosts
# (worker-sdk/tcp/tcp_secure.h). The hosts here are DDP_TEST_HOSTS's;
# tests/unit/worker-sdk/tcp/test_tcp_secure_hosts.c tests tampering.
# covers: worker-sdk/tcp rendezvous/auth
load ../lib

@test "collectives and messages are correct, within and between hosts" {
	export DDP_TEST_HOSTS=3
	expect 0 ddprun --standalone --encrypt-data --nproc-per-node 6 \
		c_collectives 100000
	[ "$(grep -c ': ok$' <<<"$out")" = 6 ]
	expect 0 ddprun --standalone --encrypt-data --nproc-per-node 3 c_messages
	[ "$(grep -c ': ok$' <<<"$out")" = 3 ]
	export DDP_TCP_SOCKETS=3
	expect 0 ddprun --standalone --encrypt-data --nproc-per-node 4 \
		c_collectives 300000
	[ "$(grep -c ': ok$' <<<"$out")" = 4 ]
}

@test "workers get --encrypt-data in their environment, whatever it had before" {
	export DDP_ENCRYPT_DATA=0
	expect 0 ddprun --standalone --encrypt-data sh -c 'echo it is $DDP_ENCRYPT_DATA'
	has "$out" '^\[0\] it is 1$|^it is 1$'
	expect 0 ddprun --standalone sh -c 'echo it is $DDP_ENCRYPT_DATA'
	has "$out" 'it is 0$'
}

@test "an error names a rank of another host that does not encrypt, and nothing hangs" {
	DDP_TEST_HOSTS=2 expect 1 ddprun --standalone --nproc-per-node 2 \
		sh -c 'DDP_ENCRYPT_DATA=$RANK exec c_collectives 10'
	has "$out$err" "-20002: ddp_init: rank 0 on .* has DDP_ENCRYPT_DATA=0, rank 1 on .* has 1: give all ranks the same \(ddprun --encrypt-data\)|-20002: ddp_init: rank 1 on .* has DDP_ENCRYPT_DATA=1, rank 0 on .* has 0: give all ranks the same \(ddprun --encrypt-data\)"
}

@test "--auth none, under which anyone can see the key, refuses encryption" {
	expect 2 ddprun --standalone --encrypt-data --auth none true
	has "$err" '--encrypt-data with --auth none: the encryption key would be sent unencrypted; leave one of them out'
	DDP_AUTH=none expect 2 ddprun --standalone --encrypt-data true
}

@test "a value other than 0 and 1 is an error" {
	DDP_TEST_HOSTS=2 expect 1 ddprun --standalone --nproc-per-node 2 \
		env DDP_ENCRYPT_DATA=yes c_collectives 10
	has "$out$err" "-20002: DDP_ENCRYPT_DATA is 'yes': give 1"
}
