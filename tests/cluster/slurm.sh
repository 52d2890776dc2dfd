#!/usr/bin/env bash
# SLURM on one node: munge, controller and node daemon in a folder of their own, on ports of their own.
# Ranks by `srun` under Open MPI and MPICH; the batch files of docs/cluster; a rank that is killed.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/common.sh"

# The page quotes the batch file that is run here.
sed -n '/^#!\/bin\/bash$/,/^```$/p' "$root/docs/cluster.md" | sed '$d' | cmp - "$root/docs/cluster/openmpi.sbatch" ||
    fail "docs/cluster.md does not quote docs/cluster/openmpi.sbatch"

[ "$(id -u)" = 0 ] || skip "SLURM: its daemons need root"
need slurmctld slurmctld
need slurmd slurmd
need srun slurm-client
need munged munge
need mpirun.openmpi openmpi-bin
need mpirun.mpich mpich

node="$(hostname -s)"
daemons=()

own_cleanup() {
    scancel --quiet --user=root 2>/dev/null
    [ -z "${daemons[*]}" ] || kill -KILL "${daemons[@]}" 2>/dev/null
}

free_port() { # FIRST
    local port
    for port in $(seq "$1" $((RANDOM % 50 + 1)) $(($1 + 900))); do
        # 0A is a socket that listens.
        grep -qE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$port") .* 0A " /proc/net/tcp || { echo "$port"; return; }
    done
    fail "no port is free"
}

mkdir -p "$work/state" "$work/spool"
# The authentication daemon reads no key that others may write or see, and wants a folder that all may enter.
chmod 755 "$work"
head -c 128 /dev/urandom >"$work/munge.key"
chmod 400 "$work/munge.key"
cat >"$work/slurm.conf" <<CONF
ClusterName=proof
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$(free_port 26100)
SlurmdPort=$(free_port 27100)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
# More cores than the machine may have: the proofs are about ranks, not about speed.
SlurmdParameters=config_overrides
NodeName=$node NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=main Nodes=$node Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$work/slurm.conf"
# It lists nothing without a configuration.
srun --mpi=list 2>&1 | grep -q pmix || skip "SLURM: srun has no pmix (Debian: libpmix-dev, slurm-wlm-basic-plugins)"

munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munge.pid" \
    --seed-file="$work/munge.seed" --log-file="$work/munge.log" >"$work/munged.out" 2>&1 &
daemons+=($!)
within 10 test -S "$work/munge.socket" || fail "munged does not start"
slurmctld -D -f "$SLURM_CONF" >"$work/slurmctld.out" 2>&1 &
daemons+=($!)
slurmd -D -f "$SLURM_CONF" -N "$node" >"$work/slurmd.out" 2>&1 &
daemons+=($!)
is_idle() { [ "$(timeout 5 sinfo --noheader --format=%T 2>/dev/null)" = idle ]; }
within 30 is_idle || fail "the node of SLURM does not become idle"
version="$(srun --version)"

is_over() { # JOB
    case "$(timeout 5 squeue --noheader --format=%T --jobs="$1" 2>/dev/null)" in
        '' | COMPLETED | FAILED | CANCELLED | TIMEOUT) true ;;
        *) false ;;
    esac
}

is_pending() { # JOB
    [ "$(timeout 5 squeue --noheader --format=%T --jobs="$1" 2>/dev/null)" = PENDING ]
}

# A batch file of the documentation, on two cores; `job` is its number.
submit() { # FILE NAME [OPTION...]
    job="$(HEARTH="$program" DATA="$data" RUN="$work/$2" RECIPE="$recipe" sbatch --parsable --export=ALL --ntasks=2 \
        --cpus-per-task=1 --output="$work/$2.log" "$root/docs/cluster/$1.sbatch" --device cpu "${@:3}")" ||
        fail "sbatch refuses $1.sbatch"
}

