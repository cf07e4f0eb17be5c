# SPDX-License-Identifier: Apache-2.0
# What a guest boots: Debian's kernel, and an initramfs of busybox, the modules of rdma_rxe, libibverbs and the tools that
# tests/vm/guest calls. Everything is kept in $cache, so that only the first run needs the network. Sourced by run.

vm_packages="qemu-system-x86 busybox-static cpio xz-utils zstd kmod iproute2 ibverbs-providers ibverbs-utils rdmacm-utils perftest"
# crc32_generic: rdma_rxe asks the crypto layer for crc32, and nothing in the guest loads modules on demand.
vm_modules="crc32_generic crc32c_generic rdma_rxe ib_uverbs rdma_ucm virtio_pci virtio_net veth sch_netem 9p 9pnet_virtio"
vm_programs="ibv_devinfo ibv_rc_pingpong rping rdma ip tc setpriv
    ib_write_lat ib_write_bw ib_read_lat ib_read_bw ib_atomic_lat ib_atomic_bw"

say() { echo "vm: $*" >&2; }

# kernel_deb 6.1|6.12: prints the path of the kernel's package, fetched unless it is here.
kernel_deb() {
    local meta package deb
    case $1 in 6.1) meta=linux-image-amd64 ;; *) meta=linux-image-$1-amd64 ;; esac
    for deb in "$cache/$1"/linux-image-*.deb; do
        [ -f "$deb" ] && { echo "$deb"; return 0; }
    done
    package=$(apt-cache depends "$meta" 2>/dev/null | awk '/Depends: linux-image/ {print $2; exit}')
    if [ -z "$package" ] && [ "$(id -u)" = 0 ]; then
        apt-get -qq update >&2
        package=$(apt-cache depends "$meta" 2>/dev/null | awk '/Depends: linux-image/ {print $2; exit}')
    fi
    if [ -z "$package" ]; then
        say "apt knows no package $meta; add Debian 12's main and security to its sources, and run apt-get update"
        return 1
    fi
    mkdir -p "$cache/$1/part"
    say "fetching $package"
    if ! (cd "$cache/$1/part" && apt-get -qq -o APT::Sandbox::User=root download "$package" >&2); then
        say "apt-get download $package failed; the first run needs the network"
        return 1
    fi
    mv "$cache/$1/part"/*.deb "$cache/$1/"
    ls "$cache/$1"/linux-image-*.deb
}

# unpack_vmlinux BZIMAGE OUT: the ELF file within. QEMU boots it directly, which spares the guest the decompression,
# and under emulation that takes longer than all the rest. Where it lies: the setup header of the x86 boot protocol.
unpack_vmlinux() {
    local sectors offset length start magic
    sectors=$(od -An -tu1 -j $((0x1f1)) -N1 "$1" | tr -d ' ')
    offset=$(od -An -tu4 -j $((0x248)) -N4 "$1" | tr -d ' ')
    length=$(od -An -tu4 -j $((0x24c)) -N4 "$1" | tr -d ' ')
    start=$(((sectors + 1) * 512 + offset))
    magic=$(od -An -tx1 -j "$start" -N4 "$1" | tr -d ' ')
    # The last four bytes are the unpacked size, which is for the kernel's own loader.
    case $magic in
        fd377a58) tail -c +$((start + 1)) "$1" | head -c $((length - 4)) | xz -dc >"$2" ;;
        28b52ffd) tail -c +$((start + 1)) "$1" | head -c $((length - 4)) | zstd -qdc >"$2" ;;
        *) say "$1: compressed in a way this script does not know (magic $magic)"; return 1 ;;
    esac
    if [ "$(od -An -tx1 -N4 "$2" | tr -d ' ')" != 7f454c46 ]; then
        say "$1: what was unpacked is no ELF file"
        return 1
    fi
}

# copy_with_libs ROOT FILE TO: a program or library, and the shared libraries that it needs.
copy_with_libs() {
    local lib
    mkdir -p "$1$(dirname "$3")"
    cp -L "$2" "$1$3"
    ldd "$2" 2>/dev/null | grep -o '/[^ ]*' | sort -u | while read -r lib; do
        [ -e "$1$lib" ] && continue
        mkdir -p "$1$(dirname "$lib")"
        cp -L "$lib" "$1$lib"
    done
    return 0
}

# add_modules TREE ROOT: the modules with all that they depend on, in the order of loading, named in /modules/list.
add_modules() {
    local base name file plain
    base=$(find "$1" -type d -path '*/modules/*' -name '[0-9]*' | head -n 1)
    mkdir -p "$2/modules" "$1/depmod/lib"
    ln -sfn "$(dirname "$base")" "$1/depmod/lib/modules"
    depmod -b "$1/depmod" "$(basename "$base")" 2>/dev/null
    for name in $vm_modules; do
        if ! file=$(modprobe -d "$1/depmod" -S "$(basename "$base")" -a --show-depends "$name" 2>&1); then
            say "this kernel has no module $name: $file"
            return 1
        fi
        echo "$file" | awk '$1 == "insmod" {print $2}'
    done | awk '!seen[$0]++' >"$1/order"
    while read -r file; do
        plain=$(basename "$file")
        plain=${plain%.xz}
        case $file in *.xz) xz -dc "$file" >"$2/modules/$plain" ;; *) cp "$file" "$2/modules/$plain" ;; esac
        strip --strip-debug "$2/modules/$plain"
        echo "$plain" >>"$2/modules/list"
    done <"$1/order"
    grep -q rdma_rxe "$2/modules/list"
}

add_programs() {
    local root=$1 name lib
    mkdir -p "$root/etc/libibverbs.d" "$root/bin"
    cp /bin/busybox "$root/bin/busybox"
    for name in $vm_programs; do
        copy_with_libs "$root" "$(PATH=$PATH:/usr/sbin:/sbin command -v "$name")" "/usr/bin/$name"
    done
    # What glibc loads by name when a thread ends
    for lib in /lib/*/libgcc_s.so.1; do
        copy_with_libs "$root" "$lib" "$lib"
    done
    # The provider is found by its file in libibverbs.d, and loaded by name from the folder that libibverbs was built with.
    for lib in /usr/lib/*/libibverbs/librxe-rdmav*.so; do
        copy_with_libs "$root" "$lib" "$lib"
    done
    cp /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/"
    echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
    echo '127.0.0.1 localhost' >"$root/etc/hosts"
}

# What the image depends on besides the kernel's package; it is made anew when this changes.
image_stamp() {
    cksum <"$here/image.sh"
    # shellcheck disable=SC2086
    dpkg-query -W -f '${Package} ${Version}\n' $vm_packages libibverbs1 librdmacm1 libc6 2>/dev/null
}

# pack ROOT OUT: a cpio archive as the kernel takes it.
pack() { (cd "$1" && find . | cpio -o -H newc --quiet) >"$2"; }

# make_image 6.1|6.12: leaves $cache/KERNEL/{vmlinux,base.cpio}.
make_image() {
    local dir=$cache/$1 deb tree root
    deb=$(kernel_deb "$1") || return 1
    image_stamp >"$dir/stamp.new"
    if [ -f "$dir/base.cpio" ] && cmp -s "$dir/stamp.new" "$dir/stamp"; then
        return 0
    fi
    rm -f "$dir/stamp"
    tree=$dir/tree root=$dir/root
    rm -rf "$tree" "$root"
    mkdir -p "$tree" "$root"/{proc,sys,dev,tmp,run,share}
    say "unpacking $(basename "$deb")"
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$tree" --wildcards './boot/vmlinuz-*' '*/modules/*/modules.builtin*' \
        '*/modules/*/modules.order' '*/kernel/crypto/*' '*/kernel/lib/*' '*/kernel/net/*' '*/kernel/fs/*' '*/kernel/arch/*' \
        '*/kernel/drivers/infiniband/*' '*/kernel/drivers/net/*' '*/kernel/drivers/virtio/*' 2>/dev/null
    if ! unpack_vmlinux "$(echo "$tree"/boot/vmlinuz-*)" "$dir/vmlinux" || ! add_modules "$tree" "$root"; then
        say "cannot make the image from $deb; if the file is damaged, remove it"
        return 1
    fi
    add_programs "$root" && pack "$root" "$dir/base.cpio" && mv "$dir/stamp.new" "$dir/stamp"
    rm -rf "$tree" "$root"
}
