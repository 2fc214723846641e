// Plays recorded arrivals through lab.js under Node, with a clock of its own, and
// prints the summary that handleSummary returns. k6's modules are stood in for by
// what the script uses of them.
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [dir, script] = process.argv.slice(2);
const load = JSON.parse(fs.readFileSync(path.join(dir, 'load.json')));
const K = globalThis.K = { now: 0, metrics: {}, scenario: null, vu: { tags: {} }, answer: null };
globalThis.__ENV = { LAB_PARAMS: path.join(dir, 'params.json') };
globalThis.open = (file) => fs.readFileSync(file, 'utf8');
Date.now = () => Math.floor(K.now);

const user = await import(pathToFileURL(path.join(dir, script)).href);
const wanted = Object.keys(user.options.thresholds);
K.add = (name, type, value, tags) => {
  for (const key of [name, ...wanted.filter((k) => k.startsWith(name + '{'))]) {
    const filter = key.slice(name.length + 1, -1);
    const matches = key === name || filter.split(',').every((pair) => {
      const [tag, want] = pair.split(/:(.*)/s);
      return String(tags[tag]) === want;
    });
    if (matches) (K.metrics[key] ||= { type, all: [] }).all.push(value);
  }
};

for (const a of load.arrivals) {
  const name = `step${a.step}`;
  if (a.dropped) {
    K.add('dropped_iterations', 'counter', 1, { scenario: name });
    continue;
  }
  K.scenario = { name, startTime: Math.round(load.begins[a.step]) };
  K.vu.metrics = { tags: {} };
  K.now = a.begin;
  K.answer = { end: a.begin + a.ms, response: { status: a.status, error_code: a.code, timings: { duration: a.ms } } };
  user.default();
}
const data = { metrics: {} };
const at = (sorted, p) => sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))] ?? 0;
for (const key of [...wanted, ...Object.keys(K.metrics)]) {
  const m = K.metrics[key] || { type: 'counter', all: [] };
  const sum = m.all.reduce((a, b) => a + b, 0), sorted = [...m.all].sort((a, b) => a - b);
  data.metrics[key] = { type: m.type, values: m.type === 'trend'
    ? { count: m.all.length, avg: sum / (m.all.length || 1), 'p(50)': at(sorted, 0.5), 'p(95)': at(sorted, 0.95), 'p(99)': at(sorted, 0.99) }
    : { count: sum, value: m.all.at(-1) ?? 0 } };
}
data.metrics.vus = { type: 'gauge', values: { max: load.vus } };
const [[file, text]] = Object.entries(user.handleSummary(data));
fs.writeFileSync(file, text);
console.log(JSON.stringify(user.options));
