// Package cverbs is the binding to rdma-core: libibverbs and librdmacm. It is the only package of the
// module that uses cgo, and it is empty unless built with the tag rdma, on Linux, with cgo.
//
// It adds no locks, lifetimes or checks to the C calls, and only converts data. No Go pointer is passed to C: only
// numbers, structs by value, and arrays in C memory. Work requests and completions are such arrays, accessed as Go
// structs with the same layout (which the compiler checks): Go fills or reads them, and one call posts or polls all.
// Contexts are numbers, too, never Go values. Errors are errnos, read in C on the thread of the failed call.
package cverbs
