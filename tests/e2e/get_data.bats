# get_data.bats: trainers/get-data with a local web server gets complete files or
# none, whatever the mirrors do.
# covers: trainers/get-data

bats_require_minimum_version 1.5.0
load ../lib

get_data=${BATS_TEST_DIRNAME%/*/*}/trainers/get-data

setup() {
	lib_setup
	command -v curl >/dev/null || skip "no curl here"
	mkdir www
	# no proxy for this host, and no outside host
	export no_proxy='*' NO_PROXY='*'
}

# serve NAME [BYTES]: a server of the folder NAME; its address is in $url, what
# it was asked for in NAME.out
serve() {
	start "$1" t_httpd "$@"
	await "$T/$1.out" '^port [0-9]'
	url=http://127.0.0.1:${line#port }
}

# A get-data in ./get whose checksums are those of small files in www/, and
# whose mirrors are $@.
small_mnist() {
	local f sum
	t_idx www 300 50
	cp "$get_data" get
	for f in www/*-ubyte; do
		sum=$(sha256sum <"$f")
		gzip -n "$f"
		sed -i "s/^[0-9a-f]\{64\} ${f#www/}.gz/${sum%% *} ${f#www/}.gz/" get
	done
	mirrors mnist "$@"
}

small_cifar() {
	local i f sum
	mkdir cifar-10-batches-bin
	for i in 1 2 3 4 5; do
		{ printf '\1'; head -c 3072 /dev/urandom; } \
			>cifar-10-batches-bin/data_batch_$i.bin
	done
	cp cifar-10-batches-bin/data_batch_1.bin cifar-10-batches-bin/test_batch.bin
	echo text >cifar-10-batches-bin/readme.html
	tar -czf www/cifar-10-binary.tar.gz cifar-10-batches-bin
	cp "$get_data" get
	for f in cifar-10-batches-bin/*.bin www/*.gz; do
		sum=$(sha256sum <"$f")
		sed -i "s/[0-9a-f]\{64\} ${f##*/}/${sum%% *} ${f##*/}/" get
	done
	mirrors cifar10 "$@"
}

# mirrors SET URL...: those are all that ./get knows
mirrors() {
	sed -i "/^$1_mirrors=/,/'\$/c $1_mirrors='${*:2}'" get
}

@test "get-data fetches MNIST's files, and the trainers read them" {
	serve www
	small_mnist "$url"
	expect 0 ./get mnist there
	has "$out" '^mnist is in there/mnist: --data there$'
	[ "$(cd there/mnist && echo *)" = "$(cd www && echo *)" ]
	expect 0 mnist_mlp --data there --epochs 0
	has "$out" '300 \+ 50 images'
}

@test "existing files are not fetched again, damaged ones are" {
	serve www
	small_mnist "$url"
	expect 0 ./get mnist
	[ -d data/mnist ]
	: >"$T/www.out"
	expect 0 ./get mnist
	[ -z "$err" ]
	printf X | dd of=data/mnist/t10k-images-idx3-ubyte.gz bs=1 seek=90 \
		conv=notrunc status=none
	expect 0 ./get mnist
	[ "$(<"$T/www.out")" = "GET t10k-images-idx3-ubyte.gz from 0" ]
}

@test "the checksums are those of the real MNIST" {
	[ -d "${DDP_TEST_DATA:-}/mnist" ] || skip "DDP_TEST_DATA is not set"
	mkdir real
	cp -r "$DDP_TEST_DATA/mnist" real
	chmod -R u+w real
	https_proxy=http://127.0.0.1:1 expect 0 "$get_data" mnist real
	[ -z "$err" ]
}

@test "a lost connection is continued where it broke" {
	local size from
	serve www 5000
	small_mnist "$url"
	size=$(wc -c <www/train-images-idx3-ubyte.gz)
	[ "$size" -gt 12000 ]
	expect 0 ./get mnist
	has "$err" 'the transfer ended early: resuming it'
	for ((from = 0; from < size; from += 5000)); do
		[ "$(grep -c "GET train-images-idx3-ubyte.gz from $from\$" \
			"$T/www.out")" = 1 ]
	done
}

