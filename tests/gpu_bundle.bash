# gpu_bundle.bash: the bundle for machines with GPUs, on the stand-ins for CUDA and NCCL.
# Load it after lib.
#
#   pack STATUS FOLDER [PROGRAMS [OPS]]   makes a bundle, which must end with that status
#   bundle                                one for all tests of a file, in ./bundle
#   part N                                all checks of that part pass; prints into $out
#   with_trainers                         skips the test without CUDA and cuDNN

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

setup() {
	lib_setup
	[ -z "${SAN:-}" ] || skip "programs with sanitizers are too large for the bundle"
	ops=$O/tests/libddp_cuda_ops.so
	[ -f "$ops" ] || ops=$O/standin/libcudart.so.13 # no part 1 and 2 then
	export LIBRARIES=$O/standin STANDIN_GPUS=1 SMALL=1 DEADLINE=300
}

pack() {
	local status=$1
	shift
	expect "$status" sh "$root/tests/gpu/pack" "$@"
}

bundle() {
	local all=$BATS_FILE_TMPDIR/bundle
	[ -e "$all" ] || pack 0 "$all" "$O/standin" "$ops"
	ln -s "$all" bundle
}

part() {
	bundle
	expect 0 bundle/gpu/part "$1" results
	has "$out" "^part $1: 1 GPUs, NCCL 22809, libraries: $O/standin\$"
	lacks "$out" '^FAILED'
	has "$out" "^part $1: [1-9][0-9]* ok, 0 failed, 0 left out\$"
	tar -tzf "results/part-$1.tar.gz" >names
	[ "$(grep -c "\.log$" names)" -gt 1 ]
}

with_trainers() {
	[ -f "$O/tests/libddp_cuda_ops.so" ] || skip "no CUDA and cuDNN here"
	export DDP_CUDNN_SEARCH=0
}
