//go:build rdma && linux && cgo

package cverbs

// #include "cverbs.h"
import "C"

import "unsafe"

// The Go structs for C's arrays must have C's layout: a difference makes a negative constant, which does not compile as
// uint.
const (
	_ = -uint(unsafe.Sizeof(SGE{}) ^ C.sizeof_struct_ibv_sge)
	_ = -uint(unsafe.Offsetof(SGE{}.Addr) ^ unsafe.Offsetof(C.struct_ibv_sge{}.addr))
	_ = -uint(unsafe.Offsetof(SGE{}.Length) ^ unsafe.Offsetof(C.struct_ibv_sge{}.length))
	_ = -uint(unsafe.Offsetof(SGE{}.LKey) ^ unsafe.Offsetof(C.struct_ibv_sge{}.lkey))

	_ = -uint(unsafe.Sizeof(RecvWR{}) ^ C.sizeof_struct_ibv_recv_wr)
	_ = -uint(unsafe.Offsetof(RecvWR{}.WRID) ^ unsafe.Offsetof(C.struct_ibv_recv_wr{}.wr_id))
	_ = -uint(unsafe.Offsetof(RecvWR{}.next) ^ unsafe.Offsetof(C.struct_ibv_recv_wr{}.next))
	_ = -uint(unsafe.Offsetof(RecvWR{}.sgList) ^ unsafe.Offsetof(C.struct_ibv_recv_wr{}.sg_list))
	_ = -uint(unsafe.Offsetof(RecvWR{}.NumSGE) ^ unsafe.Offsetof(C.struct_ibv_recv_wr{}.num_sge))

	_ = -uint(unsafe.Sizeof(SendWR{}) ^ C.sizeof_struct_ibv_send_wr)
	_ = -uint(unsafe.Offsetof(SendWR{}.WRID) ^ unsafe.Offsetof(C.struct_ibv_send_wr{}.wr_id))
	_ = -uint(unsafe.Offsetof(SendWR{}.next) ^ unsafe.Offsetof(C.struct_ibv_send_wr{}.next))
	_ = -uint(unsafe.Offsetof(SendWR{}.sgList) ^ unsafe.Offsetof(C.struct_ibv_send_wr{}.sg_list))
	_ = -uint(unsafe.Offsetof(SendWR{}.NumSGE) ^ unsafe.Offsetof(C.struct_ibv_send_wr{}.num_sge))
	_ = -uint(unsafe.Offsetof(SendWR{}.Opcode) ^ unsafe.Offsetof(C.struct_ibv_send_wr{}.opcode))
	_ = -uint(unsafe.Offsetof(SendWR{}.Flags) ^ unsafe.Offsetof(C.struct_ibv_send_wr{}.send_flags))
	_ = -uint(unsafe.Offsetof(SendWR{}.Imm) ^ unsafe.Offsetof(C.struct_ibv_send_wr{}.anon0))
	// wr.ud: ah, remote_qpn, remote_qkey
	_ = -uint(unsafe.Offsetof(SendWR{}.ah) ^ unsafe.Offsetof(C.struct_ibv_send_wr{}.wr))

	_ = -uint(unsafe.Sizeof(WC{}) ^ C.sizeof_struct_ibv_wc)
	_ = -uint(unsafe.Offsetof(WC{}.WRID) ^ unsafe.Offsetof(C.struct_ibv_wc{}.wr_id))
	_ = -uint(unsafe.Offsetof(WC{}.Status) ^ unsafe.Offsetof(C.struct_ibv_wc{}.status))
	_ = -uint(unsafe.Offsetof(WC{}.Opcode) ^ unsafe.Offsetof(C.struct_ibv_wc{}.opcode))
	_ = -uint(unsafe.Offsetof(WC{}.VendorErr) ^ unsafe.Offsetof(C.struct_ibv_wc{}.vendor_err))
	_ = -uint(unsafe.Offsetof(WC{}.ByteLen) ^ unsafe.Offsetof(C.struct_ibv_wc{}.byte_len))
	_ = -uint(unsafe.Offsetof(WC{}.Imm) ^ unsafe.Offsetof(C.struct_ibv_wc{}.anon0))
	_ = -uint(unsafe.Offsetof(WC{}.QPN) ^ unsafe.Offsetof(C.struct_ibv_wc{}.qp_num))
	_ = -uint(unsafe.Offsetof(WC{}.SrcQPN) ^ unsafe.Offsetof(C.struct_ibv_wc{}.src_qp))
	_ = -uint(unsafe.Offsetof(WC{}.Flags) ^ unsafe.Offsetof(C.struct_ibv_wc{}.wc_flags))
	_ = -uint(unsafe.Offsetof(WC{}.PKeyIndex) ^ unsafe.Offsetof(C.struct_ibv_wc{}.pkey_index))
	_ = -uint(unsafe.Offsetof(WC{}.SLID) ^ unsafe.Offsetof(C.struct_ibv_wc{}.slid))
	_ = -uint(unsafe.Offsetof(WC{}.SL) ^ unsafe.Offsetof(C.struct_ibv_wc{}.sl))
	_ = -uint(unsafe.Offsetof(WC{}.DLIDBits) ^ unsafe.Offsetof(C.struct_ibv_wc{}.dlid_path_bits))
)
