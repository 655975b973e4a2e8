# covers: trainers/pack trainers/data
bats_require_minimum_version 1.5.0
load ../lib

# pack_data: folders of JPEG and PNG files become a data set on which resnet trains.

setup() {
	lib_setup
	[ -x "$O/pack_data" ] && [ -x "$O/tests/draw_image" ] || skip "built without libjpeg"
}

# folder CLASSES TRAIN VAL: ./images with TRAIN and VAL of each class, PNG and JPEG by turns,
# each class with a colour of its own
folder() {
	local c i part kind
	for ((c = 0; c < $1; c++)); do
		for part in train val; do
			local n=$2
			[ $part = train ] || n=$3
			mkdir -p images/$part/class$c
			for ((i = 0; i < n; i++)); do
				kind=$([ $((i % 2)) = 0 ] && echo png || echo JPG)
				draw_image images/$part/class$c/$i.$kind $((20 + i)) 24 \
					$((c * 37 % 256)) $((c * 91 % 256)) $((i * 5))
			done
		done
	done
}

# refused FILE TEXT: packing ends with an error about the file, and leaves nothing
refused() {
	expect 1 pack_data --size 16 images packed
	has "$err" "^pack_data: error: images/train/class1/$1: $2.* \(--skip-bad skips such files\)$"
	[ "$(wc -l <<<"$err")" = 1 ]
	[ ! -e packed ]
	! compgen -G 'packed.partial-*'
}

@test "packed images are a data set, whatever the number of threads" {
	folder 2 9 2
	touch images/train/class0/notes.txt
	expect 0 pack_data --size 16 --threads 1 images packed
	has "$out" '^packed: 18 \+ 4 images of 3 x 16 x 16 in 2 classes, 2 files, 0 MiB; .* on 1 thread$'
	has "$err" '^pack_data: warning: 1 files are not \.jpg, \.jpeg or \.png: skipped$'
	[ "$(cat packed/classes.txt)" = $'class0\nclass1' ]
	expect 0 pack_data --size 16 --threads 3 images again
	local f
	for f in train test; do # all but the set's number
		cmp <(tail -c +4097 packed/$f-00000.records) <(tail -c +4097 again/$f-00000.records)
		# a file's first bytes, its first image's, and its labels
		[ "$(head -c 6 packed/$f-00000.records)" = ddpack ]
	done
	[ "$(tail -c +65537 packed/train-00000.records | head -c 3 | od -An -tu1 | tr -s ' ')" = ' 0 0 0' ]
	[ "$(tail -c 36 packed/train-00000.records | od -An -v -w36 -tu2 | tr -s ' ')" = \
		' 0 0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1 1' ]
	expect 0 pack_data --verify packed
	has "$out" '^packed: 2 files, all intact$'
}

@test "a ResNet trains on packed images of more classes than a byte counts" {
	# all images are of the last classes
	folder 1 8 2
	mkdir -p images/{train,val}/c{000..299}
	local i
	for i in {0..7}; do
		mv images/train/class0/$i.* images/train/c29$((9 - i))
	done
	mv images/val/class0/* images/val/c299
	rmdir images/{train,val}/class0
	expect 0 pack_data --size 16 images packed
	has "$out" '8 \+ 2 images .* in 300 classes, 2 files'
	[ "$(tail -c 16 packed/train-00000.records | od -An -v -w16 -tu2)" = \
		'   292   293   294   295   296   297   298   299' ]
	local options='--data packed --stem cifar --batch-size 4 --steps 3 --lr 0.01 --no-augment'
	expect 0 resnet $options --log-dir one
	has "$out" '^resnet18 cifar stem, 300 classes: .* 8 \+ 2 images'
	has "$out" '^test accuracy '
	expect 0 "$DDPRUN" --standalone --nproc-per-node 2 resnet $options --sync-bn --log-dir two
	# the ranks together see the images of the one
	paste -d ' ' <(sed -n 's/.*"step".*"loss":\([0-9.]*\).*/\1/p' one/metrics.jsonl) \
		<(sed -n 's/.*"step".*"loss":\([0-9.]*\).*/\1/p' two/metrics.jsonl) |
		awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (!(d < 0.001)) bad = 1 }
			END { exit NR != 3 || bad }'
}

@test "a ResNet trains on random parts of packed images, in another size" {
	folder 2 4 2
	expect 0 pack_data --size 20 images packed
	local options='--data packed --stem cifar --batch-size 4 --steps 3 --lr 1e-6 --sync-bn'
	expect 0 resnet $options --crop random-resized --crop-size 16 --log-dir one
	has "$out" '^test accuracy '
	expect 0 "$DDPRUN" --standalone --nproc-per-node 2 resnet $options \
		--crop random-resized --crop-size 16 --log-dir two
	expect 0 resnet $options --log-dir shifted
	local run
	for run in one two shifted; do
		sed -n 's/.*"step".*"loss":\([0-9.]*\).*/\1/p' $run/metrics.jsonl >$run.losses
	done
	# the ranks together see the parts that the one sees; a shift gives others
	paste -d ' ' one.losses two.losses | awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d
		if (!(d < 1e-5)) bad = 1 } END { exit NR != 3 || bad }'
	run ! cmp -s one.losses shifted.losses
	# a part of another size than the images, from synthetic ones
	expect 0 resnet --synthetic --image-size 20 --crop random-resized --crop-size 8 \
		--stem cifar --batch-size 4 --steps 2
	has "$out" 'images/s'
	# the size may change when a run is resumed, and is reported
	options+=' --checkpoint size.ckpt --crop random-resized'
	expect 0 resnet $options --crop-size 16
	expect 0 resnet $options --crop-size 12 --steps 4 --resume
	has "$out" 'what changes: --crop-size 12 instead of --crop-size 16$'
	expect 0 resnet $options --steps 5 --resume
	has "$out" "what changes: the images' size instead of --crop-size 12$"
	expect 2 resnet --data packed --crop-size 16
	has "$err" '--crop-size needs --crop random-resized'
}

