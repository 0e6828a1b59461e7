// Package cverbs is the binding to rdma-core: libibverbs and librdmacm. It is the only package of the
// module that uses cgo, and it is empty unless built with the tag rdma, on Linux, with cgo.
//
// It adds nothing to the C calls: no locks, no lifetimes, no checks. It only decides how data crosses.
// No Go pointer ever reaches C: only numbers, structs by value, and arrays in C memory cross. Work
// requests and completions are such arrays, mapped here as Go structs of the same layout (the compiler
// checks that it is the same): Go fills or reads them, and one call posts or polls all. Contexts are
// numbers too, never Go values. Errors are errnos, taken in C on the thread that failed.
package cverbs
