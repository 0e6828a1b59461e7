// Package rocev2 encodes and decodes RoCEv2 datagrams of Unreliable Datagram (UD) queue pairs (IBTA volume 1, chapter 9
// and annex A17), over IPv4 and IPv6. It uses no sockets and no clock, and does not allocate.
//
// The package is internal because only providers handle datagrams: users of package rdma use queue pairs.
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
//	|   of 4 (pad is their number)                                  |
//	+---------------------------------------------------------------+
//	|      ICRC, the least significant byte first                   |
//	+---------------------------------------------------------------+
//
// Opcode is 0x64 (UD SEND only) or 0x65 (with immediate data). S requests a solicited completion, M is the migration
// state, which receivers of UD ignore, F and B are congestion marks. All fields except the ICRC are big-endian. The
// destination QPN for groups is 0xffffff. The PSN counts the datagrams of the sending queue pair; receivers of UD
// ignore it.
//
// # The ICRC
//
// The invariant CRC is the CRC-32 of Ethernet and zlib over everything that does not change in transit (IBTA 7.8.1,
// A17.3.3):
//
//	8 bytes ff ‖ IP header ‖ UDP header ‖ BTH … pad
//
// with these fields set to ones: of IPv4 the type of service, the time to live and the header checksum; of IPv6 traffic
// class, flow label and hop limit; the UDP checksum; byte 4 of the BTH. Everything else is covered, including the IPv4
// identification and flags, which a UDP socket does not report: see Recover.
//
// A CRC is computed from left to right, so the part before the BTH determines a start value (Path.Prefix). It is the
// same for all packets of a train except for the identification, which needs one exclusive-or (WithID).
package rocev2
