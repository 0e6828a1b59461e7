//go:build rdma && linux && cgo

package verbs

// notMet has the statements that Linux 6.1 with rxe does not meet, with the reasons in the kernel. The exact behavior
// is in kernel_test.go.
var notMet = map[int]string{
	21:  "EADDRNOTAVAIL for an address that no interface has (core/addr.c, rdma_translate_ip); ENODEV only for that of an interface without RDMA",
	22:  "since 5.3 only 0.0.0.0 is zero, and 0.1.2.3 is an address like others (include/linux/in.h, ipv4_is_zeronet)",
	102: "rxe of 6.1 puts a queue pair with a too small buffer into state ERR, with IBV_WC_LOC_QP_OP_ERR (rxe_resp.c, RESPST_ERR_MALFORMED_WQE); since 6.18 it drops the message",
}
