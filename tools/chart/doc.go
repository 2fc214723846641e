// Package chart tests the demo workload's chart: it is rendered by Helm's own
// library, with the values that the product gives it, and what comes out is read
// as Kubernetes reads it.
package chart
