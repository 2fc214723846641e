import http from 'k6/http';
import { measured, params } from './lab.js';
export { options, handleSummary } from './lab.js';

export default measured(() => http.get(`${params.target}/work?ms=5`, { timeout: params.timeoutMs }));
