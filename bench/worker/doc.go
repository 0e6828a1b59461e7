// Package worker runs one side of a measurement: a publisher or a subscriber, as a rule in a process of its own.
//
// The measuring program executes itself again with a hidden sub-command, which calls Main. It reads one line of JSON
// (Spec) from standard input, and writes its results as lines of JSON to standard output. A worker ends when its
// standard input does, so none outlives the program that started it.
//
// What is measured is a Contender: Fanfare, or what it is compared with. All
// are metered, stamped and checked by the same code (Run, Source, Check).
package worker
