import http from 'k6/http';
import { params } from './lab.js';
export { options, handleSummary } from './lab.js';

export default () => http.get(`${params.target}/work?ms=5`);
