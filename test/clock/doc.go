// Package clock runs tests of other packages with a clock that is repeatedly set back or forward by
// an hour: the clock of the test process, not that of the host.
package clock
