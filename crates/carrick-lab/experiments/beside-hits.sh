#!/bin/bash
# Cache hits at a fixed rate beside spliced load, as a client sees them that never waits for a core, and where the time goes:
#   carrick-lab testbed --cores 0,1 --in host -- crates/carrick-lab/experiments/beside-hits.sh ENGINE POLICY [SECONDS]
# ENGINE: pipe, packet, socket; or none: the bulk is routed past the proxy. POLICY: immediate, conservative, proportional, deadline.
# The client of the hits is real-time: otherwise hits wait for the bulk's client and server, which fill its core.
set -eu
engine=$1 policy=$2 seconds=${3:-4}
programs=${PROGRAMS:-target/release}
carrick=${CARRICK:-$programs/carrick} folder=$CARRICK_LAB_DIRECTORY
on() { taskset -c "$1" ip netns exec "${@:2}"; }
in_client() { on 0 "$CARRICK_LAB_CLIENT_NETNS" "$@"; }
ask() { on 0 "$CARRICK_LAB_PROXY_NETNS" curl -s "127.0.0.1:3129/$1"; }
proxy=$CARRICK_LAB_PROXY_ADDRESS:3128 origin=$CARRICK_LAB_SERVER_ADDRESS:8080

cat >"$folder/carrick.toml" <<TOML
[admin]
listen = "127.0.0.1:3129"
[splice]
engine = "${engine/none/pipe}"
[workers]
count = 1
[limits]
connections_per_client = 0
[log]
access = ""
[cache]
[pace]
default = "relayed"
[pace.classes.relayed]
policy = "$policy"
$([ "$policy" != deadline ] || echo 'target = "2ms"')
[[listener]]
listen = "$proxy"
mode = "forward"
allow = ["0.0.0.0/0"]
connect_ports = "all"
TOML
on 0 "$CARRICK_LAB_SERVER_NETNS" "$programs/carrick-lab" origin --listen "$origin" >"$folder/origin.log" 2>&1 &
on 1 "$CARRICK_LAB_PROXY_NETNS" "$carrick" run -c "$folder/carrick.toml" >"$folder/carrick.log" 2>&1 &
until ask health >"$folder/health"; do sleep 0.05; done
pid=$(pgrep -f "run -c $folder/carrick.toml" | head -1)
for task in /proc/"$pid"/task/*; do
    case $(cat "$task/comm") in *worker*) worker=$task ;; *) taskset -p -c 0 "${task##*/}" >"$folder/moved" ;; esac
done

through=(--proxy "$proxy")
[ "$engine" != none ] || through=()
in_client "$programs/carrick-lab" load "http://$origin/b/1048576" "${through[@]}" --clients 32 --warm-up 1 --seconds $((seconds + 1)) >"$folder/bulk" 2>&1 &
bulk=$!
sleep 0.5
in_client chrt -f 2 "$programs/carrick-lab" load "http://$origin/b/16384" --proxy "$proxy" --cacheable 1 --rate 500 --clients 200 \
    --warm-up 1 --seconds "$seconds" >"$folder/hits" 2>&1 &
hits=$!
sleep 1
read -r ran waited _ <"$worker/schedstat"
read -r -a before < <(grep '^cpu1 ' /proc/stat)
for ((step = 0; step < seconds * 4; step++)); do
    sleep 0.25
    ask pace | tr -d ' \n' | grep -o '"hits_p99_us":[0-9]*' | cut -d: -f2 >>"$folder/worker" || true
done
read -r ran_now waited_now _ <"$worker/schedstat"
read -r -a after < <(grep '^cpu1 ' /proc/stat)
wait $hits $bulk

echo "$engine, $policy"
echo "hits, at the client"; cat "$folder/hits"
echo "hits, in the worker: $(sort -n "$folder/worker" | awk '{ all[NR] = $1 } END { print NR ? all[int((NR + 1) / 2)] : "-" }') us (median of the 99th percentiles)"
echo "spliced"; cat "$folder/bulk"
total=0
for field in 1 2 3 4 5 6 7; do total=$((total + after[field] - before[field])); done
echo "the worker ran $(((ran_now - ran) / seconds / 10000000)) % and waited $(((waited_now - waited) / seconds / 10000000)) % of the time for its core," \
    "which packets had for $(((after[7] - before[7]) * 100 / total)) %"
