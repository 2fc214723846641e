// The scenario's endpoints, each with the probability of its weight.
import http from 'k6/http';
import { measured, params } from './lab.js';
export { options, handleSummary } from './lab.js';

let total = 0;
const endpoints = params.endpoints.map((endpoint) => {
  total += endpoint.weight;
  return {
    upTo: total,
    method: endpoint.method,
    url: params.target + endpoint.path,
    body: endpoint.body || null,
    settings: {
      headers: endpoint.headers || {},
      timeout: params.timeoutMs,
      redirects: 0,
      tags: { name: endpoint.name },
    },
  };
});

export default measured(() => {
  const x = Math.random() * total;
  const chosen = endpoints.find((endpoint) => x < endpoint.upTo) || endpoints[endpoints.length - 1];
  return http.request(chosen.method, chosen.url, chosen.body, chosen.settings);
});
