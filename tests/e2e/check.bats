# check.bats: ddprun check on one node: its table, its JSON, its exit codes, GPUs (by a
# stand-in for NVML), and bad usage.
# covers: worker-sdk/check launcher/config/check_command.c
load ../lib

@test "ddprun check of one node prints a table and exits with 0 if the node is fit" {
	expect 0 ddprun check --standalone
	has "$out" '^quick check of 1 node: '
	has "$out" '^[ !] open files '
	has "$out" '^[ !] folder \. .* free$'
	has "$out" '^  all_reduce +cpu of 256 KiB'
	has "$out" '^1 of 1 node is fit'
	nothing_left
}

@test "the results are also JSON, in a file or instead of the table" {
	expect 0 ddprun check full --standalone --preflight-json -
	lacks "$out" 'check of 1 node'
	python3 -c '
import json, sys
d = json.load(sys.stdin)
names = {f["name"]: f for f in d["nodes"][0]["findings"]}
assert d["version"] == 1 and d["mode"] == "full", d
assert d["verdict"] in ("ok", "warning") and d["links"] == []
assert names["memory speed"]["value"] > 0
assert names["folder ., write"]["value"] > 0' <<<"$out"
	expect 1 ddprun check --standalone --preflight-json /no/such/file
	has "$err" 'cannot write the results to /no/such/file: No such file'
}

@test "a node that is not fit ends the check with 1 and a line that says why" {
	expect 1 ddprun check --standalone --preflight-folders /no/such
	has "$out" '^X folder /no/such +not writable$'
	has "$out" '^X     node 0 \(.*\): /no/such: cannot create a file there: '
	has "$out" '^0 of 1 node is fit'
	has "$err" 'failed: rank 0 .* is not fit: /no/such: cannot create a file'
}

@test "a GPU that is hot, or has memory errors or lost lanes, is marked" {
	cat >nvml.c <<-'END'
		#include <stdio.h>
		int nvmlInit_v2(void) { return 0; }
		int nvmlShutdown(void) { return 0; }
		int nvmlSystemGetDriverVersion(char *out, unsigned size)
		{ snprintf(out, size, "550.54.15"); return 0; }
		int nvmlSystemGetCudaDriverVersion_v2(int *v)
		{ *v = 12040; return 0; }
		int nvmlDeviceGetCount_v2(unsigned *n) { *n = 4; return 0; }
		int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d)
		{ *d = (void *)(long)(i + 1); return i == 3 ? 15 : 0; }
		int nvmlDeviceGetName(void *d, char *out, unsigned size)
		{ snprintf(out, size, "H100"); return 0; }
		int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter,
						unsigned long long *n)
		{ *n = (long)d == 2 && kind == 1 ? 3 : 0; return 0; }
		int nvmlDeviceGetCurrPcieLinkWidth(void *d, unsigned *n)
		{ *n = (long)d == 1 ? 8 : 16; return 0; }
		int nvmlDeviceGetMaxPcieLinkWidth(void *d, unsigned *n)
		{ *n = 16; return 0; }
		int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *c)
		{ *c = (long)d == 3 ? 97 : 40; return 0; }
	END
	mkdir driver
	${CC:-gcc} -shared -fPIC -o driver/libnvidia-ml.so.1 nvml.c
	expect 1 env LD_LIBRARY_PATH="$T/driver" ddprun check --standalone
	has "$out" '^  GPU driver +550\.54\.15$'
	has "$out" '^  CUDA of the driver +12\.4$'
	has "$out" '^! GPU 0 +H100, PCIe x8, 0 NVLinks$'
	has "$out" ': GPU 0: PCIe runs with 8 of 16 lanes'
	has "$out" '^X     .*: GPU 1: 3 uncorrected memory errors \(ECC\)'
	has "$out" '^!     .*: GPU 2: 97 degrees Celsius'
	has "$out" '^X     .*: GPU 3 does not answer'
}

@test "bad usage of ddprun check is refused" {
	expect 2 ddprun check --standalone ./program
	has "$err" "takes no program, but './program' is one"
	expect 2 ddprun check --no-such-option
	has "$err" 'unknown option --no-such-option'
	expect 2 ddprun-check
	has "$err" 'write ddprun check'
	expect 0 ddprun check --help
	has "$out" '^usage: ddprun check \[quick\|full\]'
}

@test "several workers on a node check it once" {
	expect 0 ddprun --standalone --nproc-per-node 3 ddprun-check
	[ "$(grep -c 'quick check of 1 node' <<<"$out")" = 1 ]
	nothing_left
}