@test "a killed get-data is continued" {
	serve www
	small_mnist "$url"
	mkdir -p data/mnist
	head -c 5000 www/train-images-idx3-ubyte.gz \
		>data/mnist/train-images-idx3-ubyte.gz.part
	expect 0 ./get mnist
	grep -q 'train-images-idx3-ubyte.gz from 5000$' "$T/www.out"
	[ ! -e data/mnist/train-images-idx3-ubyte.gz.part ]
}

@test "a mirror that lacks the file, or has another one, is skipped" {
	local good
	mkdir wrong
	serve www
	good=$url
	serve wrong
	small_mnist http://127.0.0.1:1 "$url/none" "$url" "$good"
	cp www/* wrong
	head -c 9999 /dev/zero | gzip -n >wrong/train-images-idx3-ubyte.gz
	expect 0 ./get mnist
	has "$err" "$url/train-images-idx3-ubyte.gz: the checksum is wrong"
	has "$err" "train-images-idx3-ubyte.gz from $good"
	expect 0 mnist_mlp --data data --epochs 0
}

@test "a partial file of another mirror that does not fit is fetched again" {
	serve www
	small_mnist "$url"
	mkdir -p data/mnist
	head -c 5000 /dev/zero >data/mnist/t10k-images-idx3-ubyte.gz.part
	head -c 5000000 /dev/zero >data/mnist/train-images-idx3-ubyte.gz.part
	expect 0 ./get mnist
	grep -q 't10k-images-idx3-ubyte.gz from 0$' "$T/www.out"
}

@test "without a good mirror no file is left under its final name" {
	serve www
	small_mnist "$url"
	head -c 9999 /dev/zero | gzip -n >www/train-images-idx3-ubyte.gz
	expect 1 ./get mnist
	has "$err" 'no mirror provides train-images-idx3-ubyte.gz; if you have the file'
	[ -z "$(ls data/mnist)" ]
}

@test "get-data tries DDP_MIRROR first" {
	serve www
	small_mnist http://127.0.0.1:1
	DDP_MIRROR=$url expect 0 ./get mnist
	[ "$(grep -c ' from http://127.0.0.1:1$' <<<"$err")" = 0 ]
}

@test "of several simultaneous get-data only one fetches, also in a job" {
	serve www
	small_mnist "$url"
	expect 0 "$DDPRUN" --standalone --nproc-per-node 4 ./get mnist
	[ "$(grep -c GET "$T/www.out")" = 4 ]
	[ "$(grep -c 'mnist is in data/mnist' <<<"$out")" = 1 ]
}

@test "CIFAR-10's archive is unpacked, and only its files stay" {
	serve www 10000
	small_cifar "$url"
	expect 0 ./get cifar10 there
	[ "$(cd there/cifar10 && echo *)" = \
		"data_batch_1.bin data_batch_2.bin data_batch_3.bin data_batch_4.bin data_batch_5.bin test_batch.bin" ]
	cmp there/cifar10/data_batch_3.bin cifar-10-batches-bin/data_batch_3.bin
	rm there/cifar10/data_batch_2.bin
	mkdir there/cifar10/unpack.1
	expect 0 ./get cifar10 there
	[ "$(ls there/cifar10 | wc -l)" = 6 ]
}

@test "bad usage is an error" {
	expect 2 "$get_data"
	has "$err" '^usage: trainers/get-data mnist.cifar10 \[DIR\]$'
	expect 2 "$get_data" imagenet
	has "$err" "unknown data set 'imagenet'"
	expect 2 "$get_data" mnist a b
	expect 0 "$get_data" --help
	has "$out" 'DDP_MIRROR=URL'
	expect 1 "$get_data" mnist /dev/null/x
	has "$err" '/dev/null'
}
