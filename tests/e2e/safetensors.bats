# The trainers' weights as safetensors: --export, and --init-from.
# covers: trainers/models/safetensors.c trainers/train
bats_require_minimum_version 1.5.0
load ../lib

setup() {
	lib_setup
	mkdir data
	t_idx data 600 30
	cat >file.py <<-'END'
		# file.py COMMAND ...: makes files of the format without its library
		import json, struct, sys

		def read(path):
		    data = open(path, "rb").read()
		    n, = struct.unpack("<Q", data[:8])
		    return json.loads(data[8:8 + n]), data[8 + n:]

		def write(path, header, data):
		    text = json.dumps(header).encode()
		    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)

		command, *args = sys.argv[1:]
		if command == "raw":  # IN OUT: all tensors, one after the other
		    header, data = read(args[0])
		    open(args[1], "wb").write(data)
		elif command == "check":  # IN: names and shapes, each byte of one tensor
		    header, data = read(args[0])
		    header.pop("__metadata__")
		    at = 0
		    for name, t in header.items():
		        n = 1
		        for x in t["shape"]:
		            n *= x
		        size = n * (8 if t["dtype"] == "I64" else 4)
		        assert t["data_offsets"] == [at, at + size], (name, t, at)
		        at += size
		        print(name, t["dtype"], t["shape"])
		    assert at == len(data)
		elif command == "edit":  # IN OUT CODE: runs CODE on header h and data d
		    h, d = read(args[0])
		    space = {"h": h, "d": d, "struct": struct}
		    exec(args[2], space)
		    write(args[1], space["h"], space["d"])
	END
}

