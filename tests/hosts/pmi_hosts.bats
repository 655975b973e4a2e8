# pmi_hosts.bats: what ranks on two hosts put through PMI-1, in large amounts.
# covers: launcher/pmi
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 2
	job=(ddprun --nnodes 2 --mpi pmi --rdzv-endpoint "${at[h1]}:29400")
}

# A message of our protocol has 8 MiB at most; a node's part, 64 MiB.
@test "ranks on two hosts get tens of MiB of each other's keys" {
	start_on h1 on_h1 "${job[@]}" --nproc-per-node 2 w_pmi_large 8000
	start_on h2 on_h2 "${job[@]}" --nproc-per-node 1 w_pmi_large 8000
	finish on_h1
	has "$out" 'rank 0: 16000 values$'
	has "$out" 'rank 1: 16000 values$'
	finish on_h2
	has "$out" 'rank 2: 16000 values$'
}
