// Module of the benchmark of load generators, so that what it compares the
// built-in engine with is no dependency of the product.
module lab/tools/bench

go 1.26.6

require (
	github.com/tsenart/vegeta/v12 v12.13.0
	lab v0.0.0
)

require (
	github.com/HdrHistogram/hdrhistogram-go v1.1.2 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	github.com/josharian/intern v1.0.0 // indirect
	github.com/mailru/easyjson v0.7.7 // indirect
	github.com/rs/dnscache v0.0.0-20230804202142-fc85eb664529 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)

replace lab => ../..
