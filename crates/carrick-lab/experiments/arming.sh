#!/bin/bash
# From which request of a connection on it pays that the kernel forwards: CPU of a switch's core per request, packets included, for clients
# that send a number of requests on each connection.
#   carrick-lab testbed --cores 0,1 --in host -- crates/carrick-lab/experiments/arming.sh [SECONDS] [ROUNDS]
set -eu
seconds=${1:-1} rounds=${2:-3}
programs=${PROGRAMS:-target/release}
carrick=${CARRICK:-$programs/carrick} folder=$CARRICK_LAB_DIRECTORY
proxy=$CARRICK_LAB_PROXY_ADDRESS:8000 origin=$CARRICK_LAB_SERVER_ADDRESS:8080
on() { exec taskset -c "$1" ip netns exec "${@:2}"; }

busy_us() { awk '$1 == "cpu1" { printf "%.0f\n", ($2 + $3 + $4 + $7 + $8) * 10000 }' /proc/stat; }

start() {
    cat >"$folder/carrick.toml" <<TOML
[process]
packet = "$1"
[workers]
count = 1
[limits]
connections_per_client = 0
[log]
access = "$folder/access.log"
[upstream.u]
servers = ["$origin"]
[[listener]]
listen = "$proxy"
mode = "switch"
[[listener.route]]
upstream = "u"
TOML
    on 1 "$CARRICK_LAB_PROXY_NETNS" "$carrick" run -c "$folder/carrick.toml" >"$folder/carrick.log" 2>&1 &
    pid=$!
    until grep -q "is ready" "$folder/carrick.log"; do
        kill -0 "$pid" 2>"$folder/gone" || { cat "$folder/carrick.log"; exit 1; }
        sleep 0.1
    done
    # The programs of the engine are loaded beside the first connections.
    sleep 2
}

on 0 "$CARRICK_LAB_SERVER_NETNS" "$programs/carrick-lab" origin --listen "$origin" >"$folder/origin.log" 2>&1 &
echo "bytes requests/connection: us/request with packet = \"off\", \"auto\""
for bytes in 1024 65536; do
    for requests in 1 2 3 4 6 10; do
        echo -n "$bytes $requests:"
        for ((round = 0; round < rounds; round++)); do
            for packet in off auto; do
                start $packet
                load=(on 0 "$CARRICK_LAB_CLIENT_NETNS" "$programs/carrick-lab" load "http://$proxy/b/$bytes" --clients 16 --requests-per-connection "$requests" --warm-up 0 --json)
                ("${load[@]}" --seconds 1) >"$folder/warm-up"
                before=$(busy_us)
                ("${load[@]}" --seconds "$seconds") >"$folder/load"
                after=$(busy_us)
                awk -v us=$((after - before)) '/"completed"/ { gsub(/[^0-9]/, ""); printf " %.1f", us / $0; exit }' "$folder/load"
                rm -f "$folder/access.log"
                kill "$pid"
                wait "$pid" || true
            done
        done
        echo
    done
done
