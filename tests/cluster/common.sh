# shellcheck shell=bash
# What the proofs share: the program, a folder that is removed, data, and looking at a run from outside.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
program="${HEARTH_PROGRAM:-${CARGO_TARGET_DIR:-$root/target}/release/hearth}"
recipe="$here/ranks.toml"

# Seconds that a rank waits for the others, and those after which all must have ended: they ask each
# other where they are, report, and leave.
deadline=3
export patience=$((deadline + 20))

# A rank has one thread: the machines on which this runs have few cores.
export RAYON_NUM_THREADS=1
# Open MPI refuses to start as root otherwise.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset HEARTH_MPI HEARTH_PLUGIN_PATH

skip() {
    printf 'skipped: %s\n' "$*"
    exit 0
}

# Ends the proof with a reason and the last words of what it ran.
fail() {
    printf 'failed: %s\n' "$*" >&2
    local file
    for file in "$work"/*.err "$work"/*.out "$work"/*.log; do
        [ -s "$file" ] && printf -- '--- the end of %s\n%s\n' "${file##*/}" "$(tail -n 8 "$file" | cut -c1-600)" >&2
    done
    exit 1
}

proved() { printf '%5ss  %s\n' "$SECONDS" "$*"; }

need() { # PROGRAM PACKAGE
    command -v "$1" >/dev/null || skip "there is no $1 (Debian: $2)"
}

# Ends what a proof has started, whatever happened: `own_cleanup` of the proof, then its processes.
cleanup() {
    local code=$?
    trap - EXIT INT TERM
    set +e
    # The shell reports each job that it sees killed.
    exec 2>/dev/null
    if declare -F own_cleanup >/dev/null; then own_cleanup; fi
    end_everything_in "$work"
    rm -rf "$work"
    exit "$code"
}

# Kills each process that names something in a folder.
end_everything_in() {
    local pid
    for pid in $(pgrep -f -- "$1/"); do
        [ "$pid" = $$ ] || kill -KILL "$pid" 2>/dev/null
    done
}

need pgrep procps
[ -x "$program" ] || { echo "failed: there is no program $program: build it, or name it in HEARTH_PROGRAM" >&2; exit 1; }
work="$(mktemp -d /tmp/hearth-cluster.XXXXXX)"
trap cleanup EXIT
trap 'exit 130' INT TERM

# 13 cases: 8 train.
make_data() { # VOXELS
    data="$work/data"
    "$program" data phantom spleen --cases 13 --size "$1" --out "$data" >"$work/data.log" 2>&1 || fail "no data"
}

# The words after the program's name, in `arguments`: a run of the recipe in a folder of `work`.
train() { # NAME [OPTION...]
    out="$work/$1"
    arguments=(train "$recipe" --data "$data" --out "$out" --device cpu --set "distributed.deadline=$deadline" "${@:2}")
}

# One rank, to its end.
alone() { # NAME [OPTION...]
    train "$@"
    "$program" "${arguments[@]}" >"$work/$1.out" 2>"$work/$1.err" || fail "one rank: $*"
}

# Checks every 10 ms; gives up after so many seconds.
within() { # SECONDS COMMAND...
    local end=$((SECONDS + $1 + 1))
    until "${@:2}"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.01
    done
}

# The processes of a run, or that of one of its ranks.
ranks_of() { # FOLDER [RANK]
    local pid
    # The name of a process has 15 characters.
    for pid in $(pgrep -x -- "$(basename "$program" | cut -c1-15)"); do
        # It may be gone in between.
        { tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qxF -- "$1"; } 2>/dev/null || continue
        [ -z "${2:-}" ] || { tr '\0' '\n' <"/proc/$pid/environ" | grep -qxE \
            "(OMPI_COMM_WORLD_RANK|PMI_RANK|SLURM_PROCID|HEARTH_RANK)=$2"; } 2>/dev/null || continue
        echo "$pid"
    done
}

none_left() { [ -z "$(ranks_of "$1")" ]; }

# Stopped ranks do not end by themselves: whether all others have.
none_runs() { # FOLDER
    local pid
    for pid in $(ranks_of "$1"); do
        grep -q '^State:[[:space:]]*[TZ]' "/proc/$pid/status" 2>/dev/null || return 1
    done
}

checkpoints() { # FOLDER
    compgen -G "$1/checkpoints/epoch=*" || true
}

has_checkpoints() { # FOLDER NUMBER
    [ "$(checkpoints "$1" | wc -l)" -ge "$2" ]
}

ended() { ! kill -0 "$1" 2>/dev/null; }

# The numbers of a key in the log of a run, one a line.
numbers() { # FOLDER KEY
    sed -n "s/.*\"$2\":\([-0-9.e]*\).*/\1/p" "$1/log.jsonl"
}

# Whether two runs have the same losses of iterations, within 1e-6, and the same Dice of epochs: a voxel or
# two whose classes are about as likely may fall on either side.
same_course() { # FOLDER FOLDER
    local key most
    for key in loss mean_dice; do
        most=1e-6
        [ "$key" = loss ] || most=1e-5
        [ "$(numbers "$1" "$key" | wc -l)" -ge 4 ] || fail "$1 has too few values of $key"
        paste <(numbers "$1" "$key") <(numbers "$2" "$key") | awk -v key="$key" -v most="$most" '
            NF != 2 { print "value " NR " of " key " is missing in one of the runs"; exit 1 }
            { off = $1 > $2 ? $1 - $2 : $2 - $1 }
            off > most + 0 { print "value " NR " of " key ": " $1 " and " $2; exit 1 }' ||
            fail "the ranks do not take the steps of one"
    done
}

# Whether a number in the summary of a run is the expected one.
summary_has() { # FOLDER KEY VALUE
    grep -q "^  \"$2\": $3,\$" "$1/summary.json" || fail "summary.json of $1 has no \"$2\": $3"
}

# The highest epoch that a checkpoint of a run was written after or in.
newest_epoch() { # FOLDER
    checkpoints "$1" | sed 's/.*epoch=0*\([0-9]*\)-.*/\1/' | sort -n | tail -n 1
}

# Goes on with one rank from the newest checkpoint, for two epochs; no checkpoint may be damaged. A run
# that has no recipe yet was ended before it began, and is started again.
resumes() { # FOLDER
    local newest name="${1##*/}" how=(--resume)
    newest="$(newest_epoch "$1")"
    [ -e "$1/recipe.toml" ] || how=("$recipe")
    "$program" train "${how[@]}" --data "$data" --out "$1" --device cpu --epochs $((${newest:-0} + 2)) \
        >"$work/$name.out" 2>"$work/$name.err" || fail "$name is not resumed"
    if [ -n "$newest" ]; then
        grep -q "resuming from epoch" "$work/$name.err" || fail "$name starts from the beginning"
    fi
    ! grep -qiE 'is skipped|damaged' "$work/$name.err" || fail "a checkpoint of $name is damaged"
    summary_has "$1" epochs $((${newest:-0} + 2))
}
