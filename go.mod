module github.com/fanfaremq/fanfare

go 1.25.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.2.0
	github.com/klauspost/compress v1.18.1
	golang.org/x/net v0.47.0
	golang.org/x/sys v0.38.0
	golang.org/x/term v0.37.0
)
