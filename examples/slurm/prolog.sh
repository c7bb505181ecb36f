#!/bin/sh
# Record that an attempt of a job has begun. slurm.conf: PrologSlurmctld=/etc/slurm/ett/prolog.sh
#
# It runs once for each allocation, on the controller. It waits for no network, and always
# succeeds: were it to fail, Slurm would requeue the job.
trap 'exit 0' EXIT
export PATH="${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}"
here=$(dirname "$0")
# shellcheck source=settings.sh
. "$here/settings.sh"
# shellcheck source=events.sh
. "$here/events.sh"

# Of a heterogeneous job the first component stands for all; how large the others are it cannot see.
[ "${SLURM_HET_JOB_OFFSET:-0}" = 0 ] || exit 0

name=$(job_of "$SLURM_JOB_NAME" "${SLURM_ARRAY_TASK_ID:-}" "$SLURM_JOB_PARTITION")
[ -n "$name" ] || exit 0
attempt=${SLURM_JOB_RESTART_COUNT:-0}
began=$(instant now)

# The epilog needs them: when Slurm tells it of the end, a requeued job has its next number.
mkdir -p "$running" || exit 0
printf '%s\n' "$attempt" "$name" "${SLURM_CLUSTER_NAME:-}" > "$running/$SLURM_JOB_ID"

hosts=${SLURM_JOB_NUM_NODES:-1}
per_node=$(gpus_per_node "$SLURM_JOB_PARTITION")
gpus=${per_node:+,\"gpus\":$((per_node * hosts))}
size="\"hosts\":$hosts$gpus"
[ -z "${SLURM_HET_JOB_ID:-}" ] || gpus='' size='"reason":"heterogeneous job"'
facts=$(
    member name "$SLURM_JOB_NAME"
    member owner "${SLURM_JOB_USER:-}"
    member team "${SLURM_JOB_ACCOUNT:-}"
    member cluster "${SLURM_CLUSTER_NAME:-}"
)
id=slurm-$SLURM_JOB_ID-$attempt
whose="\"job\":$(quoted "$name"),\"at\":\"$began\",\"launch\":\"$SLURM_JOB_ID\",\"attempt\":$attempt"
cluster=$(of_cluster "${SLURM_CLUSTER_NAME:-}")
record "{\"type\":\"job\",\"id\":\"$id-job\",$whose$facts$gpus$cluster},
{\"type\":\"attempt_started\",\"id\":\"$id-started\",$whose,$size}"
