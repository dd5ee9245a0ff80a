#!/bin/bash
# One Ray cluster inside one job: Ray starts on every node, and the run itself on the first of them.
# Nodes are taken whole, since the end of the job stops all that this user runs with Ray on them.
# sbatch slurm_ray.sh SUITE OPTIONS, such as: sbatch slurm_ray.sh level1 --model NAME
# A job that was cut off resumes with: sbatch slurm_ray.sh --resume last
#SBATCH --job-name=kernelwright
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=1
#SBATCH --time=04:00:00
set -euo pipefail
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export ADDRESS="$head:${PORT:-6379}"

# Without a token everybody who reaches the nodes may run code on them.
RAY_AUTH_TOKEN=$(python3 -c 'import secrets; print(secrets.token_urlsafe())')
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN

# shellcheck disable=SC2016  # expanded on the first node, once Ray is there
srun --kill-on-bad-exit=1 ray symmetric-run --address "$ADDRESS" --min-nodes "$SLURM_JOB_NUM_NODES" -- \
  bash -c 'kernelwright cluster check --address "$ADDRESS" && exec kernelwright run "$@" --engine ray --address "$ADDRESS"' \
  run "$@"
