// Package verbs is the provider of package rdma for rdma-core: for InfiniBand and RoCE adapters, and the kernel's
// Soft-RoCE (rdma_rxe), through libibverbs and librdmacm.
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
// Calls and error numbers are those of rdma-core. Events of the connection manager, notifications and asynchronous
// events are acknowledged in C as soon as they are read, so that no C call waits for an acknowledgement. As package
// rdma specifies, leaving and destroying wait for Ack, with counters in Go.
//
// Waiting blocks no thread: the file descriptors of event channels, completion channels and devices are non-blocking,
// and for each a goroutine waits with Go's netpoller until the channel or device is closed. Only CreateAH on RoCE may
// block, because it requests a host's MAC address from the network: PD.BeginCreateAH (rdma.AHBeginner) does this in a
// goroutine of the device.
//
// Post and Poll call C once for up to 64 work requests, which are in C memory. The address of a receive or send buffer
// is passed to C: it must be in registered memory outside the Go heap, see PD.RegisterMemory, except for inline sends,
// which are copied.
package verbs

import "errors"

// ErrNotBuilt is returned by Open if the program was built without the tag rdma, without cgo, or not for Linux.
var ErrNotBuilt = errors.New("rdma/verbs: this program was built without support for RDMA hardware: " +
	"apt install libibverbs-dev librdmacm-dev; go build -tags rdma (on Linux, with cgo)")
