// Package rdmatest is the conformance suite of the providers of package rdma: 125 numbered statements
// of what librdmacm, the kernel and UD verbs do, each a subtest named by its number, with its source.
//
// A provider's test calls Run with a Target: which tags apply to it, how to make a network of hosts on
// it, and which statements it does not meet, with the reason. Nothing is skipped silently: each
// statement ends as passed, failed, not applicable or not met, and Run logs the reasons and a table.
//
// The suite assumes nothing about time: it calls Net.Settle, which runs a simulation until it is quiet,
// and otherwise waits a moment, then checks again, up to a bound of tries.
package rdmatest
