"""plants_endings.py: what programs print at their end, with all that is around the sentence
that counts. Endings of 300 programs (compilers' runtimes, MPI libraries, training
frameworks, codes of physics and chemistry, containers, shells) were written down with what
the line should have, then measured, then looked at:

    endings  right at first  after mends  written by
         67       42 (63 %)           63  one hand: half of 135, at random
         68       57 (84 %)           65  the same hand; 50 (74 %) before the first row's mends
         65       54 (83 %)           62  a reader of part of the code
         50       41 (82 %)           46  somebody who had not seen the code: unusual ones
         50       46 (92 %)           48  the same: in proportion to what occurs

Each set was measured with the mends for the rows above it. Each ending had some line. The
plants below are a few of them, with other words."""

from program import plant

plant("tell-prefix", "sh", r"OSError: bad token file", """\
cat >&2 <<END
12:01:07 Traceback (most recent call last):
12:01:07   File "/w/train.py", line 9, in <module>
12:01:07     load()
12:01:08 OSError: bad token file
12:01:09 removing 3 files
END
exit 1
""")
plant("tell-box", "sh", r"bad key in line 4", """\
cat <<END
 ***************************
 *  [ABORT]                *
 *   \\___/ bad key in line 4 *
 ***************************
END
cat >&2 <<END
-----------------------------
MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD
with errorcode 1.
-----------------------------
END
exit 1
""")
plant("tell-usage", "sh", r"bad option: --x", """\
cat >&2 <<END
bad option: --x
usage: train [-n N]
  -n N  steps
END
exit 2
""")
plant("tell-first-of-many", "sh", r"cannot open shard 7", """\
cat >&2 <<END
reader: cannot open shard 7
loader: no batch: reader failed
train: loader failed
exiting, see the log
END
exit 1
""")
plant("tell-colours", "sh", r"no option --batch", r"""
printf '\033[31m\342\225\255\342\224\200 Error \342\224\200\342\225\256\033[0m\n' >&2
printf '\033[31m\342\224\202\033[0m no option --batch \033[31m\342\224\202\033[0m\n' >&2
exit 2
""")
plant("tell-raised-from", "py", r"OSError: bad shard 7", """\
      try:
          raise OSError("bad shard 7")
      except OSError as e:
          raise RuntimeError("an error occurred while loading") from e
      """)
plant("tell-name-of-error", "sh", r"the grid of 5 is too small", """\
cat >&2 <<END
 WAVE input error
| ERROR:   the grid of 5 is too small
 Input errors occurred. Terminating.
END
exit 1
""")
