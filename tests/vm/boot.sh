# SPDX-License-Identifier: Apache-2.0
# Starts QEMU, for one guest or for two that are joined by two unix sockets, and reads what they say on their consoles.
# Every process started here is ended by stop_guests. Sourced by run.

guest_pids=""

# The kernel's self-tests, mitigations and audit cost time under emulation and change nothing that is tested.
vm_append="console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr no_timer_check tsc=reliable
    random.trust_cpu=on cryptomgr.notests apparmor=0 audit=0"

# Ends what runs, by its id; "timeout" passes the signal on to QEMU, and its -k makes sure.
stop_guests() {
    local pid
    for pid in $guest_pids; do kill -TERM "$pid" 2>/dev/null; done
    for pid in $guest_pids; do wait "$pid" 2>/dev/null; done
    guest_pids=""
}

# link ROLE RAIL: one end of a cable between the two guests.
link() {
    local socket=$work/rail$2 end=on
    [ "$1" = 0 ] || end=off
    echo "-netdev stream,id=n$2,server=$end,addr.type=unix,addr.path=$socket
        -device virtio-net-pci,netdev=n$2,romfile=,host_mtu=9000,mac=52:54:00:00:0$2:0$(($1 + 1))"
}

# start_guest ROLE GUESTS KERNEL SECONDS: runs it in the background; its console goes to console.ROLE.
start_guest() {
    local role=$1 guests=$2 dir=$cache/$3 cpus memory=1536 network="" qemu
    cpus=$(nproc)
    [ "$cpus" -le 2 ] || cpus=2
    if [ "$guests" = 2 ]; then
        cpus=1 memory=1024 network="$(link "$role" 0) $(link "$role" 1)"
    fi
    # shellcheck disable=SC2054,SC2206
    qemu=(qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max -smp "$cpus" -m "$memory"
        -nodefaults -no-user-config -no-reboot -display none -kernel "$dir/vmlinux" -initrd "$work/initrd"
        -append "$(echo $vm_append) rig.role=$role rig.guests=$guests${interactive:+ rig.interactive}"
        -device isa-debug-exit,iobase=0xf4,iosize=0x04
        -virtfs "local,path=$share,mount_tag=share,security_model=none,multidevs=remap" $network)
    if [ -n "$interactive" ]; then
        # the terminal is the guest's, its Ctrl-C too
        qemu+=(-chardev stdio,id=console,signal=off -serial chardev:console)
        timeout --foreground -k 5 "$4" "${qemu[@]}" <&0 9>&- 2>"$share/qemu.$role" &
    else
        timeout -k 5 "$4" "${qemu[@]}" -serial stdio </dev/null 9>&- >"$share/console.$role" 2>"$share/qemu.$role" &
    fi
    guest_pids="$guest_pids $!"
}

# wait_socket PATH: QEMU listens there; at most 10 s.
wait_socket() {
    local deadline=$((SECONDS + 10))
    until [ -S "$1" ]; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.05
    done
}

# boot GUESTS KERNEL SECONDS: 0 if each guest ran its list to the end; results are in $share/results.ROLE.
boot() {
    local guests=$1 kernel=$2 seconds=$3 pid status role=0 rc=0
    cat "$cache/$kernel/base.cpio" "$work/payload.cpio" >"$work/initrd"
    start_guest 0 "$guests" "$kernel" "$seconds"
    if [ "$guests" = 2 ]; then
        wait_socket "$work/rail0" && wait_socket "$work/rail1" && start_guest 1 "$guests" "$kernel" "$seconds"
    fi
    for pid in $guest_pids; do
        wait "$pid"
        status=$?
        # isa-debug-exit: the guest's byte b ends QEMU with 2b + 1; 0 was written if all of the list was run
        if [ "$status" != 1 ]; then
            say "guest $role of kernel $kernel did not come to its end (QEMU's status $status, 124: $seconds s were not enough)"
            tail -n 20 "$share/console.$role" "$share/qemu.$role" >&2
            rc=1
        fi
        role=$((role + 1))
    done
    guest_pids=""
    return $rc
}
