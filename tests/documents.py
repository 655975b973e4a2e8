"""documents.py: every literal block of README, HACKING, docs/*.md and the man
pages is tried: command lines are run, C programs are built and run, pieces of C
are compiled. A block that no rule knows is an error, so that a new one gets its
rule. It knows no behaviour of the programs beyond what the documents show.

  documents.py TREE BUILD PREFIX SCRATCH   (make install has filled PREFIX)

Each block is a line of TAP. A command line of ddprun runs as it stands with
PET_DRY_RUN=1, in a folder that has the files which the documents name; the lines
of a block that prints its output run for real, and must print that.
"""
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

tree, build, prefix, scratch = map(os.path.abspath, sys.argv[1:5])

# What a host without GPUs, and outside of Slurm, may answer to a right line.
REFUSALS = re.compile(
    r"this host has no GPU to use|this is not a Slurm job"
    r"|none of your ddpruns runs workers|cannot be read: .*node\.xml"
    r"|no ddprdzv at|does not resolve|cannot connect"
    r"|gnuplot is not installed"
)

# Blocks that are not typed: (document, the first line), both regular expressions.
SHOWN = [
    ("README.md", r"launcher/  |ddprun: job .* failed:"),
    ("check.md", r"quick check of 3 nodes"),
    ("clouds.md|kubernetes.md", r"ddprun: (started by|host '.*' does not)"),
    ("crashes.md", r"ddprun: job .* failed:"),
    ("hangs.md", r"ddprun: no progress for"),
    ("staging.md", r"ddprun: staging "),
    ("stragglers.md", r"ddprun: rank 3 on h2"),
    ("restarts.md", r"ddprun: (job .* failed:|node 1 )"),
    ("HACKING.md", r"trainers -> worker-sdk"),
    ("placement.md", r"socket    \||which ranks run there"),
    ("packaging.md", r"find_package|ln -s"),  # e2e/install.bats
    # e2e/pytorch_clients.bats
    ("pytorch.md", r"#!/bin/bash|    if step == 70|\$ (ddprun|rm state)"),
    ("service.md", r"\[Service\]"),
    ("slurm.md", r"#!/bin/bash|#SBATCH|ddprun: "),
    ("several-programs.md", r"# ranks +program"),
    ("sdk.md", r"all_reduce #(1532|23) |rank 0 on n07 waits in|"
     r"ddp_reducer_finish: the gradient|ddp_check_replicas: the data"),
    ("ssh.md", r"ddprun --hostfile hosts --host-check"),
    ("other-systems.md", r"export QEMU_LD_PREFIX"),
    ("testing.md", r"the answers about|static-2, 1 faults: violated"),
    ("when-it-fails.md", r"\$ ddprun"),  # tests/examples.py runs them
    ("trainers.md", r"epoch 2/5:|\{\"step\":1|  +samples 0, 2"),
    ("ddprun-dump.1|ddprun-status.1",
     r"\$ ddprun dump (--job run7|--merge logs)|job 'none'"),
    ("ddprun-logs.1", r"ddprun logs -f"),  # e2e/read_logs.bats
    ("ddp.3", r"int ddp_record_error"),
]

# Programs of others: their own arguments are theirs, a ddprun in them is ours.
STARTERS = (
    "mpirun mpiexec mpiexec.hydra prterun srun torchrun horovodrun apptainer "
    "podman nsenter etcdctl systemctl kubectl pbsdsh nvcc bats ssh curl"
).split()

TRAINERS = "mnist_mlp mnist_ae resnet toy_mp".split()

# What surrounds a piece of C so that it compiles.
AROUND = """
#include <ddp.h>
#include <stdlib.h>
typedef struct { char bytes[128]; } unique_id;
void die(const char *); void forward(void); void backward(int);
void update(void);
int ncclCommInitRank(void **, int, unique_id, int);
extern ddp_comm *world; extern ddp_reducer *reducer;
extern float *grad, *grads, *x, *param; extern size_t n, *counts;
extern int layers, steps; extern void *stream, *comm; extern unique_id id;
extern float *wte_grad; extern size_t V, C;
void piece(void);
void piece(void)
{
"""
PSEUDO = [("for (each step)", "for (int step = 0; step < steps; step++)"),
          (", ...};", "};")]


def man_text(line):
    """What man prints of a literal line."""
    if line.startswith(".B "):
        line = line[3:]
    return line.replace("\\e", "\\").replace("\\-", "-").replace("\\(aq", "'")


