#!/bin/bash
# One service on each node of a job; a client on the login node has its candidates judged by all of them.
# sbatch slurm_services.sh, then on the login node, once the job runs:
#   export KERNELWRIGHT_JUDGE=$(cat judges-JOBID) KERNELWRIGHT_JUDGE_TOKEN=$KERNELWRIGHT_SERVICE_TOKEN
#   kernelwright run level1 --model NAME
#SBATCH --job-name=kernelwright
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=1
#SBATCH --time=04:00:00
set -euo pipefail
: "${KERNELWRIGHT_SERVICE_TOKEN:?export a secret before sbatch; clients send it}"
export PORT="${PORT:-8080}"

# Nodes keep builds and state on their own disks: a database on a network file system is slow and may break.
export NODE_FOLDER="${TMPDIR:-/tmp}/kernelwright-$SLURM_JOB_ID"

scontrol show hostnames "$SLURM_JOB_NODELIST" | sed "s|.*|http://&:$PORT|" | paste -sd, >"judges-$SLURM_JOB_ID"

# Slurm kills 30 s after it has sent TERM; what runs longer than that is sent to another judge, or again.
# shellcheck disable=SC2016  # each node expands its own
srun --kill-on-bad-exit=0 bash -c '
  trap : TERM  # the service ends first
  trap "rm -rf -- \"$NODE_FOLDER-$SLURM_PROCID\"" EXIT
  kernelwright serve --host 0.0.0.0 --port "$PORT" --drain 20s \
    --state "$NODE_FOLDER-$SLURM_PROCID/state" --cache "$NODE_FOLDER-$SLURM_PROCID/cache"'
