# covers: launcher/env launcher/config
load ../lib

# Which variables decide, when several launchers and clouds have set theirs, and what
# is refused: never N worlds of one. hosts/clouds.bats has the worlds of two nodes.

setup() {
	lib_setup
	show='echo "rank $RANK of $WORLD_SIZE"'
	batch=(AWS_BATCH_JOB_NUM_NODES=4 AWS_BATCH_JOB_NODE_INDEX=1
		AWS_BATCH_JOB_MAIN_NODE_INDEX=0
		AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=192.0.2.1)
}

alone() { # CMD...: it is a world of one
	expect 0 env "$@" sh -c "$show"
	has "$out" 'rank 0 of 1$'
}

@test "two clouds that contradict each other are an error that names both" {
	expect 2 env "${batch[@]}" SKYPILOT_NODE_RANK=1 \
		SKYPILOT_NODE_IPS=$'192.0.2.1\n192.0.2.2' ddprun true
	has "$err" 'AWS Batch \(AWS_BATCH_JOB_NUM_NODES=4, node 1\) and of SkyPilot \(SKYPILOT_NODE_IPS has 2 addresses, node 1\) contradict each other: unset those .*, or write --nnodes, --node-rank and --rdzv-endpoint, or --standalone$'
}

@test "Slurm's variables take precedence over a cloud's" {
	alone "${batch[@]}" SLURM_JOB_ID=12 SLURM_STEP_ID=0 SLURM_JOB_NUM_NODES=1 \
		SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 \
		SLURM_NODEID=0 SLURM_STEP_NODELIST=n1 SLURM_JOB_NODELIST=n1 \
		SLURMD_NODENAME=n1 SLURM_STEP_TASKS_PER_NODE=1 DDP_AUTH=secret \
		ddprun --nproc-per-node 1
	has "$err" 'started in Slurm step 12.0'
}

@test "an MPI launcher's variables take precedence over a cloud's" {
	alone "${batch[@]}" PMI_RANK=0 PMI_SIZE=1 ddprun --nproc-per-node 1
	lacks "$err" AWS
}

@test "a ddprun in a worker is a world of one, as outside of the cloud" {
	alone "${batch[@]}" ddprun --standalone ddprun
}

@test "--nnodes 1 and --standalone are a world of one on any cloud" {
	alone "${batch[@]}" ddprun --nnodes 1
	alone "${batch[@]}" ddprun --standalone
}

@test "a job of one node in a cloud needs no option" {
	alone AWS_BATCH_JOB_NUM_NODES=1 AWS_BATCH_JOB_NODE_INDEX=0 ddprun
	lacks "$err" started
}

@test "PyTorch's variables outside of a pod are refused, unless they mean this host" {
	expect 2 env MASTER_ADDR=192.0.2.1 WORLD_SIZE=2 RANK=1 ddprun true
	has "$err" 'write ddprun --nnodes 2 --node-rank 1 --rdzv-endpoint 192.0.2.1:29400 if they count nodes, or --standalone'
	alone MASTER_ADDR=localhost WORLD_SIZE=2 RANK=1 ddprun
	alone MASTER_ADDR=192.0.2.1 WORLD_SIZE=1 RANK=0 ddprun
}

@test "a value that is no number is named" {
	expect 2 env AWS_BATCH_JOB_NUM_NODES=two ddprun true
	has "$err" 'AWS_BATCH_JOB_NUM_NODES in the environment'
}

@test "mpi-operator's launcher takes its workers from the hostfile" {
	printf 'job-worker-0.job slots=2\njob-worker-1.job slots=2\n' >hostfile
	expect 0 env K_MPI_JOB_ROLE=launcher \
		OMPI_MCA_orte_default_hostfile="$T/hostfile" ddprun --dry-run true
	has "$out" '^node 0: ssh job-worker-0.job ddprun, workers: 2$'
	has "$out" '^node 1: ssh job-worker-1.job ddprun, workers: 2$'
	# elsewhere that file is for mpirun alone
	alone OMPI_MCA_orte_default_hostfile="$T/hostfile" ddprun
}

@test "a launcher of mpi-operator without ssh is refused with the line to write" {
	expect 2 env OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile \
		OMPI_MCA_plm_rsh_agent=/etc/mpi/kubexec.sh ddprun true
	has "$err" 'with /etc/mpi/kubexec.sh, not with ssh: write mpirun --map-by ppr:1:node ddprun'
}

