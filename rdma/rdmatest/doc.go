// Package rdmatest is the conformance suite for providers of package rdma: 125 numbered statements about the behavior
// of librdmacm, the kernel and UD verbs, with their sources. Each is a subtest with its number as the name.
//
// A provider's test calls Run with a Target: the tags that apply to it, a function that makes a network of hosts, and
// the statements that it does not meet, with the reasons. No statement is skipped silently: each is passed, failed, not
// applicable or not met, and Run logs the reasons and a table.
//
// The suite makes no assumptions about time: it calls Net.Settle, which runs a simulation until no events remain, or
// otherwise waits briefly, and then checks again, up to a limit of attempts.
package rdmatest
