package cli

const benchHelp = `Measure Fanfare on this machine, beside baselines in the same run.

Usage: fanfare bench [flags] SCENARIO

Scenarios:
  throughput   messages a second
  latency      how late messages are at a steady rate: open loop, counted from
               when each was due
  sizes        throughput by message size, 32 bytes to 64 KiB, at three datagram
               sizes, or at that of -mtu
  fanout       throughput by subscribers, 1 to 16, processes and goroutines
  loss         throughput with 0 to 30 % of the packets lost
  burst        how late messages are that come in bursts
  idle         what a bus costs that has nothing to do
  all          all of these, with fewer and shorter runs in the sweeps
  aims         what Fanfare aims at (docs/performance.md): PASS or MISSED, each beside
               what a baseline did meanwhile. Nine minutes; MISSED is exit code 1

Publisher and subscribers are processes of their own (mem and sim: goroutines of
one). Contenders take turns. Rates are those of the slowest subscriber, of payload;
ratios are medians over neighbouring runs. Each run checks order and content. What is
interrupted or fails tells what it has measured, and why that is not all (with -json
as "incomplete"). A flag that would change nothing in the scenario is refused.

Flags:
  -transport WORD udp (default), mem, roce, sim
  -iface NAME     the interface. Default: loopback. Traffic is heavy: name another
                  one only where you may fill it
  -t URL          the fabric, in place of the two above
  -mtu N          bytes in a datagram: 1472 (default; mem: 8K), 8K, 64K (65507), …;
                  roce and sim: up to 4096
  -size N         bytes in a message. Default 64
  -subs N         subscribers. Default 1
  -together       subscribers are goroutines of one process
  -topics N       topics that the publisher goes through, with a Publisher each.
                  Default 1. Order and count of each topic's messages are checked.
                  Beside it, as "one", one publisher on one topic, as beside all
                  flags down to -extra-subscriptions, which are of throughput and
                  latency
  -order WORD     how it goes through them: round (default): one message on each in
                  turn; zipf: drawn, few topics have most; bursts: runs of 10 to 100
                  messages on one topic
  -split          each subscriber takes its share of the topics: with -subs 4 a
                  quarter. Its rate counts for all messages
  -goroutines N   that publish, sharing the bus and its publishers. Default 1
  -pubs N         buses that publish, in one process. Default 1
  -slow N         of them, that publish 1000 messages a second only. Default 0
  -extra-subscriptions N
                  subscriptions to other topics on each subscriber's bus; the "one"
                  beside it has ten. Default 0
  -loss P         share of packets lost at each subscriber of Fanfare's: 0.01 is 1 %.
                  Beside it the same without loss. Baselines, which repair nothing,
                  lose none
  -seed N         of the losses, and of -order zipf and bursts. Default 1
  -runs N         runs of each contender. Default 5
  -seconds S      length of a run. Default 2
  -baseline LIST  what to compare with. raw: trains of datagrams sent and parsed
                  through GSO and GRO, unreliable: what the machine can do;
                  naive: net.UDPConn, a datagram a message; channel: a buffered Go
                  channel (mem, sim); udp: Fanfare over plain UDP, beside another
                  transport; none; auto (default): what suits the scenario, of raw,
                  naive (up to 65507 bytes a message) and channel. They have one
                  topic and one publisher: of -topics and the like only udp knows
  -target SHARE   say PASS or MISSED: whether throughput reaches SHARE, such as 0.6,
                  of each baseline's, or of "one" (-topics), by the median ratio of
                  neighbouring runs. MISSED is exit code 1
  -publisher WORD exclusive or shared. Default: exclusive, and in throughput and all
                  shared beside it; with -topics and the like shared
  -receive WORD   handle (default): the bus calls; next, batch: a goroutine reads
  -wait WORD      how subscribers wait: adaptive (default), park or spin. The raw
                  baseline sleeps in the kernel, or spins with spin
  -pace WORD      how the publisher waits for the next message to be due: spin
                  (default), which takes a core and locks its
                  thread, or park, which oversleeps by 50 µs
  -rate N         messages a second of latency. Default 50000
  -burst N        messages in a burst. Default 1000
  -every D        from burst to burst. Default 10ms
  -rcvbuf BYTES   receive buffer of all contenders. Default 8M
  -sndbuf BYTES   send buffer of all contenders. Default 2M
  -check WORD     sample (default): number and end of every message, every byte of
                  one in 64; all: every byte
  -metrics ADDR   measure once more with metrics served, and read each second, at
                  ports of their own: localhost:0
  -cpuprofile DIR write a CPU profile of each process to DIR, for go tool pprof
  -json           the result as one JSON object on standard output
  -html F         write a report with plots to F
  -q              no progress on standard error

Examples:
  fanfare bench throughput
  fanfare bench throughput -topics 1000 -target 0.7
  fanfare bench throughput -topics 1000 -order zipf
  fanfare bench throughput -topics 1000 -subs 4 -split
  fanfare bench throughput -pubs 32 -slow 1
  fanfare bench latency -topics 1000 -rate 50000
  fanfare bench latency -rate 50000 -loss 0.01 -baseline raw -json
  fanfare bench all -html report.html

` + exitHelp + `It is 1 too when a message came twice, out of order, with wrong content, or not at
all without word of it.
`
