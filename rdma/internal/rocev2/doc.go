// Package rocev2 is the codec of RoCEv2 datagrams of Unreliable Datagram queue pairs (IBTA volume 1, chapter 9 and
// annex A17), over IPv4 and IPv6. It is pure: no socket, no clock, and nothing is allocated.
//
// The package is internal because only providers handle the bytes: users of package rdma see queue pairs.
//
// # The datagram
//
//	 0               1               2               3
//	 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7
//	+-------------------------------------------------------------+
//	| Ethernet header: to a group 01:00:5e + 23 bits, 33:33 + 32   |
//	| IPv4 header without options (20)  or  IPv6 header (40)       |
//	| UDP header (8): destination port 4791                        |
//	+---------------+-+-+---+-------+-------------------------------+  --+
//	|    opcode     |S|M|pad| TVer=0|             P_Key             |    |
//	+---------------+-+-+---+-------+-------------------------------+    |
//	| F B  reserved |              destination QPN                  |  BTH
//	+-+-------------+-----------------------------------------------+    |
//	|A|  reserved   |                     PSN                       |    |
//	+-+-------------+-----------------------------------------------+  --+
//	|                            Q_Key                              |    |
//	+---------------+-----------------------------------------------+ DETH
//	|   reserved    |                 source QPN                    |    |
//	+---------------+-----------------------------------------------+  --+
//	|             immediate data, with opcode 0x65 only             |
//	+---------------------------------------------------------------+
//	|   payload, and up to 3 zero bytes that make it a multiple     |
//	|   of 4 (pad says how many)                                    |
//	+---------------------------------------------------------------+
//	|      ICRC, the least significant byte first                   |
//	+---------------------------------------------------------------+
//
// Opcode is 0x64 (UD SEND only) or 0x65 (with immediate). S asks for a solicited completion, M is the migration state,
// which receivers of UD ignore, F and B are congestion marks. All fields but the ICRC are big-endian. Groups are sent
// to QPN 0xffffff. The PSN counts the datagrams of the sending queue pair; receivers of UD do not look at it.
//
// # The ICRC
//
// The invariant CRC is the CRC-32 of Ethernet and zlib over all that does not change on the way (IBTA
// 7.8.1, A17.3.3):
//
//	8 bytes ff ‖ IP header ‖ UDP header ‖ BTH … pad
//
// with these set to ones: of IPv4 the type of service, the time to live and the header checksum; of
// IPv6 traffic class, flow label and hop limit; the UDP checksum; byte 4 of the BTH. All else counts,
// the IPv4 identification and the flags too, which a UDP socket does not report: see Recover.
//
// A CRC goes from left to right, so the part before the BTH is a start value (Path.Prefix), which a
// train of packets shares but for the identification, and that is one exclusive-or (WithID).
package rocev2
