-- One fixed request (built once by wrk.init, so that Lua costs nothing per request), or numbered ones, and a result that a program can read.
wrk.path = "{{request_target}}"
wrk.headers["Host"] = "{{host}}"
{{close}}
{{numbered}}

function done(summary, latency, requests)
  io.write(string.format(
    'RESULT {"duration_us":%d,"requests":%d,"bytes":%d,' ..
    '"errors":{"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d},' ..
    '"latency_us":{"p50":%d,"p90":%d,"p99":%d,"max":%d}}\n',
    summary.duration, summary.requests, summary.bytes,
    summary.errors.connect, summary.errors.read, summary.errors.write, summary.errors.timeout, summary.errors.status,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency.max))
end
