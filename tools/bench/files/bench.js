// k6's side of the comparison: a constant arrival rate, or with RATE=0 as many
// requests as the virtual users get answered.
import http from 'k6/http';

const rate = Number(__ENV.RATE);
const vus = Number(__ENV.CONNECTIONS);
const duration = `${Number(__ENV.SECONDS) * 1000}ms`;

export const options = {
  scenarios: {
    bench: rate > 0
      ? { executor: 'constant-arrival-rate', rate, timeUnit: '1s', duration, preAllocatedVUs: vus, maxVUs: vus }
      : { executor: 'constant-vus', vus, duration },
  },
  discardResponseBodies: true,
  summaryTrendStats: ['p(50)', 'p(95)', 'p(99)'],
};

export default function () {
  http.get(__ENV.TARGET);
}

// handleSummary prints what the other generators print. A counter that never
// counted is absent, not 0.
export function handleSummary(data) {
  const values = (name) => (data.metrics[name] || { values: {} }).values;
  const requests = values('http_reqs').count || 0;
  const failed = values('http_req_failed').passes || 0;
  const ms = values('http_req_duration');
  return {
    stdout: JSON.stringify({
      answered: requests - failed,
      failed,
      dropped: values('dropped_iterations').count || 0,
      p50Ms: ms['p(50)'],
      p95Ms: ms['p(95)'],
      p99Ms: ms['p(99)'],
    }),
  };
}