@test "a file that cannot be decoded ends the packing, unless --skip-bad is given" {
	folder 2 2 1
	local bad=images/train/class1/bad
	draw_image $bad.jpg 20 20 1 2 3 cmyk
	refused bad.jpg 'it is a CMYK JPEG, .*: convert it to RGB'
	head -c 200 images/train/class0/1.JPG >$bad.jpg
	refused bad.jpg 'it is a broken JPEG: '
	echo 'not an image' >$bad.jpg
	refused bad.jpg 'it is neither JPEG nor PNG'
	: >$bad.jpg
	refused bad.jpg 'the file is empty'
	truncate -s 257M $bad.jpg
	refused bad.jpg 'it has 269484032 bytes, and files have at most 268435456'
	head -c 60 images/train/class0/0.png >$bad.jpg
	refused bad.jpg 'it is a broken PNG: '
	# a JPEG under the name of a PNG is what it is
	draw_image good.jpg 20 20 1 2 3
	mv good.jpg images/train/class1/good.png
	expect 0 pack_data --size 16 --skip-bad images packed
	has "$out" '^packed: 5 \+ 2 images '
	has "$err" '^pack_data: warning: images/train/class1/bad.jpg: it is a broken PNG: .*; skipped$'
	has "$err" '^pack_data: warning: 1 files could not be decoded: skipped$'
}

@test "folders that are no data set are errors, and an existing one is not overwritten" {
	expect 1 pack_data images packed
	has "$err" 'images has no folder train with a folder of images for each class'
	mkdir -p images/train
	expect 1 pack_data images packed
	has "$err" 'images/train has no images: they are expected in CLASS/FILE'
	folder 2 1 1
	mkdir images/val/other
	expect 1 pack_data images packed
	has "$err" 'images/val/other is a class that the training images do not have'
	rmdir images/val/other
	rm images/val/class*/*
	expect 1 pack_data images packed
	has "$err" 'images/val has no images'
	mv images/val images/test
	folder 1 1 1
	mkdir packed
	expect 2 pack_data images packed
	has "$err" 'packed exists; name another folder, or remove it'
	rmdir packed
	expect 2 pack_data images
	has "$err" 'give two folders, FROM and TO, see --help'
	! compgen -G '*.partial-*'
}

@test "a full disk ends the packing with an error, and leaves nothing" {
	folder 1 4 1
	# 64 KiB before the images, and files up to that size
	expect 1 bash -c 'ulimit -f 64; exec pack_data --size 64 images packed'
	has "$err" 'error: packed\.partial-.*/train-00000\.records: File too large$'
	[ ! -e packed ]
	! compgen -G 'packed.partial-*'
}

@test "packing with too little memory fails, and omits no image" {
	[ -z "${SAN:-}" ] || skip "a sanitizer does not like to be preloaded over"
	local n
	folder 1 2 1
	for ((n = 1; n <= 60; n++)); do
		rm -rf state packed
		truncate -s 100k state
		run env LD_PRELOAD="$O/tests/faults.so" FAULT_PROGRAM=pack_data \
			FAULT_CALL=malloc FAULT_ERROR=12 FAULT_AT=$n FAULT_STATE="$T/state" \
			pack_data --size 16 images packed
		echo "allocation $n: $status $output"
		[ "$status" = 1 ] || [[ $output == *"packed: 2 + 1 images "* ]]
	done
}

@test "damaged packed files are errors that name the file" {
	folder 1 4 1
	expect 0 pack_data --size 16 images packed
	local run='resnet --data packed --stem cifar --steps 1 --batch-size 2'
	local f=packed/test-00000.records
	cp $f whole
	printf '\377' | dd of=$f bs=1 seek=65540 conv=notrunc status=none
	expect 1 pack_data --verify packed
	has "$err" "^pack_data: error: $f is damaged: the checksum of its images does not match; copy or pack it again$"
	head -c 66000 whole >$f
	expect 1 $run
	has "$err" "^resnet: .*$f is truncated: it has 66000 bytes, and its header says 66306; copy or pack it again$"
	head -c 70000 /dev/zero >$f
	expect 1 $run
	has "$err" "$f is not part of a packed data set"
	rm $f
	expect 1 $run
	has "$err" "$f is missing: the packed data set is incomplete"
	expect 1 "$DDPRUN" --standalone --nproc-per-node 2 $run
	[ "$(grep -c "$f is missing" <<<"$err")" -ge 1 ]
	cp whole $f
	expect 0 $run
}
