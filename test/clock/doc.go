// Package clock runs tests of other packages with a clock that is set back and forward by an hour
// all the time: the one of their process, not that of the host.
package clock
