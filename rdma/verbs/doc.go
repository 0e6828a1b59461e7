// Package verbs is the provider of package rdma on rdma-core: real InfiniBand and RoCE adapters, and
// the kernel's Soft-RoCE (rdma_rxe), through libibverbs and librdmacm.
//
// It needs cgo and is built with the tag rdma:
//
//	apt install libibverbs-dev librdmacm-dev
//	go build -tags rdma ./...
//
// Without the tag the package has only Open, which returns ErrNotBuilt.
//
// # C and Go
//
// The calls are rdma-core's, and so are their error numbers. Events of the connection manager, notifications and
// asynchronous events are acknowledged in C as soon as they are read, so that no C call ever waits for an
// acknowledgement. Leaving and destroying wait for Ack, as package rdma promises, by counters in Go.
//
// Waiting blocks no thread: the file descriptors of event channels, completion channels and devices are
// non-blocking, and a goroutine each waits for them on Go's netpoller until the channel or device is
// closed. Only CreateAH on RoCE may block, which asks the network for a host's MAC address:
// PD.BeginCreateAH (rdma.AHBeginner) does it in a goroutine of the device.
//
// Post and Poll cross to C once for up to 64 work requests; these lie in C memory. A receive or send
// buffer is given to C as an address: it must lie in registered memory outside the Go heap, as
// PD.RegisterMemory says, except for inline sends, which are copied.
package verbs

import "errors"

// ErrNotBuilt is returned by Open of a program that was built without the tag rdma, without cgo, or not for Linux.
var ErrNotBuilt = errors.New("rdma/verbs: this program was built without RDMA hardware: " +
	"apt install libibverbs-dev librdmacm-dev; go build -tags rdma (on Linux, with cgo)")
