// What a script gives to lab: the load's options, the measuring of each arrival
// and the summary. A script of your own re-exports `options` and `handleSummary`
// and wraps its default function in `measured`.
import exec from 'k6/execution';
import { Counter, Gauge, Trend } from 'k6/metrics';

// params: target, endpoints, timeoutMs, keepAlive, maxInFlight, summary (the file
// to write) and steps, each with name, rate, tag, startSeconds, seconds,
// discardSeconds and blockSeconds. They come as a file: nothing is pasted into code.
export const params = JSON.parse(open(__ENV.LAB_PARAMS));

const began = new Gauge('lab_began_ms');         // when the step's first arrival was due, Unix time
const started = new Counter('lab_started');      // arrivals that began inside the window
const completed = new Counter('lab_completed');  // good responses that ended inside it
const failed = new Counter('lab_failed');        // the others, by kind
const busy = new Counter('lab_busy_ms');         // time in flight inside the window
const latency = new Trend('lab_latency', true);  // of completed, from the arrival's start

const kinds = ['dns', 'dial', 'tls', 'timeout', 'reset', 'protocol', 'status-4xx', 'status-5xx', 'none'];
const byName = {};
for (const step of params.steps) byName[step.name] = step;

// A threshold without a condition makes k6 keep the sub-metric of these tags.
function thresholds() {
  const all = {};
  for (const step of params.steps) {
    const at = `{rate:${step.tag}}`;
    for (const name of ['lab_began_ms', 'lab_started', 'lab_completed', 'lab_failed', 'lab_busy_ms', 'lab_latency', 'http_req_duration', 'http_req_failed', 'http_reqs']) {
      all[name + at] = [];
    }
    for (const kind of kinds) all[`lab_failed{rate:${step.tag},kind:${kind}}`] = [];
    for (let b = 0; b < step.blocks; b++) all[`lab_completed{rate:${step.tag},block:${b}}`] = [];
    all[`dropped_iterations{scenario:${step.name}}`] = [];
  }
  return all;
}

// k6 counts whole requests for each time unit: 12.5 a second are 12500 in 1000.
function scenario(step) {
  const whole = Number.isInteger(step.rate);
  const rate = whole ? step.rate : Math.round(step.rate * 1000);
  return {
    executor: 'ramping-arrival-rate',
    startTime: `${step.startSeconds}s`,
    startRate: rate,
    timeUnit: whole ? '1s' : '1000s',
    stages: [{ target: rate, duration: `${Math.round(step.seconds * 1000)}ms` }],
    preAllocatedVUs: params.maxInFlight, // k6 starts the missing ones one at a time, too slowly
    maxVUs: params.maxInFlight,
    gracefulStop: `${Math.ceil(params.timeoutMs) + 1000}ms`, // all that began may end
  };
}

export const options = {
  scenarios: Object.fromEntries(params.steps.map((step) => [step.name, scenario(step)])),
  thresholds: thresholds(),
  summaryTrendStats: ['avg', 'min', 'med', 'max', 'p(50)', 'p(95)', 'p(99)', 'count'],
  discardResponseBodies: true,
  noConnectionReuse: !params.keepAlive,
};

// failure is the kind of what went wrong with a response, '' when nothing did.
function failure(response) {
  if (!response) return 'none'; // the script made no request, or threw
  const code = response.error_code || 0;
  if (code === 1050) return 'timeout';
  if (code >= 1100 && code < 1200) return 'dns';
  if (code === 1220) return 'reset';
  if (code >= 1200 && code < 1300) return 'dial';
  if (code >= 1300 && code < 1400) return 'tls';
  if (response.status >= 500) return 'status-5xx';
  if (response.status >= 400) return 'status-4xx';
  return code || response.status < 200 ? 'protocol' : '';
}

// window is a step's window in Unix time, from where the arrival's own step began.
function window(step, own, first) {
  const at = first + (step.startSeconds - own.startSeconds) * 1000;
  return { from: at + step.discardSeconds * 1000, until: at + step.seconds * 1000 };
}

// count credits a response to the step in whose window it ended.
function count(step, from, begin, end, response) {
  const kind = failure(response);
  if (kind) {
    failed.add(1, { rate: step.tag, kind });
    return;
  }
  const block = step.blocks ? String(Math.floor((end - from) / (step.blockSeconds * 1000))) : 'none';
  completed.add(1, { rate: step.tag, block });
  // The clock has whole milliseconds, k6's own timing is finer and a part of it.
  latency.add(Math.max(end - begin, response.timings.duration), { rate: step.tag });
}

// measured wraps the function that makes one arrival's request and returns the
// response. What ends outside every window is credited to no step, and what
// begins in a part that is discarded carries the rate "warm".
export function measured(request) {
  return function arrival() {
    const own = byName[exec.scenario.name];
    const first = exec.scenario.startTime;
    const begin = Date.now();
    const { from, until } = window(own, own, first);
    const inside = begin >= from && begin < until;
    exec.vu.metrics.tags.rate = inside ? own.tag : 'warm';
    began.add(first, { rate: own.tag });
    if (inside) started.add(1, { rate: own.tag });
    let response;
    try {
      response = request();
    } finally {
      const end = Date.now();
      for (const step of params.steps) {
        const w = window(step, own, first);
        const overlap = Math.min(end, w.until) - Math.max(begin, w.from);
        if (overlap > 0) busy.add(overlap, { rate: step.tag });
        if (end >= w.from && end < w.until) count(step, w.from, begin, end, response);
      }
    }
  };
}

// The summary says what its steps were: it can be read without the parameters.
export function handleSummary(data) {
  const lab = { maxInFlight: params.maxInFlight, steps: params.steps };
  return { [params.summary]: JSON.stringify({ ...data, lab }) };
}