def blocks_of(path):
    """(line number, language, [lines]) of each literal block."""
    is_man = not path.endswith(".md")
    found, lines, at, lang, fenced, literal, before = [], [], 0, "", 0, 0, ""

    def end():
        nonlocal lines
        while lines and not lines[-1].strip():
            lines.pop()
        if lines:
            found.append((at, lang, lines))
        lines = []

    for number, line in enumerate(open(path), 1):
        line = line.rstrip("\n")
        if is_man:
            if re.match(r"\.(Bd -literal|nf)", line):
                at, lang, literal = number + 1, "", 1
            elif re.match(r"\.(Ed|fi)", line):
                end()
                literal = 0
            elif literal:
                lines.append(man_text(line))
        elif line.startswith("```"):
            end()
            fenced, lang, at = not fenced, line[3:], number + 1
        elif fenced:
            lines.append(line)
        elif line.startswith("    ") and (lines or not before):
            if not lines:
                at, lang = number, ""
            lines.append(line[4:])
        elif lines and not line:
            lines.append("")  # ends it, unless another indented line follows
        else:
            end()
        before = line
    end()
    return found


def logical(lines):
    """Lines with what a backslash continues, and without comments."""
    text = ""
    for line in lines:
        text += re.sub(r"\s{2,}# .*$|^\s*# .*$", "", line).strip()
        if text.endswith("\\"):
            text = text[:-1]
            continue
        if text:
            yield text
        text = ""


def environment():
    env = {k: v for k, v in os.environ.items()
           if not re.match("PET_|DDP_(?!TEST)|SLURM_|RANK$|WORLD_SIZE$", k)}
    env.update(
        PATH=f"{prefix}/bin:{prefix}/libexec/ddprun:{build}/tests:"
        + env["PATH"],
        PKG_CONFIG_PATH=f"{prefix}/lib/pkgconfig",
        LD_LIBRARY_PATH=f"{prefix}/lib",
        HOME=scratch, O=build, DEPS="0", USER="me", PBS_NODEFILE="hosts",
        PBS_JOBID="7", DDP_CACHE=f"{scratch}/cache",
    )
    return env


