#!/usr/bin/env bash
# Two network namespaces stand for two hosts, each with its name and its end of a cable. One rank in
# each trains over TCP, by both MPIs and by --hosts; then the cable is cut in the middle of an epoch.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/common.sh"

[ "$(id -u)" = 0 ] || skip "two hosts: network namespaces need root"
need ip iproute2
need unshare util-linux
need mpirun.openmpi openmpi-bin
need mpirun.mpich mpich

# Names that no other run of this has.
left="hearth-left$$" right="hearth-right$$"
net=10.213.77

own_cleanup() {
    ip netns del "$left" 2>/dev/null
    ip netns del "$right" 2>/dev/null
}

ip netns add "$left" 2>/dev/null || skip "two hosts: this kernel or container allows no network namespace"
ip netns add "$right"
ip link add cable netns "$left" type veth peer name cable netns "$right" ||
    skip "two hosts: this kernel has no veth devices"
for host in "$left 1" "$right 2"; do
    read -r name number <<<"$host"
    ip -n "$name" link set lo up
    ip -n "$name" address add "$net.$number/24" dev cable
    ip -n "$name" link set cable up
done

# What launchers take for ssh: agent [-OPTION...] ADDRESS COMMAND...
cat >"$work/agent" <<AGENT
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
case "\$1" in
    $net.1) namespace=$left name=host-left ;;
    *) namespace=$right name=host-right ;;
esac
shift
command="\$*"
exec ip netns exec "\$namespace" unshare --uts sh -c "hostname \$name && exec \${command#exec }"
AGENT
# Each rank writes on its own host: nothing that it says crosses a cable that is cut.
cat >"$work/rank" <<RANK
#!/bin/sh
exec "$program" "\$@" 2>"$work/rank\${HEARTH_RANK:-\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}}.err"
RANK
chmod +x "$work/agent" "$work/rank"

# Starts the ranks of `arguments` from the left host, in the background; `launched` is the launcher.
launch() { # LAUNCHER
    local words=("mpirun.$1" -n 2)
    case "$1" in
        hosts) words=(env HEARTH_SSH="$work/agent" HEARTH_REMOTE_PROGRAM="$work/rank" "$program") ;;
        openmpi) words+=(--mca plm_rsh_agent "$work/agent" --host "$net.1:1,$net.2:1" --bind-to none -x RAYON_NUM_THREADS
            --mca btl "tcp,self" --mca btl_tcp_if_include "$net.0/24" --mca oob_tcp_if_include "$net.0/24") ;;
        # UCX sees that both hosts are one machine, and would share memory.
        mpich) words+=(-genv UCX_TLS "tcp,self" -genv UCX_NET_DEVICES cable -launcher rsh -launcher-exec "$work/agent" -hosts "$net.1,$net.2" -ppn 1 -iface cable) ;;
    esac
    [ "$1" = hosts ] || words+=("$work/rank")
    words+=("${arguments[@]}")
    [ "$1" != hosts ] || words+=(--hosts "$net.1:1,$net.2:1")
    # The words after the script are its arguments.
    # shellcheck disable=SC2016
    ip netns exec "$left" unshare --uts sh -c 'hostname host-left && exec "$@"' launch \
        "${words[@]}" >"$work/launcher.out" 2>&1 &
    launched=$!
}

# Bytes that the left host has sent over the cable.
sent() { ip -n "$left" -s -o link show cable | sed 's/.*TX: *[a-z ]*\\ *\([0-9]*\).*/\1/'; }

make_data 48
exact=(--epochs 4 --set distributed.mode=exact)
alone one "${exact[@]}" --set training.batch_size=2
for launcher in hosts openmpi mpich; do
    # MPI names hosts by what they call themselves.
    first=host-left second=host-right
    [ "$launcher" != hosts ] || first="$net.1" second="$net.2"
    train "$launcher" "${exact[@]}"
    before="$(sent)"
    launch "$launcher"
    within 60 ended "$launched" || fail "$launcher: the ranks on two hosts do not end"
    wait "$launched" || fail "$launcher: the ranks on two hosts do not train"
    grep -q "2 ranks on $first, $second" "$work/rank0.err" || fail "$launcher: the ranks are not on two hosts"
    same_course "$work/one" "$out"
    summary_has "$out" world_size 2
    # 16 steps of 7600 bytes of gradients, half of which the other rank adds, and the weights to validate.
    [ $(($(sent) - before)) -gt 60000 ] || fail "$launcher: the gradients do not travel over the cable"
    proved "$launcher: a rank on each of two hosts, over TCP, takes the steps of one rank"

    train "$launcher-cut" --epochs 100000 --set training.val_interval=100000 --set transforms.6.num_samples=64
    launch "$launcher"
    within 60 has_checkpoints "$out" 3 || fail "$launcher: no checkpoints before the cable is cut"
    ip -n "$left" link set cable down
    cut=$SECONDS
    within "$patience" none_left "$out" ||
        fail "$launcher: after $patience s without a network ranks still run: $(ranks_of "$out")"
    took=$((SECONDS - cut))
    grep -qE "^error: rank 0 ends all ranks.*rank 0 of 2 on $first: .* of phase [a-z ]+, step [0-9]+: .*rank 1 on $second" \
        "$work/rank0.err" || fail "$launcher: rank 0 does not name rank, host and phase"
    grep -qE "^error: rank 1 ends all ranks.*rank 1 of 2 on $second: .* of phase [a-z ]+, step [0-9]+: .*rank 0 on $first" \
        "$work/rank1.err" || fail "$launcher: rank 1 does not name rank, host and phase"
    # A launcher whose other half is out of reach may wait for it for ever.
    kill -KILL "$launched" 2>/dev/null || true
    wait "$launched" 2>/dev/null || true
    end_everything_in "$work"
    ip -n "$left" link set cable up
    resumes "$out"
    proved "$launcher: the cable is cut: both ranks end in $took s and name rank, host and phase; the run resumes"
done
