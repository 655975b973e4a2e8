"""manifests.py: the manifests of kubernetes/, as a cluster would take them.

  manifests.py check FILE...   each is valid: by Kubernetes' own schemas where Python has
                               kubernetes_validate, and by the fields that matter here
  manifests.py pods FILE       a line for each pod that the operator would make, with
                               tabs: HOST NAME, SUBDOMAIN, then NAME=VALUE words as
                               bash's declare -a would read them; a last line each,
                               "command", has the container's words

What an operator adds to a pod is written here from its sources and documentation.
"""
import re
import shlex
import sys

import yaml

MOUNT = "/var/run/secrets/ddprun"
POD_FIELDS = set(
    "restartPolicy terminationGracePeriodSeconds subdomain containers volumes".split())
CONTAINER_FIELDS = set("name image command args env volumeMounts".split())
KINDS = {
    ("v1", "Service"): "metadata spec",
    ("batch/v1", "Job"): "metadata spec",
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): "metadata spec",
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): "metadata spec",
    ("kubeflow.org/v1", "PyTorchJob"): "metadata spec",
    ("kubeflow.org/v2beta1", "MPIJob"): "metadata spec",
    ("batch.volcano.sh/v1alpha1", "Job"): "metadata spec",
}


def fail(text):
    raise AssertionError(text)


def pod_specs(node):
    """Every pod's spec in a manifest: what has containers."""
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        for value in node.values():
            yield from pod_specs(value)
    elif isinstance(node, list):
        for value in node:
            yield from pod_specs(value)


def check_pod(kind, spec):
    extra = set(spec) - POD_FIELDS
    extra and fail(f"a pod has no {extra}")
    for c in spec["containers"]:
        extra = set(c) - CONTAINER_FIELDS
        extra and fail(f"a container has no {extra}")
        mounts = {m["name"]: m["mountPath"] for m in c.get("volumeMounts", [])}
        if kind != "MPIJob" and MOUNT not in mounts.values():
            fail("the Secret is not mounted")
    for v in spec.get("volumes", []):
        secret = v["secret"]
        if secret["defaultMode"] != 0o400:
            fail(f"defaultMode is {secret['defaultMode']:o}: others can read it")
    grace = spec.get("terminationGracePeriodSeconds", 60 if kind == "TrainJob" else 30)
    grace > 30 or fail("no longer grace than --shutdown-timeout's 30 s")


def check_core(doc):
    """By Kubernetes' schemas."""
    try:
        import kubernetes_validate
    except ImportError:
        return False
    version = kubernetes_validate.latest_version()
    kubernetes_validate.validate(doc, version, strict=True)
    return True


def check(path):
    kinds = []
    for doc in yaml.safe_load_all(open(path)):
        key = (doc["apiVersion"], doc["kind"])
        key in KINDS or fail(f"{path}: unknown {key}")
        set(doc) == {"apiVersion", "kind", "metadata", "spec"} or fail(
            f"{path}: {sorted(doc)}")
        re.fullmatch("[a-z][a-z0-9-]*", doc["metadata"]["name"]) or fail("its name")
        specs = list(pod_specs(doc))
        specs or doc["kind"] == "Service" or fail(f"{path}: no pod")
        for spec in specs:
            check_pod(doc["kind"], spec)
        if key[0] in ("v1", "batch/v1"):
            kinds.append(f"{doc['kind']}{'' if check_core(doc) else ' (no schema)'}")
        else:
            kinds.append(f"{doc['kind']} (no schema)")
    print(f"{path}: {', '.join(kinds)}")


# ---- what the operators make of it


def service_names(docs):
    return {d["metadata"]["name"] for d in docs if d["kind"] == "Service"}


def fields(container, annotations):
    """The container's own variables."""
    env = {}
    for item in container.get("env", []):
        value = item.get("value")
        if value is None:
            path = item["valueFrom"]["fieldRef"]["fieldPath"]
            value = annotations[re.fullmatch(
                r"metadata\.annotations\['(.*)'\]", path).group(1)]
        env[item["name"]] = value
    return env


