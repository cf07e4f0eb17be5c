# SPDX-License-Identifier: Apache-2.0
# Run by bench/verbs in a guest of tests/vm: the same measure by perftest and by ferry-perf, in turn, over one rail of veth.
# Prints "MEASURE SYSTEM ROUND VALUE"; microseconds, Gbit/s, or thousands per second.
export FERRY_TRANSPORT=ibrc

# The line of results that perftest prints for a size, and of it one column.
theirs() { # SIZE COLUMN FACTOR TEST ARGUMENTS
    size=$1 column=$2 factor=$3
    shift 3
    between a "$@" 2>&1 | awk -v size="$size" -v column="$column" -v factor="$factor" '
        $1 == size {value = $column * factor} END {print value}'
}

ours() { # FACTOR ARGUMENTS
    factor=$1
    shift
    RAILS=a pes 2 ferry-perf "$@" --csv 2>/dev/null | awk -F, -v factor="$factor" '
        NR == 1 {for (i = 1; i <= NF; i++) if ($i == "median") column = i}
        END {print $column * factor}'
}

# Both in turn; who is first changes from round to round.
pair() { # MEASURE ROUND THEIRS OURS
    for which in $(($2 % 2)) $((1 - $2 % 2)); do
        if [ "$which" = 0 ]; then
            echo "$1 perftest $2 $(eval "theirs $3")"
        else
            echo "$1 ferry $2 $(eval "ours $4")"
        fi
    done
}

for round in $(seq 1 "$rounds"); do
    pair put_lat "$round" "8 5 1 ib_write_lat -s 8 -n 3000" "0.001 put_lat -s 8 -i 3000"
    pair get_lat "$round" "8 5 1 ib_read_lat -s 8 -n 3000" "0.001 get_lat -s 8 -i 3000"
    pair fetch_add_lat "$round" "8 5 1 ib_atomic_lat -A FETCH_AND_ADD -n 3000" "0.001 fetch_add_lat -i 3000"
    pair put_bw "$round" "65536 4 1 ib_write_bw -s 65536 -n 1000 -t 64 --report_gbits" "8 put_bw -s 65536 -i 1024"
    pair put_rate "$round" "8 5 1000 ib_write_bw -s 8 -n 20000 -t 64 -l 1 -I 64" "1000 put_rate -s 8 -i 20032"
    echo "put_signal_4 ferry $round $(ours 1000 put_signal_rate -s 8 -c 4 -i 10048)"
    echo "put_signal_1 ferry $round $(ours 1000 put_signal_rate -s 8 -c 1 -i 10048)"
done
