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
	{TEXT("nnodes", nnodes_text, "N|MIN:MAX", "PET_NNODES",
	      "Number of nodes, each of which runs this command ({}; under "
	      "Slurm those of the step); MIN:MAX lets them come and go. More "
	      "than that wait as spares."),
	 .def = "1",
	 .given_offset = AT(nnodes_given)},
	{TEXT("nproc-per-node", nproc_text, "N|auto|cpu|gpu",
	      "PET_NPROC_PER_NODE",
	      "Workers on this node: a number, cpu, gpu, or auto, which is gpu "
	      "where there is one, else cpu ({}; under Slurm one for each GPU "
	      "of the step, else for each task or CPU)."),
	 .def = "1",
	 .given_offset = AT(nproc_given),
	 .more = "Nodes may have different numbers: ranks are prefix sums over "
		 "the nodes. CPUs are those that this process may use; GPUs "
		 "are counted through NVML, within CUDA_VISIBLE_DEVICES, and "
		 "divided by --gpus-per-proc."},
	{TEXT("hosts", hosts_text, "HOST[:N],...", "PET_HOSTS",
	      "Run the job on these hosts, with N workers on each, over ssh "
	      "(docs: ddprun over ssh); the first is node 0."),
	 .letter = 'H', .yields = 1,
	 .more = "HOST may be USER@HOST and [IPv6]. Without N it is "
		 "--nproc-per-node, else auto. In a PBS or LSF job the "
		 "scheduler's list is taken, if nothing else is said."},
	{TEXT("hostfile", hostfile, "FILE", "PET_HOSTFILE",
	      "The same from a file, as OpenMPI, MPICH, DeepSpeed and Horovod "
	      "have it: lines of HOST slots=N, HOST:N or HOST; -: stdin."),
	 .yields = 1},
	{FLAG("host-check", host_check, NULL,
	      "Try all hosts, print a line for each, and start nothing; exits "
	      "with 0 if the job could run."),
	 .yields = 1},
	{TEXT("ssh", ssh_program, "PROGRAM", "PET_SSH",
	      "Reaches the hosts ({}): called as PROGRAM SSH-ARGS HOST "
	      "COMMAND."),
	 .def = "ssh",
	 .yields = 1},
	{TEXT("ssh-args", ssh_args, "ARGS", "PET_SSH_ARGS",
	      "More arguments for it, split as a shell splits them: '-p 2222 "
	      "-i KEYFILE'."),
	 .def = "",
	 .yields = 1},
	{SECONDS("ssh-timeout", ssh_timeout_s, 0.1, "PET_SSH_TIMEOUT",
		 "A host that cannot be reached within that time is an error "
		 "({})."),
	 .def = "30",
	 .yields = 1},
	{INT("ssh-width", ssh_width, 1, 65536, "N", "PET_SSH_WIDTH",
	     "So many ssh at once; further hosts are reached through the first "
	     "ones, which must be able to ({})."),
	 .def = "32",
	 .yields = 1},
	{INT("node-rank", node_rank, 0, WIRE_NODES_MAX - 1, "N",
	     "PET_NODE_RANK",
	     "This node's rank; without it the rendezvous chooses."),
	 .given_offset = AT(node_rank_given),
	 .more = "The node that hosts the server is first, then it goes by "
		 "address."},
	{TEXT("rdzv-endpoint", endpoint_text, "HOST[:PORT],...",
	      "PET_RDZV_ENDPOINT",
	      "Where the nodes meet; the node that has this address hosts the "
	      "server. Default: --master-addr; under Slurm the step's first "
	      "node and a port of the step's own; else $MASTER_ADDR (port "
	      "$MASTER_PORT or 29500), else localhost; port 29400. With "
	      "--rdzv-backend etcd: its members, port 2379."),
	 .given_offset = AT(endpoint_given)},
	{TEXT("rdzv-id", job, "ID", "PET_RDZV_ID",
	      "The job's name; only nodes with the same one meet ({}; under "
	      "Slurm slurm-JOB.STEP)."),
	 .def = "none",
	 .given_offset = AT(job_given)},
	{TEXT("rdzv-backend", backend, "static|c10d|etcd", "PET_RDZV_BACKEND",
	      "static or c10d, for torchrun's sake: both mean ddprun's own. "
	      "etcd: the same, with its place and its state in etcd, so that "
	      "any node may be lost (docs: etcd)."),
	 .def = "static",
	 .more = "etcd-v2 is the same word. Needs --rdzv-id, and every node a "
		 "ddprdzv, of which etcd lets one be the server. Not with -H, "
		 "--standalone, --journal."},
	{TEXT("rdzv-conf", rdzv_conf, "KEY=VALUE,...", "PET_RDZV_CONF",
	      "torchrun's way to say --rdzv-timeout (join_timeout, timeout), "
	      "--last-call-timeout (last_call_timeout), --heartbeat-timeout "
	      "(heartbeat_timeout) and --node-rank (rank); reconnect_timeout: "
	      "for how long a lost server is looked for (30 s). Of etcd: "
	      "protocol (http, https), cacert, cert, key, ttl (10 s)."),
	 .more = "The option itself wins. ttl is how long etcd waits for a "
		 "server that is gone without a word before another node has "
		 "it; of etcd-v2 ca_cert, ssl_cert and ssl_cert_key are taken, "
		 "too. is_host says whether this node hosts "
		 "the server; close_timeout and read_timeout have no effect; "
		 "store_type can only be tcp; another key is ignored with a "
		 "warning."},
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
	      "Keep the state of the rendezvous server, where this ddprun "
	      "starts it, in FILE, or not at all (in memory: it is started "
	      "again if it dies)."),
	 .yields = 1},
	{SECONDS("heartbeat-timeout", heartbeat_s, 0.1,
		 "PET_HEARTBEAT_TIMEOUT",
		 "A node that is silent for that long is lost; an outage "
		 "of nine tenths of it is survived ({})."),
	 .def = "5",
	 .given_offset = AT(heartbeat_given),
	 .yields = 1},
	{TEXT("auth", auth_text, "auto|secret|munge|none", "PET_AUTH",
	      "How nodes prove that they belong to the job: munge, or a secret "
	      "that all have (auto). none: whoever reaches the port can join, "
	      "read and end the job."),
	 .yields = 1,
	 .more = "auto: with --standalone, over ssh and under mpirun a secret "
		 "of the job's own; else $DDP_TOKEN or --token-file; else "
		 "munge, where munged runs; else, where ddprun starts a step "
		 "of Slurm's, a secret of the step's own; else this user's key "
		 "file, ~/.config/ddprun/key, which is made at its first use. "
		 "$DDP_AUTH is the default."},
	{TEXT("token-file", token_file, "FILE", "PET_TOKEN_FILE",
	      "The secret that all nodes have, in a file that only its owner "
	      "may read ($DDP_TOKEN)."),
	 .yields = 1},
	{FLAG("standalone", standalone, "PET_STANDALONE",
	      "One node, a free port, a random job name."),
	 .more = "As with torchrun, --rdzv-endpoint and --rdzv-id are then "
		 "without effect."},
	{TEXT("master-addr", master_addr, "HOST", "PET_MASTER_ADDR",
	      "As --rdzv-endpoint HOST, with port 29500."),
	 .given_offset = AT(master_addr_given)},
	{INT("master-port", master_port, 0, 65535, "PORT", "PET_MASTER_PORT",
	     "The port that goes with --master-addr."),
	 .given_offset = AT(master_port_given)},
	{TEXT("local-addr", local_addr, "HOST", "PET_LOCAL_ADDR",
	      "Where other nodes reach this one; default: the address it meets "
	      "them from."),
	 .given_offset = AT(local_addr_given)},
	{TEXT("interface", interface, "NAME|NETWORK", "PET_INTERFACE",
	      "The same by the interface that has it: its name, how that "
	      "begins (ib), or a network that it is in (10.0.0.0/8)."),
	 .yields = 1,
	 .more = "What NCCL and gloo use is --net-interface's."},
	{FLAG("store-open", store_open, "PET_STORE_OPEN",
	      "Whoever reaches MASTER_ADDR:MASTER_PORT may use PyTorch's "
	      "store, as under torchrun; default: processes of this user on "
	      "the job's nodes."),
	 .yields = 1,
	 .more = "For workers in containers with a network of their own, or "
		 "behind a NAT. What the node says counts that hosts the "
		 "server."},
	{FLAG("encrypt-data", encrypt_data, "PET_ENCRYPT_DATA",
	      "Encrypt what ranks of different nodes send each other by "
	      "libddp's TCP collectives and messages; the same on all nodes."),
	 .yields = 1,
	 .more = "As DDP_ENCRYPT_DATA=1 for the workers. It does not cover the "
		 "connections of NCCL, gloo, MPI and PyTorch's store, and not "
		 "--auth none, where the key would be sent in plain."},
	{TEXT("role", role, "NAME", "PET_ROLE",
	      "What this node's workers are: ROLE_NAME, and whom they share "
	      "ROLE_RANK and ROLE_WORLD_SIZE with ({})."),
	 .def = "default"},
	{INT("max-restarts", max_restarts, 0, 1000000, "N",
	     "PET_MAX_RESTARTS",
	     "Start all workers again after a failure, up to N times ({})."),
	 .def = "0",
	 .more = "The count is one for the whole job, whatever node the worker "
		 "was on; nodes that come and go do not count."},
	{SECONDS("shutdown-timeout", grace_s, 0, "PET_SHUTDOWN_TIMEOUT",
		 "From SIGTERM to SIGKILL, for workers that must stop ({})."),
	 .def = "30",
	 .given_offset = AT(grace_given),
	 .more = "Default: $TORCH_ELASTIC_SHUTDOWN_TIMEOUT, if it is set."},
	{SECONDS("stop-before", stop_before_s, 0, "PET_STOP_BEFORE",
		 "So long before the end of the time of Slurm's job the "
		 "workers are told to stop (as --shutdown-timeout; 0: Slurm's "
		 "own signals only)."),
	 .given_offset = AT(stop_before_given),
	 .yields = 1,
	 .more = "Where it is given, or --requeue-on has timeout, all workers "
		 "are told; else those that ask (ddp_should_stop), and the "
		 "others go on until Slurm's SIGTERM. The end is "
		 "$SLURM_JOB_END_TIME."},
	{TEXT("requeue-on", requeue_on, "preempt,timeout", "PET_REQUEUE_ON",
	      "Give Slurm's batch job back to the queue (scontrol requeue) "
	      "when its workers have stopped because it was preempted, or its "
	      "time ends."),
	 .yields = 1,
	 .more = "Not after a failure, nor when the job was cancelled. The job "
		 "begins again with its script, and must go on from its "
		 "checkpoint by itself."},
	{SECONDS("monitor-interval", monitor_interval_s, 0,
		 "PET_MONITOR_INTERVAL",
		 "For torchrun's sake: nothing is polled, all is noticed as "
		 "it happens."),
	 .def = "0.1"},
	{TEXT("signals-to-handle", signals_to_handle, "NAME,...",
	      "PET_SIGNALS_TO_HANDLE",
	      "Signals that end the job: the workers get the same one "
	      "({})."),
	 .def = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
	 .more = "All workers of all nodes are told, whichever ddprun is; who "
		 "asks (ddp_should_stop) needs no signal. A second one kills "
		 "them. Under Slurm SIGUSR1 and SIGUSR2 say that the time ends "
		 "(sbatch --signal), and kill nothing."},
	{TEXT("forward-signals", forward_signals, "NAME,...",
	      "PET_FORWARD_SIGNALS",
	      "Signals that are passed to the workers and do not end the job, "
	      "SIGUSR1,SIGUSR2 for instance (none)."),
	 .def = "",
	 .yields = 1},
	{TEXT("stdin", stdin_to, "none|all|RANK", "PET_STDIN",
	      "Who reads ddprun's standard input: the worker of that rank, all "
	      "of them, or none ({}). If no such rank exists, nobody reads "
	      "it."),
	 .def = "0",
	 .yields = 1},
	{FLAG("module", module, "PET_MODULE",
	      "PROGRAM is a Python module: python3 -u -m PROGRAM."),
	 .letter = 'm'},
	{FLAG("no-python", no_python, "PET_NO_PYTHON",
	      "Execute PROGRAM itself even if its name ends with .py.")},
	{FLAG("run-path", run_path, "PET_RUN_PATH",
	      "PROGRAM is a Python script whatever its name is: python3 -u "
	      "PROGRAM.")},
	{TEXT("start-method", start_method, "spawn|fork|forkserver",
	      "PET_START_METHOD",
	      "For torchrun's sake: ddprun starts programs, so it has no "
	      "effect."),
	 .def = "spawn"},
	{FLAG("virtual-local-rank", virtual_local_rank,
	      "PET_VIRTUAL_LOCAL_RANK",
	      "Each worker has LOCAL_RANK=0 and sees one GPU, its own."),
	 .more = "CUDA_VISIBLE_DEVICES becomes the entry of its own list that "
		 "belongs to the worker."},
	{INT("gpus-per-proc", gpus_per_proc, 1, WIRE_NPROC_MAX, "K",
	     "PET_GPUS_PER_PROC",
	     "Each worker sees K GPUs of its own, in the order of "
	     "CUDA_VISIBLE_DEVICES."),
	 .yields = 1,
	 .more = "Where CUDA_VISIBLE_DEVICES is not set the host must have as "
		 "many as all workers need; where it is, the list must."},
	{TEXT("cpu-bind", cpu_bind,
	      "node|socket|exclusive|core-complex|cores|none",
	      "PET_CPU_BIND",
	      "Bind each worker to the CPUs of its GPU's NUMA node or socket, "
	      "to a share of the node's cores of its own (exclusive), to a "
	      "group of cores that share a cache, or to a share of all cores "
	      "(cores)."),
	 .yields = 1,
	 .more = "Only CPUs that ddprun itself may use are given, and "
		 "hyperthreads of a core stay together. Without GPUs workers "
		 "are laid evenly along the cores, in rank order. Needs "
		 "hwloc."},
	{TEXT("numa-binding", cpu_bind,
	      "node|socket|exclusive|core-complex|cores|none",
	      NULL, "torchrun's name for --cpu-bind.")},
	{TEXT("net-interface", net_interface, "auto|NAME", "PET_NET_INTERFACE",
	      "Which network interface NCCL and gloo are to use: its name, or "
	      "auto, which is the one by which other nodes reach this node "
	      "(default: they choose; auto changes nothing on a single node)."),
	 .yields = 1,
	 .more = "Sets NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME, each where "
		 "it is not set. InfiniBand's own traffic does not go by it, "
		 "only what NCCL says before."},
	{TEXT("wrap", wrap, "COMMAND", "PET_WRAP",
	      "Run each worker under this command: 'gdb -batch -ex run "
	      "--args', valgrind, a profiler."),
	 .yields = 1,
	 .more = "Its words are split as a shell splits them, and nothing in "
		 "them is expanded. Exit codes and signals are the wrapper's."},
	{TEXT("wrap-ranks", wrap_ranks, "RANKS", "PET_WRAP_RANKS",
	      "Only these ranks get --wrap: 0,5 or 0-3,8."),
	 .yields = 1},
	{TEXT("log-dir", output.log_dir, "DIR", "PET_LOG_DIR",
	      "Keep the workers' output and error files there, in a folder for "
	      "each job, attempt and local rank; /dev/null: no files."),
	 .more = "Without --redirects and --tee, all output goes to the files "
		 "and to the console, as with --tee 3."},
	{TEXT("nccl-debug", nccl_debug, "LEVEL[:SUBSYSTEM,...]",
	      "PET_NCCL_DEBUG",
	      "What NCCL says: VERSION, WARN, INFO, ABORT or TRACE, "
	      "INFO:INIT,NET of some subsystems alone; with --log-dir each "
	      "worker's into a file of its own, nccl.log."),
	 .yields = 1,
	 .more = "Sets NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE, the "
		 "latter where it is not set. Without --log-dir it is on the "
		 "console, behind the rank's prefix."},
	{TEXT("redirects", output.redirects, "MASK|RANK:MASK,...",
	      "PET_REDIRECTS",
	      "Into a file, not to the console: 1 stdout, 2 stderr, 3 both, "
	      "of all workers or by local rank: 0:3,12:1 (0)."),
	 .letter = 'r'},
	{TEXT("tee", output.tee, "MASK|RANK:MASK,...", "PET_TEE",
	      "As --redirects, but to the console as well (0; 3 with --log-dir "
	      "and no --redirects)."),
	 .letter = 't'},
	{TEXT("log-line-prefix-template", output.log_prefix, "TEMPLATE",
	      "PET_LOG_LINE_PREFIX_TEMPLATE",
	      "What stands before each line on the console, with ${rank}, "
	      "${local_rank}, ${role_name}, ${node_rank}, ${hostname} and "
	      "${world_size} filled in; default: "
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
	      "Show a line that many ranks write once: [0-63] line."),
	 .yields = 1},
	{TEXT("logs-specs", logs_specs, "default", NULL,
	      "torchrun loads Python code by this name; ddprun has none to "
	      "load but the default.")},
	{TEXT("event-log-handler", event_log_handler, "null|console",
	      "PET_EVENT_LOG_HANDLER",
	      "For torchrun's sake: ddprun records no such events."),
	 .def = "null"},
	{FLAG("no-crash-stacks", no_crash_stacks, "PET_NO_CRASH_STACKS",
	      "Preload no library into the workers; the failure page then has "
	      "no stack of a worker that crashed."),
	 .yields = 1},
	{FLAG("dry-run", dry_run, "PET_DRY_RUN",
	      "Print what each worker of this node would be started with, and "
	      "start nothing."),
	 .yields = 1},
	{FLAG("legacy-launch", legacy_launch, "PET_LEGACY_LAUNCH",
	      "As python -m torch.distributed.launch: each script's first "
	      "argument is --local-rank=N."),
	 .yields = 1},
	{FLAG("use-env", use_env, NULL,
	      "With --legacy-launch: no such argument."),
	 .yields = 1},
	{TEXT("print-completion", print_completion, "bash|zsh", NULL,
	      "Print the completion script of that shell, and exit.")},
	{.name = "help", .letter = 'h', .kind = OPTION_HELP,
	 .help = "Show this."},
	{.name = "version", .kind = OPTION_VERSION, .yields = 1,
	 .help = "Show the version."},
	{.name = NULL},
};
