-- What wrk measured, as one line of JSON: its own summary has no p95.
function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    'wrk.lua {"answered":%d,"failed":%d,"p50Ms":%.3f,"p95Ms":%.3f,"p99Ms":%.3f}\n',
    summary.requests - e.status, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50) / 1000, latency:percentile(95) / 1000, latency:percentile(99) / 1000))
end
