# data.bats: the trainers' input: CIFAR-10 in every packing, small data sets, and
# clear errors for invalid files. The cache is in trainers.bats.
# covers: trainers/data

bats_require_minimum_version 1.5.0
load ../lib

setup() {
	lib_setup
	mkdir data
	t_cifar data 4 6
}

# a ResNet that only tests: the smallest, on six images
tested() {
	resnet --arch resnet18 --stem torchvision --epochs 0 --batch-size 1 \
		--data "$@"
}

# says STATUS ERE COMMAND...: one line on stderr, like ERE
says() {
	local want=$1 pattern=$2
	shift 2
	expect "$want" "$@"
	has "$err" "$pattern"
	[ "$(wc -l <<<"$err")" = 1 ]
}

put() { # BYTES FILE OFFSET: overwrites
	printf "$1" | dd of="$2" bs=1 seek="$3" conv=notrunc status=none
}

@test "CIFAR-10 reads the same whether plain, gzipped, in xz or in its usual folders" {
	local first d
	command -v xz >/dev/null || skip "no xz here"
	expect 0 tested data
	has "$out" '20 \+ 6 images'
	has "$out" '^reading CIFAR-10: takes a few seconds, once per host$'
	first=$(tail -n 1 <<<"$out")
	has "$first" '^test accuracy [0-9.]+ %$'
	mkdir -p packed/cifar10 other
	cp data/* packed/cifar10
	gzip packed/cifar10/data_batch_[135].bin
	xz packed/cifar10/data_batch_2.bin packed/cifar10/test_batch.bin
	cp -r data other/cifar-10-batches-bin
	expect 0 tested data
	run ! grep 'reading CIFAR-10' <<<"$out"
	for d in packed other; do
		expect 0 tested $d
		has "$out" '20 \+ 6 images'
		[ "$(tail -n 1 <<<"$out")" = "$first" ]
	done
	[ "$(ls "$DDP_CACHE" | grep -c 'cifar10-.*ddpcache$')" = 3 ]
}

@test "a ResNet learns from CIFAR-10, on one rank and on two" {
	local n
	for n in 1 2; do
		expect 0 "$DDPRUN" --standalone --nproc-per-node $n \
			resnet --arch resnet18 --stem torchvision --data data \
			--epochs 1 --batch-size 8 --seed 3
		has "$out" "$n ranks? x batch $((8 / n))"
		has "$out" '^(\[[^]]*\] *)?epoch 1/1: loss [0-9.]+,'
	done
}

@test "a folder without the files is an error that says how to get them" {
	says 1 'no data folder nowhere: No such file.*get-data cifar10 DIR' \
		tested nowhere
	mkdir empty
	says 1 'empty has no data_batch_1.bin, plain, .gz or .xz; .*CIFAR-10.s 6 files.*a subfolder cifar10 or cifar-10-batches-bin' \
		tested empty
	rm data/data_batch_4.bin
	says 1 'data has no data_batch_4.bin' tested data
	says 2 'no data: set --data .*--synthetic' resnet --arch resnet18 --epochs 0
	DDP_DATA=empty says 1 'empty has no' resnet --arch resnet18 --epochs 0
	says 2 'resnet20.*resnet152' resnet --arch resnet20 --synthetic
}

@test "labels out of range are an error with their position" {
	put '\012' data/data_batch_2.bin 6146
	says 1 'data/data_batch_2.bin: label 2 is 10, but CIFAR-10.s labels go up to 9' \
		tested data
	mkdir digits
	t_idx digits 20 10
	put '\013' digits/train-labels-idx1-ubyte 11
	says 1 'digits/train-labels-idx1-ubyte: label 3 is 11, but digits go up to 9' \
		mnist_mlp --data digits
}

@test "truncated files are an error in each format" {
	local whole
	command -v xz >/dev/null || skip "no xz here"
	whole=$(wc -c <data/data_batch_5.bin)
	truncate -s -100 data/data_batch_5.bin
	says 1 "data/data_batch_5.bin is truncated: it ends after $((whole - 100)) bytes, inside image 3" \
		tested data
	t_cifar data 4 6
	truncate -s $((whole - 3073)) data/data_batch_5.bin
	says 1 'data_batch_5.bin has 3 images, but .*data_batch_1.bin has 4' tested data
	t_cifar data 4 6
	gzip data/data_batch_1.bin
	truncate -s -5 data/data_batch_1.bin.gz
	says 1 'data/data_batch_1.bin.gz is truncated' tested data
	rm data/data_batch_1.bin.gz
	t_cifar data 4 6
	xz data/test_batch.bin
	truncate -s 8000 data/test_batch.bin.xz
	says 1 'data/test_batch.bin.xz is truncated' tested data
}

@test "a damaged archive is an error" {
	command -v xz >/dev/null || skip "no xz here"
	xz data/data_batch_3.bin
	put '\377\0\377\0' data/data_batch_3.bin.xz 5000
	expect 1 tested data
	has "$err" 'data/data_batch_3.bin.xz'
}

@test "a data set smaller than a batch is used as one batch" {
	mkdir digits
	t_idx digits 10 4
	expect 0 mnist_mlp --data digits --epochs 2 --batch-size 64 --log-dir one
	has "$out" '10 \+ 4 images, 1 rank x batch 10'
	[ "$(grep -c '"step":[0-9]*,.*"loss"' one/metrics.jsonl)" -ge 2 ]
	expect 0 "$DDPRUN" --standalone --nproc-per-node 2 \
		mnist_mlp --data digits --epochs 2 --batch-size 64
	has "$out" '2 ranks x batch 5'
	# and than a world: some rank sees an image again, and all continue
	t_idx digits 3 2
	expect 0 "$DDPRUN" --standalone --nproc-per-node 4 \
		mnist_mlp --data digits --epochs 2 --batch-size 64
	has "$out" '4 ranks x batch 1'
	has "$out" 'test accuracy [0-9.]+ %$'
}
