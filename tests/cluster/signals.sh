#!/usr/bin/env bash
# One of two ranks is killed or stopped while data is loaded, in a training step, in a validation, and
# while a checkpoint is written: all end in time, it is named, and the run resumes. Eight cases by
# default; every rank, signal, phase and launcher with HEARTH_CLUSTER=all.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/common.sh"

need mpirun.openmpi openmpi-bin
need mpirun.mpich mpich

# What makes each phase long enough to be met.
declare -A options=(
    [loading]="--set training.val_interval=100000"
    [training]="--set training.val_interval=100000 --set transforms.6.num_samples=64"
    [validation]="--set inferer.overlap=0.75"
    [checkpoint]="--set training.val_interval=100000 --set network.channels=[32,64]"
)

# Whether a run has just come to a phase.
is_in() { # PHASE FOLDER ERRORS
    case "$1" in
        loading) grep -q '^cache: 1 of' "$3" ;;
        training) has_checkpoints "$2" 2 ;;
        # The first epoch is over, so the second is being trained or validated.
        validation) grep -q '^epoch 1/' "$3" && sleep 0.5 ;;
        # The whole check has no other process, since the folder has this name for milliseconds.
        checkpoint) compgen -G "$2/checkpoints/epoch=*" >/dev/null && compgen -G "$2/checkpoints/.partial-*" >/dev/null ;;
    esac
}

# Waits without a pause.
until_in() { # PHASE FOLDER ERRORS
    local end=$((SECONDS + 60))
    until is_in "$@" 2>/dev/null; do
        [ "$SECONDS" -lt "$end" ] || fail "the run never comes to $1"
    done
}

# Whether the signal has met its phase, by what the run has said since.
met() { # PHASE SIGNAL ERRORS
    case "$1" in
        loading) ! grep -q '^epoch ' "$3" ;;
        validation) ! grep -q '^epoch 2/' "$3" && { [ "$2" = KILL ] || grep -qE 'of phase [a-z ]*valid' "$3"; } ;;
        training) [ "$2" = KILL ] || grep -qE 'of phase (gradients|deciding whether to continue)' "$3" ;;
        checkpoint) true ;;
    esac
}

strike() { # PHASE SIGNAL RANK LAUNCHER [ATTEMPT]
    local phase="$1" signal="$2" rank="$3" launcher="$4" name="$1-$2-$3-$4" binding=() said pid launched before took
    rm -f "$work"/*.err "$work"/*.out
    # The options are words.
    # shellcheck disable=SC2086
    train "$name" --epochs 100000 ${options[$phase]}
    said="$work/$name-run.err"
    [ "$launcher" = mpich ] || binding=(--bind-to none --oversubscribe)
    "mpirun.$launcher" -n 2 "${binding[@]}" "$program" "${arguments[@]}" >"$work/$name-run.out" 2>"$said" &
    launched=$!
    pid_is_known() { pid="$(ranks_of "$out" "$rank")" && [ -n "$pid" ]; }
    within 30 pid_is_known || fail "$name: rank $rank does not start"
    until_in "$phase" "$out" "$said"
    kill "-$signal" "$pid"
    before=$SECONDS
    within "$patience" none_runs "$out" || fail "$name: after $patience s the other rank still runs"
    # Nothing but this ends a stopped process where its launcher asks politely.
    kill -KILL "$pid" 2>/dev/null || true
    within "$patience" ended "$launched" || fail "$name: the launcher does not end"
    ! wait "$launched" 2>/dev/null || fail "$name: the launcher ends as if all were well"
    if ! met "$phase" "$signal" "$said"; then
        # On a busy machine a phase may be over, or not begun.
        [ "${5:-1}" -lt 3 ] || fail "$name: the signal has missed its phase three times"
        rm -rf "$out"
        strike "$1" "$2" "$3" "$4" $((${5:-1} + 1))
        return
    fi
    case "$signal $launcher" in
        STOP*) grep -qE "^error: .*of phase .*rank $rank on [^ ]+ does not respond" "$said" ;;
        # A killed rank is reported by its launcher; MPICH's names the process and its host.
        KILL*openmpi) grep -qE "process rank $rank .*signal 9" "$said" ;;
        KILL*mpich) grep -qE "PID $pid RUNNING AT" "$work/$name-run.out" ;;
    esac || fail "$name: nobody names rank $rank"
    took=$((SECONDS - before))
    resumes "$out"
    proved "$phase: rank $rank of $launcher gets SIG$signal: named, all end in $took s, the run resumes"
    rm -rf "$out"
}

# Large enough for loading to take a while.
make_data 96
if [ "${HEARTH_CLUSTER:-}" = all ]; then
    for phase in loading training validation checkpoint; do
        for signal in KILL STOP; do
            for rank in 0 1; do
                for launcher in openmpi mpich; do strike "$phase" "$signal" "$rank" "$launcher"; done
            done
        done
    done
else
    strike loading KILL 1 mpich
    strike loading STOP 0 openmpi
    strike training KILL 0 openmpi
    strike training STOP 1 mpich
    strike validation KILL 1 openmpi
    strike validation STOP 0 mpich
    strike checkpoint KILL 0 mpich
    strike checkpoint STOP 1 openmpi
fi