def run(line, **more):
    done = subprocess.run(
        ["bash", "-c", line], cwd=scratch, env={**environment(), **more},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, timeout=100, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def must(line, **more):
    code, out, err = run(line, **more)
    if code and not REFUSALS.search(err):
        raise AssertionError(f"{line}: exit status {code}: {err or out}")
    return out


# ---- what becomes of a line


def make_line(words):
    """Each target is one of the Makefile's; an install is done for real."""
    targets = [w for w in words[1:] if "=" not in w]
    text = "".join(open(f"{tree}/{name}").read()
                   for name in ("Makefile", "packaging/install.mk"))
    for t in targets:
        if not re.search(rf"^(\.PHONY:.*)?\b{re.escape(t)}:", text, re.M):
            raise AssertionError(f"make {t}: no such target")
    if "install" in targets:
        where = [w for w in words if w.startswith("PREFIX=")]
        if where and not where[0].startswith("PREFIX=$HOME/"):
            raise AssertionError(f"make install: {where[0]} is this machine's")
        must(f"make -s -C {tree} O={build} install "
             + (where[0] if where else f"PREFIX={prefix}"))


def trainer_line(line):
    """As little of it as its options allow."""
    data = "cifar" if "resnet" in line else "digits"
    line = re.sub(r"\b(DIR|TO)\b", data, line)
    if "--synthetic" in line:
        line += " --steps 1 --image-size 32 --batch-size 2"
    elif "toy_mp" not in line:
        line += " --epochs 0"
    must(line)


def plot_line(line):
    """Of runs of one step."""
    runs = line.split()[1:]
    if runs[0] == "-o":
        runs = runs[2:]
    for folder in runs:
        os.makedirs(f"{scratch}/{folder}", exist_ok=True)
        with open(f"{scratch}/{folder}/metrics.jsonl", "w") as f:
            f.write('{"step":1,"epoch":1,"lr":0.1,"loss":1.5}\n')
    must(line)


def program_of(line):
    words = line.split()
    while words and re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    return os.path.basename(words[0]) if words else ""


def command(line):
    line = re.sub(r"^(h[0-9])?\$ ", "", line)
    line = re.sub(r"\s\.\.\.$", " ./trainer", line.rstrip(" &"))
    line = re.sub(r" \[--?[a-z][^]]*\]", "", line)  # optional words
    line = line.replace("DDP_TOKEN=...", "DDP_TOKEN=0123456789abcdef")
    name = program_of(line)
    if name == "make" or name == "sh" and "deps.sh" in line:
        for part in line.split("&&"):
            words = shlex.split(part)
            if words[0] == "make":
                make_line(words)
            elif words[0] != "pip" and not os.path.exists(
                    f"{tree}/{words[1]}"):
                raise AssertionError(f"{words[1]}: no such file")
    elif name in STARTERS:
        must(f"bash -n -c {quoted(line)}")
        inner = re.search(r"[\w/.$\"-]*\bddprun (?!--?prefix).*", line)
        if inner and name not in ("bats", "etcdctl", "nvcc"):
            command("ddprun " + inner.group().split("ddprun ", 1)[1])
    elif name in TRAINERS or any(f" {t} " in line for t in TRAINERS):
        trainer_line(line)
    elif name == "ddprun":
        line = re.sub(r"\S*/ddprun\b", "ddprun", line)
        line = re.sub(r"^(\S+=)/path/to/\S+", r"\1ddprdzv", line)
        line = line.replace("build/examples/", f"{build}/examples/")
        must(line, PET_DRY_RUN="1")
        if "--log-dir" in line and not re.search(" (-H|--nnodes|--host)", line):
            keep_logs(line)
    elif name == "ddprdzv":
        # the listener's address may be another host's: the options are parsed
        must(re.sub(r"\S*/?ddprdzv", "ddprdzv", line, 1)
             .replace(" ./trainer", "") + " --help")
    elif name in ("sh", "model") or name.startswith("fuzz_"):
        path = [w for w in line.split() if "/" in w][0]
        if not os.path.exists(path.replace("build", build, 1)
                              if path.startswith("build/")
                              else f"{tree}/{path}"):
            raise AssertionError(f"{path}: no such file")
    elif name == "cc":
        source = re.search(r"(\w+)\.c", line).group(1)
        example = f"{tree}/worker-sdk/examples/{source}.c"
        line = line.replace(" build/ddp.pc", f" {build}/ddp.pc")
        if not os.path.exists(f"{scratch}/{source}.c"):
            must(f"cp {example} .")
        must(line)
    elif name == "get-data":
        usage = run(f"{tree}/trainers/get-data")[2]
        if line.split()[1] not in usage:
            raise AssertionError(f"{line}: not in {usage}")
    elif name == "pack_data":  # not built without libjpeg
        known = run("pack_data --help")[1] or line
        for option in re.findall(r"--[a-z-]+", line):
            if option not in known:
                raise AssertionError(f"pack_data has no {option}")
    elif name == "ddp-plot":
        plot_line(line)
    elif name in ("cat", "export", "hello", "trainer") or "=$(" in line:
        must(f"bash -n -c {quoted(line)}")
    else:
        raise AssertionError(f"no rule knows {line!r}")


def keep_logs(line):
    """Runs it: the files are those of its --redirects and --tee, for each rank."""
    value = {k: v for k, v in re.findall(r"--([a-z-]+)[ =](\S+)", line)}
    masks = [value[k] for k in ("redirects", "tee") if k in value] or ["3"]
    names = [n for bit, n in ((1, "stdout.log"), (2, "stderr.log"))
             if any(int(m) & bit for m in masks)]
    want = [f"attempt_0/{rank}/{n}" for n in names
            for rank in range(int(value.get("nproc-per-node", 1)))]
    folder = os.path.join(scratch, value["log-dir"])
    shutil.rmtree(folder, ignore_errors=True)
    must(f"unset PBS_NODEFILE PBS_JOBID; {line}")
    have = [os.path.relpath(path, run) for run in glob.glob(folder + "/*")
            for path in glob.glob(run + "/attempt_*/*/*")]
    if sorted(have) != sorted(want):
        raise AssertionError(f"{line}: keeps {have}, not {want}")


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def session(lines):
    """`$ command` lines and what they print, in any order of ranks."""
    shown, line = {}, None
    for text in lines:
        if text.startswith("$ "):
            line = text[2:]
            shown[line] = []
        else:
            shown[line].append(text)
    for line, wanted in shown.items():
        if program_of(line) == "cc" or "--nnodes" in line or any(
                t in line for t in TRAINERS):
            command(line)
            continue
        got = must(line, PBS_JOBID="", PBS_NODEFILE="").splitlines()
        missing = [w for w in wanted if w != "..." and w not in got]
        if missing:
            raise AssertionError(f"{line}: does not print {missing}: {got}")


def program(lines, after):
    """A whole program: its name is in its first comment, else in the cc line
    that follows it."""
    text = "\n".join(lines) + "\n"
    name = re.search(r"/\* (\w+)\.c:", text) or re.search(
        r"\bcc .*?(\w+)\.c\b", after)
    with open(f"{scratch}/{name.group(1)}.c", "w") as f:
        f.write(text)


def piece(lines):
    text = "\n".join(lines)
    for what, real in PSEUDO:
        text = text.replace(what, real)
    is_cuda = "<<<" in text
    text = re.sub(r"^.*<<<.*$", "", text, flags=re.M)
    source = "".join(AROUND) + text + "\n}\n"
    source = source.replace("typedef struct", "typedef struct ", 1)
    with open(f"{scratch}/piece.c", "w") as f:
        f.write(source)
    lang = "c++" if is_cuda else "c"
    must(f"${{CC:-cc}} -x {lang} -fsyntax-only -I{prefix}/include piece.c")


def python_block(lines):
    """It runs on two ranks, if its imports are installed."""
    text = "\n".join(lines) + "\n"
    compile(text, "block.py", "exec")
    with open(f"{scratch}/block.py", "w") as f:
        f.write(text)
    packages = set(re.findall(r"^import (\w+)", text, re.M)) - {"ddprun"}
    if not run(f"python3 -c 'import {', '.join(packages or {'os'})}'")[0]:
        must("ddprun --standalone --nproc-per-node 2 block.py",
             PYTHONPATH=f"{tree}/python", PYTHONDONTWRITEBYTECODE="1")


def manifest(lines):
    """A part of a manifest in kubernetes/."""
    known = {line.strip() for path in glob.glob(f"{tree}/kubernetes/*.yaml")
             for line in open(path)}
    for line in lines:
        if line.strip() not in known:
            raise AssertionError(f"no manifest has {line!r}")


def check(document, at, lang, lines, after):
    first = lines[0]
    for doc, pattern in SHOWN:
        if re.fullmatch(doc, document) and re.match(pattern, first):
            return
    text = "\n".join(lines)
    if lang == "json":
        json.loads(text)
    elif lang == "python":
        python_block(lines)
    elif lang == "yaml":
        manifest(lines)
    elif re.search(r"^int main\(", text, re.M) and "#include" in text:
        program(lines, after)
    elif document == "write-your-own.md" and lang == "c":
        pass  # a piece of in_the_circle.c: e2e/write_your_own joins them
    elif lang == "c" or re.search(r"\bddp_\w+\(|^\w+ \*\w+;|#include", text) and (
            not re.search(r"^(\$ )?cc ", text, re.M)):
        if text.strip() != "#include <ddp.h>":
            piece(lines)
    elif first.startswith("$ "):
        session(lines)
    elif document == "ddp.3" and "#include <ddp.h>" in first:
        pass  # the synopsis: the cc line below it builds mean.c further on
    else:
        for line in logical(lines):
            command(line)


def prepare():
    os.makedirs(f"{scratch}/my", exist_ok=True)
    for name in ("trainer", "train", "nccl_allreduce"):
        with open(f"{scratch}/{name}", "w") as f:
            f.write("#!/bin/sh\necho out\necho err >&2\n")
        os.chmod(f"{scratch}/{name}", 0o755)
    for name in ("train.py", "old.py", "my/__init__.py", "my/train.py"):
        open(f"{scratch}/{name}", "w").close()
    with open(f"{scratch}/hosts", "w") as f:
        f.write("h1 slots=12\n")
    with open(f"{scratch}/FILE", "w") as f:
        f.write("* true\n")
    must("mkdir -p digits cifar && t_idx digits 2000 32 && t_cifar cifar 8 8")


prepare()
documents = [f"{tree}/README.md", f"{tree}/HACKING.md"]
documents += sorted(glob.glob(f"{tree}/docs/*.md"))
documents += sorted(glob.glob(f"{tree}/docs/man/*.[13]"))
failed = count = 0
for path in documents:
    document = os.path.basename(path)
    blocks = blocks_of(path)
    for i, (at, lang, lines) in enumerate(blocks):
        after = "\n".join("\n".join(b[2]) for b in blocks[i + 1:])
        count += 1
        try:
            check(document, at, lang, lines, after)
            print(f"ok {count} {document}:{at}")
        except Exception as error:  # each block has its own line
            failed += 1
            print(f"not ok {count} {document}:{at}: {error}")
print(f"{count} blocks, {failed} failed")
sys.exit(failed > 0)