def indexed(spec, name, domain, annotations):
    """The pods of a Job: JOB-INDEX."""
    spec["completionMode"] == "Indexed" or fail("not an Indexed Job")
    pod = spec["template"]["spec"]
    c = pod["containers"][0]
    for i in range(spec["completions"]):
        env = {"JOB_COMPLETION_INDEX": str(i), **fields(c, annotations)}
        yield f"{name}-{i}", pod.get("subdomain", domain), env, c["command"]


def job(docs, doc):
    pod = doc["spec"]["template"]["spec"]
    # without the Service the subdomain is no name
    pod["subdomain"] in service_names(docs) or fail("no Service for the pods")
    yield from indexed(doc["spec"], doc["metadata"]["name"], "", {})


def jobset(_, doc):
    name, mark = doc["metadata"]["name"], "jobset.sigs.k8s.io/"
    for r in doc["spec"]["replicatedJobs"]:
        for i in range(r["replicas"]):
            yield from indexed(
                r["template"]["spec"], f"{name}-{r['name']}-{i}", name,
                {mark + "jobset-name": name, mark + "job-index": str(i),
                 mark + "replicatedjob-name": r["name"]})


def trainjob(_, doc):
    name, t = doc["metadata"]["name"], doc["spec"]["trainer"]
    for i in range(t["numNodes"]):
        yield (f"{name}-node-0-{i}", name, {
            "PET_NNODES": str(t["numNodes"]),
            "PET_NPROC_PER_NODE": str(t["numProcPerNode"]),
            "PET_NODE_RANK": str(i), "JOB_COMPLETION_INDEX": str(i),
            "PET_MASTER_ADDR": f"{name}-node-0-0.{name}",
            "PET_MASTER_PORT": "29400"}, t["command"])


def pytorchjob(_, doc):
    name, specs = doc["metadata"]["name"], doc["spec"]["pytorchReplicaSpecs"]
    total, rank = sum(s["replicas"] for s in specs.values()), 0
    for role in ("Master", "Worker"):
        for i in range(specs[role]["replicas"]):
            c = specs[role]["template"]["spec"]["containers"][0]
            c["name"] == "pytorch" or fail("the operator knows only pytorch")
            yield f"{name}-{role.lower()}-{i}", "", {
                "PYTHONUNBUFFERED": "0", "MASTER_ADDR": f"{name}-master-0",
                "MASTER_PORT": "23456", "WORLD_SIZE": str(total),
                "RANK": str(rank)}, c["command"]
            rank += 1


def volcano(_, doc):
    name, tasks, shared = doc["metadata"]["name"], doc["spec"]["tasks"], {}
    for t in tasks:
        key = t["name"].upper().replace("-", "_")
        shared[f"VC_{key}_HOSTS"] = ",".join(
            f"{name}-{t['name']}-{i}.{name}" for i in range(t["replicas"]))
        shared[f"VC_{key}_NUM"] = str(t["replicas"])
    for t in tasks:
        for i in range(t["replicas"]):
            yield (f"{name}-{t['name']}-{i}", name,
                   {**shared, "VC_TASK_INDEX": str(i), "VK_TASK_INDEX": str(i)},
                   t["template"]["spec"]["containers"][0]["command"])


def mpijob(_, doc):
    name, specs = doc["metadata"]["name"], doc["spec"]["mpiReplicaSpecs"]
    yield f"{name}-launcher", name, {
        "K_MPI_JOB_ROLE": "launcher", "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    }, specs["Launcher"]["template"]["spec"]["containers"][0]["command"]


MAKERS = {"JobSet": jobset, "TrainJob": trainjob, "PyTorchJob": pytorchjob,
          "MPIJob": mpijob}


def pods(path):
    docs = list(yaml.safe_load_all(open(path)))
    for doc in docs:
        if doc["kind"] == "Service":
            continue
        make = MAKERS.get(doc["kind"]) or (
            volcano if "volcano" in doc["apiVersion"] else job)
        for host, domain, env, command in make(docs, doc):
            env["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"
            print(host, domain or "-", shlex.join(f"{k}={v}" for k, v in env.items()),
                  shlex.join(command), sep="\t")


if sys.argv[1] == "check":
    for each in sys.argv[2:]:
        check(each)
else:
    pods(sys.argv[2])
