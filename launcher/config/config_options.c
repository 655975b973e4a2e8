/* config_options.c: the table of ddprun's options, as data: parsing, --help,
 * the man page and shell completion are all made from it. Decides nothing. */
#include "launcher/config/config.h"

#include "rendezvous/wire.h"

#define AT(field) offsetof(struct config, field)
#define TEXT(name_, field, arg_, env_, help_)                                 \
	.name = name_, .kind = OPTION_STRING, .offset = AT(field),            \
	.arg = arg_, .env = env_, .help = help_
#define FLAG(name_, field, env_, help_)                                       \
	.name = name_, .kind = OPTION_FLAG, .offset = AT(field),              \
	.env = env_, .help = help_
#define INT(name_, field, low, high, arg_, env_, help_)                       \
	.name = name_, .kind = OPTION_INT, .offset = AT(field),               \
	.min = low, .max = high, .arg = arg_, .env = env_, .help = help_
#define SECONDS(name_, field, low, env_, help_)                               \
	.name = name_, .kind = OPTION_DOUBLE, .offset = AT(field),            \
	.min = low, .max = 1e9, .arg = "SECONDS", .env = env_, .help = help_

const struct option_spec config_options[] = {
	{.heading = "nodes and workers",
	 TEXT("nnodes", nnodes_text, "N|MIN:MAX", "PET_NNODES",
	      "Number of nodes, each of which runs this command ({}; under "
	      "Slurm, the step's nodes). MIN:MAX lets nodes join and leave. "
	      "Additional nodes wait as spares."),
	 .def = "1",
	 .given_offset = AT(nnodes_given)},
	{TEXT("nproc-per-node", nproc_text, "N|auto|cpu|gpu",
	      "PET_NPROC_PER_NODE",
	      "Workers on this node: a number, cpu, gpu, or auto: gpu if there "
	      "is one, else cpu ({}; under Slurm, one per GPU of the step, "
	      "else one per task or CPU)."),
	 .def = "1",
	 .given_offset = AT(nproc_given),
	 .more = "Nodes may have different numbers: ranks are prefix sums over "
		 "the nodes. Only the CPUs that this process may use count; "
		 "GPUs are counted with NVML, within CUDA_VISIBLE_DEVICES, and "
		 "divided by --gpus-per-proc."},
	{INT("world-size", world_size, 1, WIRE_WORLD_MAX, "N", NULL,
	     "Workers of the whole job, instead of --nproc-per-node: shared "
	     "evenly by its nodes, or by the hosts of -H, each up to its N."),
	 .letter = 'n',
	 .yields = 1,
	 .more = "As mpirun's, hydra's and srun's -n, but ranks on a host are "
		 "always consecutive. Hosts that get no worker are not used. "
		 "With --nnodes N, N must divide it."},
	{TEXT("hosts", hosts_text, "HOST[:N],...", "PET_HOSTS",
	      "Run the job on these hosts, with N workers on each, over ssh "
	      "(docs: ddprun over ssh); the first is node 0."),
	 .letter = 'H', .yields = 1,
	 .more = "HOST may be USER@HOST and [IPv6]. Without N, "
		 "--nproc-per-node applies, else auto. In a PBS or LSF job, "
		 "the default is the scheduler's list."},
	{TEXT("hostfile", hostfile, "FILE", "PET_HOSTFILE",
	      "The same from a file in the format of OpenMPI, MPICH, DeepSpeed "
	      "or Horovod: lines of HOST slots=N, HOST:N or HOST; - reads "
	      "stdin."),
	 .yields = 1},
	{FLAG("host-check", host_check, NULL,
	      "Check all hosts, print a line for each, and start nothing; exit "
	      "with 0 if the job could run."),
	 .yields = 1},
	{TEXT("ssh", ssh_program, "PROGRAM", "PET_SSH",
	      "The program that reaches the hosts ({}), called as PROGRAM "
	      "SSH-ARGS HOST COMMAND."),
	 .def = "ssh",
	 .yields = 1},
	{TEXT("ssh-args", ssh_args, "ARGS", "PET_SSH_ARGS",
	      "Additional arguments for --ssh, split as by a shell: '-p 2222 "
	      "-i KEYFILE'."),
	 .def = "",
	 .yields = 1},
	{SECONDS("ssh-timeout", ssh_timeout_s, 0.1, "PET_SSH_TIMEOUT",
		 "A host that cannot be reached within this time is an error "
		 "({})."),
	 .def = "30",
	 .yields = 1},
	{INT("ssh-width", ssh_width, 1, 65536, "N", "PET_SSH_WIDTH",
	     "Number of ssh processes per host; more hosts are reached through "
	     "the first ones, which must be able to ssh to them ({})."),
	 .def = "32",
	 .yields = 1},
	{INT("node-rank", node_rank, 0, WIRE_NODES_MAX - 1, "N",
	     "PET_NODE_RANK",
	     "This node's rank; without it, the rendezvous chooses."),
	 .given_offset = AT(node_rank_given),
	 .more = "The node that hosts the server comes first, then the others "
		 "in order of address."},
	{.heading = "how nodes meet",
	 TEXT("rdzv-endpoint", endpoint_text, "HOST[:PORT],...",
	      "PET_RDZV_ENDPOINT",
	      "Where the nodes meet; the node that has this address hosts the "
	      "server. Default: --master-addr; under Slurm, the step's first "
	      "node and a port derived from the step; else $MASTER_ADDR (port "
	      "$MASTER_PORT or 29500), else localhost; port 29400. With "
	      "--rdzv-backend etcd: its members, port 2379."),
	 .given_offset = AT(endpoint_given)},
	{TEXT("rdzv-id", job, "ID", "PET_RDZV_ID",
	      "The job's name; only nodes with the same name meet ({}; under "
	      "Slurm slurm-JOB.STEP)."),
	 .def = CONFIG_JOB,
	 .given_offset = AT(job_given)},
	{TEXT("rdzv-backend", backend, "static|c10d|etcd", "PET_RDZV_BACKEND",
	      "static or c10d, for compatibility with torchrun: both mean "
	      "ddprun's own server. etcd: this server with its address and "
	      "state in etcd, so that the job survives the loss of any node "
	      "(docs: etcd)."),
	 .def = "static",
	 .more = "etcd-v2 means the same. Needs --rdzv-id. Each node runs a "
		 "ddprdzv, and etcd elects one of them as the server. Not with "
		 "-H, --standalone, --journal."},
	{TEXT("rdzv-conf", rdzv_conf, "KEY=VALUE,...", "PET_RDZV_CONF",
	      "torchrun's way to set --rdzv-timeout (join_timeout, timeout), "
	      "--last-call-timeout (last_call_timeout), --heartbeat-timeout "
	      "(heartbeat_timeout) and --node-rank (rank); reconnect_timeout: "
	      "how long to search for a lost server (30 s). For etcd: protocol "
	      "(http, https), cacert, cert, key, ttl (10 s)."),
	 .more = "The option itself takes precedence. ttl is how long a server "
		 "may be silent before another node replaces it; etcd-v2's "
		 "ca_cert, ssl_cert and ssl_cert_key are accepted as well. "
		 "is_host says whether this node hosts the server; "
		 "close_timeout and read_timeout have no effect; store_type "
		 "can only be tcp; other keys are ignored with a warning."},
	{SECONDS("rdzv-timeout", rdzv_timeout_s, 0.001, "PET_RDZV_TIMEOUT",
		 "How long to wait for all nodes ({})."),
	 .def = "600",
	 .given_offset = AT(rdzv_timeout_given),
	 .yields = 1},
	{SECONDS("last-call-timeout", last_call_s, 0, "PET_LAST_CALL_TIMEOUT",
		 "With --nnodes MIN:MAX: how long to wait for more nodes once "
		 "MIN are there ({})."),
	 .def = "30",
	 .given_offset = AT(last_call_given),
	 .yields = 1},
	{TEXT("journal", journal, "FILE|none", "PET_JOURNAL",
	      "Where a rendezvous server that this ddprun starts keeps its "
	      "state: in FILE, or nowhere (default: in memory, from which it "
	      "is restarted if it dies)."),
	 .yields = 1},
	{TEXT("web", web, "[HOST:]PORT", "PET_WEB",
	      "Let a rendezvous server that this ddprun starts serve a page "
	      "about the job (docs: web) over HTTP, without HOST on loopback, "
	      "and log its URL, which contains a token."),
	 .yields = 1},
	{SECONDS("heartbeat-timeout", heartbeat_s, 0.1,
		 "PET_HEARTBEAT_TIMEOUT",
		 "A node that is silent for this long is lost; a job survives "
		 "an outage of nine tenths of this time ({})."),
	 .def = "5",
	 .given_offset = AT(heartbeat_given),
	 .yields = 1},
	{TEXT("auth", auth_text, "auto|secret|munge|none", "PET_AUTH",
	      "How nodes prove that they belong to the job: munge, or a secret "
	      "that all of them have (auto). none: anyone who can reach the "
	      "port can join, read and end the job."),
	 .yields = 1,
	 .more = "auto: with --standalone, over ssh and under mpirun, a secret "
		 "generated for the job; else $DDP_TOKEN or --token-file; else "
		 "/var/run/secrets/ddprun/token, if there is such a file; else "
		 "munge, if munged runs; else, if ddprun starts a Slurm step, "
		 "a secret generated for the step; else this user's key file, "
		 "~/.config/ddprun/key, created at its first use. $DDP_AUTH is "
		 "the default."},
	{TEXT("token-file", token_file, "FILE", "PET_TOKEN_FILE",
	      "A file with the secret of all nodes, readable only by its owner "
	      "($DDP_TOKEN)."),
	 .yields = 1},
	{FLAG("standalone", standalone, "PET_STANDALONE",
	      "One node, a free port, a random job name."),
	 .more = "As with torchrun, --rdzv-endpoint and --rdzv-id then have no "
		 "effect."},
	{TEXT("master-addr", master_addr, "HOST", "PET_MASTER_ADDR",
	      "Like --rdzv-endpoint HOST, with port 29500."),
	 .given_offset = AT(master_addr_given)},
	{INT("master-port", master_port, 0, 65535, "PORT", "PET_MASTER_PORT",
	     "The port for --master-addr, and MASTER_PORT of the workers."),
	 .given_offset = AT(master_port_given)},
	{TEXT("local-addr", local_addr, "HOST", "PET_LOCAL_ADDR",
	      "The address at which other nodes reach this one; default: the "
	      "one from which it reaches the server."),
	 .given_offset = AT(local_addr_given)},
	{TEXT("interface", interface, "NAME|NETWORK", "PET_INTERFACE",
	      "The same, by interface: its name, a prefix of its name (ib), or "
	      "its network (10.0.0.0/8)."),
	 .yields = 1,
	 .more = "For NCCL and gloo, use --net-interface."},
	{FLAG("store-open", store_open, "PET_STORE_OPEN",
	      "Anyone who can reach MASTER_ADDR:MASTER_PORT may use PyTorch's "
	      "store, as under torchrun; default: only processes of this user "
	      "on the job's nodes."),
	 .yields = 1,
	 .more = "For workers in containers with their own network, or behind "
		 "NAT. Only the setting of the node that hosts the server "
		 "counts."},
	{FLAG("encrypt-data", encrypt_data, "PET_ENCRYPT_DATA",
	      "Encrypt libddp's TCP collectives and messages between nodes; "
	      "give it on all nodes or on none."),
	 .yields = 1,
	 .more = "Sets DDP_ENCRYPT_DATA=1 for the workers. It does not cover "
		 "the connections of NCCL, gloo, MPI and PyTorch's store. Not "
		 "with --auth none, which would send the key unencrypted."},
	{.heading = "several programs",
	 TEXT("multi-prog", multi_prog, "FILE", NULL,
	      "Start several programs, one for each line 'RANKS PROGRAM "
	      "[ARGUMENTS]', as srun does (docs: several programs)."),
	 .yields = 1,
	 .more = "The same as -n 4 ./a : -n 8 ./b. RANKS is a list such as "
		 "0-3,8, or * for all others."},
	{FLAG("role-optional", role_optional, NULL,
	      "A worker of this program may fail: ddprun starts it again "
	      "alone, up to --max-restarts times, and then continues without "
	      "it."),
	 .yields = 1},
	{TEXT("role", role, "NAME", "PET_ROLE",
	      "The role of this node's workers: ROLE_NAME. ROLE_RANK and "
	      "ROLE_WORLD_SIZE count the workers of the same role ({})."),
	 .def = CONFIG_ROLE},
	{.heading = "failures and restarts",
	 INT("max-restarts", max_restarts, 0, 1000000, "N",
	     "PET_MAX_RESTARTS",
	     "Start all workers again after a failure, up to N times ({})."),
	 .def = "0",
	 .more = "The count is one for the whole job, on whichever node a "
		 "worker failed; nodes that join or leave do not count."},
	{INT("max-no-progress-restarts", max_no_progress, 0, 1000000, "N",
	     "PET_MAX_NO_PROGRESS_RESTARTS",
	     "End the job when N restarts in a row reached no step beyond the "
	     "highest before them, even if --max-restarts allows more ({}; "
	     "0: never)."),
	 .def = "3",
	 .yields = 1,
	 .more = "Works if workers report their steps, with ddp_step() or in "
		 "$DDP_STEP_FILE, and continue to count after a restart."},
	{INT("swap-after", swap_after, 0, 1000000, "N", "PET_SWAP_AFTER",
	     "Replace a node by a waiting spare when its workers were the "
	     "first to fail N times in a row at the start ({}; 0: never)."),
	 .def = "3",
	 .yields = 1,
	 .more = "The start is the time before the node's first step or, if "
		 "its workers never reported a step, the first 60 s. The node "
		 "then waits as a spare itself, and returns only if too few "
		 "nodes are left."},
	{SECONDS("restart-backoff", restart_backoff_s, 0,
		 "PET_RESTART_BACKOFF",
		 "Wait this long before the first restart, and twice as long "
		 "before each further one, up to 5 minutes (0: restart at "
		 "once)."),
	 .yields = 1,
	 .more = "The wait begins when the last worker is gone. If workers ran "
		 "for 10 minutes, the next wait is SECONDS again. All nodes "
		 "must have the same value. A signal during the wait takes "
		 "effect at once. Nodes that join or leave cause no wait."},
	{SECONDS("shutdown-timeout", shutdown_timeout_s, 0,
		 "PET_SHUTDOWN_TIMEOUT",
		 "Time from SIGTERM to SIGKILL for workers that must stop "
		 "({})."),
	 .def = "30",
	 .given_offset = AT(shutdown_timeout_given),
	 .more = "Default: $TORCH_ELASTIC_SHUTDOWN_TIMEOUT, if it is set."},
	{SECONDS("hang-timeout", hang_s, 0, "PET_HANG_TIMEOUT",
		 "End, or restart, the job when a rank has made no progress "
		 "for that long while others wait for it (0: only report "
		 "it)."),
	 .yields = 1,
	 .more = "Before that, the stacks of all ranks are written to "
		 "attempt_N/dump.txt below --log-dir, or to stderr. A rank "
		 "that reads, writes or touches new memory has ten times as "
		 "long."},
	{TEXT("on-event", on_event, "COMMAND", "PET_ON_EVENT",
	      "Run this command (sh -c) on node 0 when the job has failed, "
	      "hangs, has a slow rank or a GPU with an error, is restarted, or "
	      "has other nodes, with what happened as JSON on its standard "
	      "input."),
	 .yields = 1,
	 .more = "The job does not wait for it. The JSON is an object with "
		 "version (1), event (failed, gpu, hung, slow, restarted, "
		 "swapped, started_again, left_out), job, host (of node 0), "
		 "time (Unix), round, attempt, rank (that the event is about, "
		 "or null) and text. Its output goes to stderr. It is killed "
		 "after 30 s, and 5 s after the end of the job. ddprun warns "
		 "of that, and if it fails."},
	{SECONDS("stop-before", stop_before_s, 0, "PET_STOP_BEFORE",
		 "How long before the end of Slurm's job the workers are asked "
		 "to stop (as --shutdown-timeout; 0: Slurm's own signals "
		 "only)."),
	 .given_offset = AT(stop_before_given),
	 .yields = 1,
	 .more = "With this option, or if --requeue-on contains timeout, "
		 "ddprun asks all workers to stop; else only those that poll "
		 "ddp_should_stop(), and the others continue until Slurm's "
		 "SIGTERM. The end is $SLURM_JOB_END_TIME."},
	{TEXT("requeue-on", requeue_on, "preempt,timeout", "PET_REQUEUE_ON",
	      "Requeue Slurm's batch job (scontrol requeue) when its workers "
	      "have stopped because it was preempted, or because its time "
	      "ends."),
	 .yields = 1,
	 .more = "Not after a failure, nor when the job was cancelled. The job "
		 "restarts with its script, which must resume from a "
		 "checkpoint."},
	{SECONDS("monitor-interval", monitor_interval_s, 0,
		 "PET_MONITOR_INTERVAL",
		 "For compatibility with torchrun: no effect, because ddprun "
		 "reacts to events and does not poll."),
	 .def = "0.1"},
	{.heading = "signals and standard input",
	 TEXT("signals-to-handle", signals_to_handle, "NAME,...",
	      "PET_SIGNALS_TO_HANDLE",
	      "Signals that end the job; the workers get the same signal "
	      "({})."),
	 .def = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
	 .more = "The workers of all nodes stop, whichever ddprun gets the "
		 "signal; workers that poll ddp_should_stop() need no signal. "
		 "A second signal kills them. Under Slurm, SIGUSR1 and SIGUSR2 "
		 "announce the end of the time (sbatch --signal), and kill "
		 "nothing."},
	{TEXT("forward-signals", forward_signals, "NAME,...",
	      "PET_FORWARD_SIGNALS",
	      "Signals to forward to the workers without ending the job, for "
	      "example SIGUSR1,SIGUSR2 (none)."),
	 .def = "",
	 .yields = 1},
	{TEXT("stdin", stdin_to, "none|all|RANK", "PET_STDIN",
	      "The workers that read ddprun's standard input: the one of this "
	      "rank, all, or none ({}). If the rank does not exist, none reads "
	      "it."),
	 .def = "0",
	 .given_offset = AT(stdin_given),
	 .yields = 1},
	{TEXT("tty", tty, "RANK", "PET_TTY",
	      "Give the worker of this rank the terminal, for pdb, ipython, "
	      "gdb or a shell, while the others run."),
	 .yields = 1,
	 .more = "Ctrl-C is the worker's, Ctrl-] ends the job, Ctrl-Z suspends "
		 "it (docs/pytorch.md). ddprun must run in a terminal: on that "
		 "rank's node, or, with -H or in salloc, on any host."},
	{.heading = "how programs start",
	 TEXT("mpi", mpi, "auto|pmi|pmix|none", "PET_MPI",
	      "Serve MPI's start-up to the workers: by PMI-1, by PMIx, or not. "
	      "With auto, as PROGRAM's library needs it ({}): PMI-1 "
	      "for MPICH, Intel MPI and NVSHMEM, PMIx for Open MPI."),
	 .def = "auto",
	 .given_offset = AT(mpi_given),
	 .yields = 1,
	 .more = "pmi and pmix are for programs that load such a library "
		 "later: a shell script, or Python that imports mpi4py in a "
		 "function. All workers must call MPI_Init. PMIx needs "
		 "libpmix.so.2. If auto is given, and several workers run a "
		 "program without such a library, ddprun warns."},
	{TEXT("env", env_text, "jax,tf,paddle", "PET_ENV",
	      "Also set the variables from which JAX, TensorFlow or Paddle "
	      "read a worker's rank and the addresses of the others (docs: "
	      "frameworks)."),
	 .yields = 1,
	 .more = "It replaces inherited variables of the same names. With "
		 "paddle, MASTER_PORT is not the port of PyTorch's store. All "
		 "nodes must have the same value."},
	{FLAG("module", module, "PET_MODULE",
	      "PROGRAM is a Python module: python3 -u -m PROGRAM."),
	 .letter = 'm'},
	{FLAG("no-python", no_python, "PET_NO_PYTHON",
	      "Execute PROGRAM itself even if its name ends with .py.")},
	{FLAG("run-path", run_path, "PET_RUN_PATH",
	      "PROGRAM is a Python script whatever its name is: python3 -u "
	      "PROGRAM.")},
	{TEXT("preload", preload, "MODULE,...|auto", "PET_PRELOAD",
	      "Import these Python modules once on this node, and fork each "
	      "worker from that process; auto: what the program, and the "
	      "modules beside it, import from installed packages (docs: "
	      "preload)."),
	 .yields = 1,
	 .more = "For a Python script or module. Each start and restart then "
		 "takes milliseconds instead of the time of the imports. "
		 "ddprun starts workers without a fork, and logs why, if a "
		 "module cannot be imported, or leaves threads, a socket, a "
		 "GPU's context or anything else that a fork would share."},
	{TEXT("stage", stage, "PATH[:FOLDER]", "PET_STAGE",
	      "Copy this file or folder to a local disk of each node before "
	      "the workers start; auto: the Python environment in use (docs: "
	      "staging)."),
	 .yields = 1,
	 .more = "The first node reads PATH once, each node passes its copy on "
		 "to the next one. DDP_STAGE is the path of the copy; a "
		 "program, and entries of PATH and PYTHONPATH, that lie in "
		 "PATH are used from the copy. Copies stay in FOLDER "
		 "(ddprun-stage-UID below TMPDIR or /tmp), and are used again "
		 "until PATH changes."},
	{TEXT("start-method", start_method, "spawn|fork|forkserver",
	      "PET_START_METHOD",
	      "For compatibility with torchrun: no effect, because ddprun "
	      "starts programs."),
	 .def = "spawn"},
	{.heading = "GPUs, CPUs and network interfaces",
	 FLAG("virtual-local-rank", virtual_local_rank,
	      "PET_VIRTUAL_LOCAL_RANK",
	      "Each worker has LOCAL_RANK=0 and sees one GPU, its own."),
	 .more = "CUDA_VISIBLE_DEVICES becomes the worker's entry of the "
		 "list."},
	{INT("gpus-per-proc", gpus_per_proc, 1, WIRE_NPROC_MAX, "K",
	     "PET_GPUS_PER_PROC",
	     "Each worker sees K GPUs of its own, in the order of "
	     "CUDA_VISIBLE_DEVICES."),
	 .yields = 1,
	 .more = "If CUDA_VISIBLE_DEVICES is set, its list must have as many "
		 "GPUs as all workers need; otherwise, the host must."},
	{TEXT("cpu-bind", cpu_bind,
	      "node|socket|exclusive|core-complex|cores|none",
	      "PET_CPU_BIND",
	      "Bind each worker to the CPUs of its GPU's NUMA node or socket, "
	      "to its own share of the node's cores (exclusive), to a group of "
	      "cores that share a cache, or to a share of all cores (cores)."),
	 .yields = 1,
	 .more = "Workers get only CPUs that ddprun itself may use, and "
		 "hyperthreads of a core stay together. Without GPUs, workers "
		 "are spread evenly over the cores, in rank order. Needs "
		 "hwloc."},
	{TEXT("numa-binding", cpu_bind,
	      "node|socket|exclusive|core-complex|cores|none",
	      NULL, "torchrun's name for --cpu-bind.")},
	{TEXT("net-interface", net_interface, "auto|NAME", "PET_NET_INTERFACE",
	      "The network interface for NCCL and gloo: its name, or auto, "
	      "which is the one at which other nodes reach this node (default: "
	      "they choose; auto changes nothing on a single node)."),
	 .yields = 1,
	 .more = "Sets NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME, each unless "
		 "it is set. NCCL's data over InfiniBand does not use this "
		 "interface, only its bootstrap does."},
	{.heading = "output, logs and debugging",
	 TEXT("wrap", wrap, "COMMAND", "PET_WRAP",
	      "Run each worker under this command: 'gdb -batch -ex run "
	      "--args', valgrind, a profiler."),
	 .yields = 1,
	 .more = "It is split into words as by a shell, without expansion. "
		 "ddprun sees the wrapper's exit codes and signals."},
	{TEXT("wrap-ranks", wrap_ranks, "RANKS", "PET_WRAP_RANKS",
	      "Apply --wrap only to these ranks: 0,5 or 0-3,8."),
	 .yields = 1},
	{TEXT("log-dir", output.log_dir, "DIR", "PET_LOG_DIR",
	      "Keep the workers' output and error files in this folder, in a "
	      "subfolder for each job, attempt and local rank; /dev/null: no "
	      "files."),
	 .more = "Without --redirects and --tee, all output goes to the files "
		 "and to the console, as with --tee 3. If the folder is on a "
		 "file server, ddprun writes these files, and its workers "
		 "do not wait for a server that has stopped."},
	{TEXT("nccl-debug", nccl_debug, "LEVEL[:SUBSYSTEM,...]",
	      "PET_NCCL_DEBUG",
	      "NCCL's log level: VERSION, WARN, INFO, ABORT or TRACE; "
	      "INFO:INIT,NET limits it to these subsystems. With --log-dir, "
	      "each worker's log is a separate file, nccl.log."),
	 .yields = 1,
	 .more = "Sets NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE, the "
		 "last one unless it is set. Without --log-dir, the log "
		 "appears on the console, after the rank's prefix."},
	{TEXT("redirects", output.redirects, "MASK|RANK:MASK,...",
	      "PET_REDIRECTS",
	      "Write to a file, not to the console: 1 stdout, 2 stderr, 3 "
	      "both, of all workers or by local rank: 0:3,12:1 (0)."),
	 .letter = 'r'},
	{TEXT("tee", output.tee, "MASK|RANK:MASK,...", "PET_TEE",
	      "Like --redirects, but also to the console (0; 3 with --log-dir "
	      "and no --redirects)."),
	 .letter = 't'},
	{TEXT("log-line-prefix-template", output.log_prefix, "TEMPLATE",
	      "PET_LOG_LINE_PREFIX_TEMPLATE",
	      "The prefix of each line on the console, with ${rank}, "
	      "${local_rank}, ${role_name}, ${node_rank}, ${hostname}, "
	      "${world_size} and ${stream} filled in; default: "
	      "$TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE, else '[${rank}] '."),
	 .yields = 1},
	{TEXT("ranks-filter", output.ranks_filter, "RANKS", "PET_RANKS_FILTER",
	      "Show on the console only what these ranks write: 0,5 or "
	      "0-3,8. Ranks that do not exist are ignored."),
	 .yields = 1},
	{TEXT("local-ranks-filter", output.local_ranks_filter, "RANKS",
	      "PET_LOCAL_RANKS_FILTER",
	      "The same by local rank, on each node.")},
	{TEXT("duplicate-stdout-filters", output.stdout_filters, "TEXT,...",
	      "PET_DUPLICATE_STDOUT_FILTERS",
	      "Copy lines of stdout that contain one of these to a file of "
	      "their own; ,, is a comma.")},
	{TEXT("duplicate-stderr-filters", output.stderr_filters, "TEXT,...",
	      "PET_DUPLICATE_STDERR_FILTERS", "The same for stderr.")},
	{FLAG("collapse", output.collapse, "PET_COLLAPSE",
	      "Show a line that many ranks write only once: [0-63] line."),
	 .yields = 1},
	{TEXT("logs-specs", logs_specs, "default", NULL,
	      "For compatibility with torchrun, which loads Python code by "
	      "this name; ddprun accepts only the default.")},
	{TEXT("event-log-handler", event_log_handler, "null|console",
	      "PET_EVENT_LOG_HANDLER",
	      "console: print torchrun's events on stderr, one line of JSON "
	      "for each start and end of a worker ({})."),
	 .def = "null"},
	{FLAG("no-crash-stacks", no_crash_stacks, "PET_NO_CRASH_STACKS",
	      "Do not preload a library into the workers; the failure page "
	      "then has no stack of a worker that crashed."),
	 .yields = 1},
	{.heading = "checks",
	 TEXT("preflight", preflight, "quick|full|none", "PET_PREFLIGHT",
	      "Check all nodes and the network between them before PROGRAM "
	      "starts, as ddprun check does (alone: quick, about 2 s; default: "
	      "{})."),
	 .def = "none",
	 .bare = "quick",
	 .more = "It runs before the first attempt, and again each time the "
		 "nodes change during that attempt. A node that is not fit "
		 "leaves the job, with a line that says why: a spare replaces "
		 "it, or an elastic job continues without it, or the job ends. "
		 "Warnings are logged, and the job starts."},
	{TEXT("preflight-folders", preflight_folders, "DIR,...",
	      "PET_PREFLIGHT_FOLDERS",
	      "For --preflight and ddprun check: folders in which workers "
	      "write, such as that of the checkpoints (default: --log-dir, "
	      "else the current one)."),
	 .yields = 1},
	{TEXT("preflight-command", preflight_command, "COMMAND",
	      "PET_PREFLIGHT_COMMAND",
	      "For --preflight and ddprun check: the site's own check, run by "
	      "sh -c on each node; a node where it fails is not fit, and the "
	      "last line of its output says why."),
	 .yields = 1},
	{TEXT("preflight-json", preflight_json, "FILE", "PET_PREFLIGHT_JSON",
	      "For --preflight and ddprun check: write the results as JSON to "
	      "FILE on node 0; -: to stdout, instead of the table."),
	 .yields = 1},
	{.heading = "other",
	 FLAG("dry-run", dry_run, "PET_DRY_RUN",
	      "Print each worker's command, environment and placement on this "
	      "node, and start nothing."),
	 .yields = 1},
	{FLAG("legacy-launch", legacy_launch, "PET_LEGACY_LAUNCH",
	      "Like python -m torch.distributed.launch: each script's first "
	      "argument is --local-rank=N."),
	 .yields = 1},
	{FLAG("use-env", use_env, NULL,
	      "With --legacy-launch: do not add that argument."),
	 .yields = 1},
	{TEXT("print-completion", print_completion, "bash|zsh|fish", NULL,
	      "Print the completion script of that shell, and exit.")},
	{.name = "help", .letter = 'h', .kind = OPTION_HELP,
	 .help = "Show this."},
	{.name = "version", .kind = OPTION_VERSION, .yields = 1,
	 .help = "Show the version."},
	{.name = NULL},
};