@test "a Flux instance of several nodes is refused with the line to write" {
	mkdir bin
	printf '#!/bin/sh\n[ "$*" = "getattr hostlist" ] && echo "%s"\n' 'n[1-2]' \
		>bin/flux
	chmod +x bin/flux
	expect 2 env FLUX_URI=local:///run/flux PATH="$T/bin:$PATH" ddprun true
	has "$err" 'this Flux instance has 2 nodes \(n\[1-2\]\): write flux run -N2 -n2 --exclusive ddprun'
	sed -i 's/n\[1-2\]/n1/' bin/flux
	alone FLUX_URI=local:///run/flux PATH="$T/bin:$PATH" ddprun
	lacks "$err" .
	rm bin/flux
	alone FLUX_URI=local:///run/flux ddprun
	has "$err" 'warning: FLUX_URI is set, but flux does not list the nodes of its instance .*: starting on this node alone'
}

@test "a Flux task without PMI is refused" {
	expect 2 env FLUX_URI=local:///run/flux FLUX_TASK_RANK=1 FLUX_JOB_NNODES=2 \
		ddprun true
	has "$err" 'as task 1 on 2 nodes, without PMI, .*: leave -o pmi=off out'
	expect 2 env FLUX_TASK_RANK=1 FLUX_JOB_NNODES=2 ddprun true
	expect 2 env FLUX_TASK_RANK=1 ddprun true
	has "$err" 'FLUX_TASK_RANK is 1, but FLUX_JOB_NNODES is not set: write --nnodes N '
	alone FLUX_URI=local:///run/flux FLUX_TASK_RANK=0 FLUX_JOB_NNODES=1 ddprun
}

# refused PART VAR=VALUE...: ddprun ends with 2 and a line that has PART and an option,
# and starts with --standalone
refused() {
	local part=$1
	shift
	expect 2 env "$@" ddprun true
	has "$err" "^ddprun: error: .*$part.*--standalone"
	alone "$@" ddprun --standalone
}

@test "some of a platform's variables are no world of one" {
	local pod=KUBERNETES_SERVICE_HOST=10.0.0.1
	refused AWS_BATCH_JOB_NODE_INDEX=1 AWS_BATCH_JOB_NODE_INDEX=1
	refused SKYPILOT_NODE_RANK=0 SKYPILOT_NODE_RANK=0
	refused AZ_BATCH_MASTER_NODE=192.0.2.1 AZ_BATCH_MASTER_NODE=192.0.2.1:6000
	refused SM_CURRENT_HOST SM_CURRENT_HOST=algo-1
	refused 'SM_HOSTS is not JSON' SM_HOSTS=algo-1,algo-2 SM_CURRENT_HOST=algo-1
	refused CLUSTER_SPEC 'CLUSTER_SPEC={"task":{"type":"workerpool0","index":0}}'
	refused JOBSET_NAME=train JOBSET_NAME=train
	refused VC_WORKER_NUM=2 VC_WORKER_NUM=2
	refused 'RANK is not set' $pod MASTER_ADDR=192.0.2.1 WORLD_SIZE=2
	refused 'WORLD_SIZE is not set' $pod MASTER_ADDR=192.0.2.1 RANK=0
	refused 'MASTER_ADDR is not set' $pod WORLD_SIZE=2 RANK=1
	refused K_MPI_JOB_ROLE=worker K_MPI_JOB_ROLE=worker
	refused PBS_NODENUM=1 PBS_JOBID=12.srv PBS_NODENUM=1
	refused PBS_NUM_NODES=2 PBS_JOBID=12.srv PBS_NUM_NODES=2 PBS_NODENUM=0
	refused 'SLURM_NNODES is 2' SLURM_NNODES=2 SLURM_NODELIST='n[1-2]'
}

@test "a rank that no node has is refused with its variable" {
	refused 'number 4 by AWS_BATCH_JOB_NODE_INDEX, but there are 4' \
		"${batch[@]}" AWS_BATCH_JOB_NODE_INDEX=4
	refused 'number 2 by NODE_RANK, but there are 2' AZUREML_NODE_COUNT=2 \
		NODE_RANK=2 MASTER_ADDR=192.0.2.1
}

@test "escape sequences in a variable do not reach the terminal" {
	expect 2 env KUBERNETES_SERVICE_HOST=10.0.0.1 MASTER_ADDR=$'a\e[31mb' \
		WORLD_SIZE=2 RANK=1 ddprun true
	has "$err" "MASTER_ADDR in the environment: endpoint 'a\?\[31mb'"
	lacks "$err" $'\e'
}
