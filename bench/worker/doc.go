// Package worker runs one side of a measurement: a publisher or a subscriber, usually in a separate process.
//
// The measuring program executes itself with a hidden subcommand, which calls Main. It reads one line of JSON
// (Spec) from standard input, and writes its results as lines of JSON to standard output. A worker ends when
// its standard input ends, so it never outlives the program that started it.
//
// A Contender is measured: Fanfare, or a program that it is compared with. All are metered, stamped and
// checked by the same code (Run, Source, Check).
package worker