@test "exported weights have PyTorch's names, shapes and order" {
	expect 0 mnist_mlp --data data --epochs 1 --export w.safetensors
	expect 0 python3 file.py check w.safetensors
	[ "$out" = "0.weight F32 [50, 784]
0.bias F32 [50]
2.weight F32 [10, 50]
2.bias F32 [10]" ]
	expect 0 resnet --arch resnet18 --stem cifar --synthetic --image-size 32 \
		--batch-size 4 --steps 2 --export r.safetensors
	expect 0 python3 file.py check r.safetensors
	has "$out" '^layer2\.0\.downsample\.0\.weight F32 \[128, 64, 1, 1\]$'
	has "$out" '^bn1\.running_var F32 \[64\]$'
	has "$out" '^bn1\.num_batches_tracked I64 \[\]$'
	[ "$(wc -l <<<"$out")" = 122 ]
}

@test "a finished run's checkpoint is exported by resuming it" {
	expect 0 mnist_mlp --data data --epochs 1 --checkpoint c --export a.safetensors
	expect 0 mnist_mlp --data data --epochs 1 --checkpoint c --resume \
		--export b.safetensors
	cmp a.safetensors b.safetensors
}

@test "a run from exported weights equals one from the same raw weights" {
	expect 0 mnist_mlp --data data --epochs 1 --export w.safetensors
	python3 file.py raw w.safetensors w.raw
	expect 0 mnist_mlp --data data --epochs 1 --init-from w.raw --log-dir one
	expect 0 ddprun --standalone --nproc-per-node 2 mnist_mlp --data data --epochs 1 \
		--init-from w.safetensors --log-dir two --export x.safetensors
	[ -s x.safetensors ]
	expect 0 mnist_mlp --data data --epochs 1 --init-from w.safetensors --log-dir three
	losses() {
		grep -o '"loss":[^,}]*' "$1/metrics.jsonl"
	}
	[ -n "$(losses one)" ]
	diff <(losses one) <(losses three)
}

@test "running statistics and 16-bit weights are read" {
	local run="resnet --arch resnet18 --stem cifar --synthetic --image-size 32
		--batch-size 4 --steps 1 --lr 1e-30"
	expect 0 $run --export w.safetensors
	python3 file.py edit w.safetensors h.safetensors '
at, out = 0, b""
for t in [t for n, t in h.items() if n != "__metadata__"]:
    a, b = t["data_offsets"]
    x = d[a:b]
    if t["dtype"] == "F32":
        v = struct.unpack("<%df" % (len(x) // 4), x)
        x = struct.pack("<%de" % len(v), *v)
        t["dtype"] = "F16"
    t["data_offsets"] = [at, at + len(x)]
    at += len(x)
    out += x
d = out'
	expect 0 $run --init-from h.safetensors --export again.safetensors
	expect 0 python3 -c '
import json, struct, sys
def read(p):
    d = open(p, "rb").read()
    n, = struct.unpack("<Q", d[:8])
    return json.loads(d[8:8 + n]), d[8 + n:]
(h, a), (_, b) = read("w.safetensors"), read("again.safetensors")
for name, t in h.items():
    if name == "__metadata__" or "running" in name or t["dtype"] != "F32":
        continue
    i, j = t["data_offsets"]
    n = (j - i) // 4
    for x, y in zip(struct.unpack("<%df" % n, a[i:j]), struct.unpack("<%df" % n, b[i:j])):
        assert abs(x - y) <= 5e-4 * abs(x) + 6e-8, (name, x, y)'
}

@test "damaged files and those of other models are named" {
	expect 0 mnist_mlp --data data --epochs 1 --export w.safetensors
	refused() { # PATTERN: x.safetensors is refused
		expect 1 mnist_mlp --data data --epochs 1 --init-from x.safetensors
		has "$err" "x\\.safetensors$1"
	}
	edited() { # CODE PATTERN
		python3 file.py edit w.safetensors x.safetensors "$1"
		refused "$2"
	}
	damaged=' is damaged, or no safetensors file: '
	head -c 5 w.safetensors >x.safetensors
	refused "${damaged}it has no header"
	head -c 50 w.safetensors >x.safetensors
	refused "${damaged}it ends within its header"
	printf '\377\377\377\377\377\377\377\377{}' >x.safetensors
	refused "${damaged}it ends within its header"
	printf '\2\0\0\0\0\0\0\0[}' >x.safetensors
	refused "${damaged}its header is not JSON"
	printf '\2\0\0\0\0\0\0\0[]' >x.safetensors
	refused "${damaged}its header is not JSON"
	head -c 20000 w.safetensors >x.safetensors
	refused "${damaged}0\\.weight"
	edited 'h["2.bias"]["data_offsets"][1] += 4' "${damaged}2\\.bias"
	edited 'h["2.bias"]["data_offsets"] = [-4, 36]' "${damaged}2\\.bias"
	edited 'h["2.bias"]["data_offsets"] = [0.5, 40.5]' "${damaged}2\\.bias"
	edited 'h["2.bias"]["data_offsets"] = "all"' "${damaged}2\\.bias"
	edited 'h["2.bias"]["dtype"] = "F64"' ': 2\.bias is of type F64'
	edited 'h["2.bias"] = 7' ': 2\.bias is of type unknown'
	edited 'h["2.bias"]["shape"] = [10, 1]' ': 2\.bias has shape \[10,1\], but that of mnist_mlp 784-50-10 is \[10\]'
	edited 'h["2.bias"].pop("shape")' ': 2\.bias has shape unknown'
	edited 'h.pop("2.bias")' ' lacks 2\.bias of mnist_mlp 784-50-10'
	edited 'h["4.bias"] = h["2.bias"]' ' has a tensor 4\.bias, which mnist_mlp 784-50-10 lacks'
}

@test "a file that cannot be read or written is an error before training" {
	expect 1 mnist_mlp --data data --init-from none.safetensors
	has "$err" 'cannot read the initial weights none\.safetensors: No such file'
	expect 1 mnist_mlp --data data --export no/w.safetensors
	has "$err" '--export: cannot write no/w\.safetensors: No such file or directory'
	lacks "$out" 'epoch 1'
	expect 2 mnist_mlp --data data --export ''
	has "$err" '--export: the name is empty'
}