make_data 48
exact=(--epochs 4 --set distributed.mode=exact)
alone one "${exact[@]}" --set training.batch_size=2
for kind in "pmix openmpi" "pmi2 mpich"; do
    read -r mpi batch <<<"$kind"
    train "srun-$mpi" "${exact[@]}"
    timeout 60 srun --ntasks=2 --mpi="$mpi" "$program" "${arguments[@]}" >"$work/srun.out" 2>"$work/srun.err" ||
        fail "srun --mpi=$mpi does not train"
    same_course "$work/one" "$out"
    summary_has "$out" world_size 2
    proved "$version, srun --mpi=$mpi: two ranks take the steps of one"

    submit "$batch" "$batch" "${exact[@]}"
    within 60 is_over "$job" || fail "$batch.sbatch does not end"
    same_course "$work/one" "$work/$batch"
    summary_has "$work/$batch" world_size 2
    # Again, with the same words: the run goes on where it is.
    submit "$batch" "$batch" --epochs 6
    within 60 is_over "$job" || fail "$batch.sbatch does not end the second time"
    grep -q "resuming from epoch 4" "$work/$batch.log" || fail "$batch.sbatch does not resume"
    summary_has "$work/$batch" epochs 6
    proved "docs/cluster/$batch.sbatch: two ranks take the steps of one; submitted again, it resumes"

    name="interrupted-$batch"
    submit "$batch" "$name" --epochs 100000
    within 60 has_checkpoints "$work/$name" 2 || fail "$batch.sbatch writes no checkpoints"
    scancel --signal=INT "$job"
    within 30 is_over "$job" || fail "an interrupt does not end the job"
    grep -q '"outcome": "interrupted"' "$work/$name/summary.json" || fail "an interrupt is not in the summary"
    compgen -G "$work/$name/checkpoints/*-interrupt*" >/dev/null || fail "an interrupt leaves no checkpoint"
    resumes "$work/$name"
    proved "scancel --signal=INT: the ranks of $batch.sbatch write a checkpoint and end; the run resumes"

    # A node is needed for something else, or fails: SLURM ends the job and queues it again, after a while.
    name="requeued-$batch"
    submit "$batch" "$name" --epochs 100000
    within 60 has_checkpoints "$work/$name" 2 || fail "$batch.sbatch writes no checkpoints"
    scontrol requeue "$job"
    within 45 is_pending "$job" || fail "SLURM does not queue the job again"
    scontrol update JobId="$job" StartTime=now
    resumed() { grep -q "resuming from epoch" "$work/$name.log"; }
    within 60 resumed || fail "$batch.sbatch does not resume when SLURM has queued it again"
    scancel --signal=INT "$job"
    within 30 is_over "$job" || fail "an interrupt does not end the job that was queued again"
    proved "scontrol requeue: $batch.sbatch resumes by itself"

    # SLURM counts time limits in minutes: two more for each MPI.
    if [ "${HEARTH_LONG:-0}" = 1 ]; then
        name="timed-$batch"
        SBATCH_TIMELIMIT=2 SBATCH_SIGNAL=INT@60 submit "$batch" "$name" --epochs 100000
        within 150 is_over "$job" || fail "a signal before the time limit does not end the job"
        grep -q '"outcome": "interrupted"' "$work/$name/summary.json" || fail "the signal is not in the summary"
        compgen -G "$work/$name/checkpoints/*-interrupt*" >/dev/null || fail "the signal leaves no checkpoint"
        resumes "$work/$name"
        proved "--signal=INT@60 --time=2: the ranks of $batch.sbatch write a checkpoint before the time is up"
    fi

    train "killed-$mpi" --epochs 100000 --set training.val_interval=100000
    srun --ntasks=2 --mpi="$mpi" --kill-on-bad-exit=1 "$program" "${arguments[@]}" >"$work/srun.out" 2>"$work/srun.err" &
    step=$!
    within 60 has_checkpoints "$out" 2 || fail "srun --mpi=$mpi: no checkpoints"
    kill -KILL "$(ranks_of "$out" 1)"
    within "$patience" none_left "$out" || fail "srun --mpi=$mpi: rank 1 is killed, and the other stays"
    within "$patience" ended "$step" || fail "srun --mpi=$mpi does not end when a rank is killed"
    ! wait "$step" || fail "srun --mpi=$mpi hides that a rank was killed"
    grep -q "task 1: Killed" "$work/srun.err" || fail "srun --mpi=$mpi does not name the rank that was killed"
    resumes "$out"
    proved "srun --mpi=$mpi: rank 1 is killed: it is named, the other ends, and the run resumes"
done
