package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

func version() string {
	v := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	return fmt.Sprintf("fanfare %s %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

const rootHelp = `Fanfare is reliable multicast publish/subscribe: no broker, one datagram for
all subscribers, losses repaired.

Usage: fanfare COMMAND [flags] [arguments]

  pub      publish lines, ITCH records or a file on a topic
  sub      subscribe to topics and write what comes
  ping     measure the round trip to another process
  bench    measure throughput, latency and more, beside baselines
  doctor   say whether this host is fit, and what to do where it is not
  mckey    join an RDMA multicast group, and send or receive: test an RDMA fabric
  demo     show pub/sub over a simulated RDMA subnet that loses datagrams
  help     show help: fanfare help COMMAND
  version  show the version

Try it, in two terminals of one machine:

  fanfare sub -t 'udp://?iface=lo' greetings
  echo hello, world | fanfare pub -t 'udp://?iface=lo' -wait 1 greetings

` + exitHelp

const exitHelp = `Exit codes:
  0         all went well
  1         something was lost, is incomplete or failed: standard error says what
  2         wrong usage or input: one line on standard error, and nothing sent
  129, 130, 143  ended by a hang-up, an interrupt or a termination signal
`

const urlHelp = `  -t URL          the fabric; both sides name the same. Default udp://, which is
                  udp://239.20.0.0/16 on the interface with the route to it, and
                  on loopback where there is none. udp://239.20.0.0/16?iface=eth0
                  picks an interface, udp://[ff15::20:0]/112?iface=eth0 is IPv6;
                  other options are port=7400, groups=16, ttl=1, size=1472.
                  rdma://mlx5_0 is an RDMA adapter, in programs built with tag
                  rdma; roce://eth0 is RoCEv2 in user space.
                  sim:// and mem:// live in one process: see fanfare demo
`

const commonHelp = `  -faults LIST    spoil what is received here, data and control, for tests:
                  loss=0.05,dup=0.02,reorder=0.05,burst=8,delay=1ms,jitter=1ms,seed=7
                  with reorder=P a share P of the packets is overtaken by up to 16
                  places, with burst=N losses come in runs of N on average
  -metrics ADDR   serve Prometheus metrics over HTTP at ADDR, such as localhost:9464
  -json           results as JSON on standard output
  -q              no progress, warnings or summary on standard error
  -v              log what the bus does on standard error
`

const pubHelp = `Publish messages on a topic.

Usage: fanfare pub [flags] TOPIC

Messages come from standard input as they are read, or from a file that is
checked to its end before the first one is sent.

Flags:
` + urlHelp + `  -file F         read F instead of standard input
  -framing WORD   how messages lie in the input:
                  lines (default): each line, without its newline, is a message;
                  a last line without a newline is sent with "\n\x04" at its end,
                  so that sub can leave out the newline too
                  itch: before each message its length as a 2-byte big-endian
                  number (Nasdaq BinaryFILE)
                  whole: the input is one message, up to 16 MiB
  -repeat N       publish the file N times
  -rate N         at most N messages a second
  -wait N         wait for N subscribers of the topic before the first message,
                  and at the end for as long as they need to get everything
  -flow min|none  min (default): never outrun the slowest subscriber present;
                  none: wait for nobody (set -rate too)
  -linger D       wait D (such as 500ms, 5s) at the end for subscribers to get
                  everything. Default 5s; with -wait there is no limit
  -stall-limit D  go on without a subscriber that is there and lets no packet
                  through for D: it is let go, told so, and has a gap. Default 30s;
                  0 waits for ever
  -name NAME      the publisher's name, its identity across restarts. Two at the
                  same time are both heard, and told of after 5 s
` + commonHelp + `
Examples:
  fanfare pub -wait 2 news < headlines.txt
  fanfare pub -file day.itch -framing itch -rate 50000 -wait 1 md.xnas
  fanfare pub -file page.html -framing whole pages.front

` + exitHelp + mismatchHelp + `With -wait it is 1 when a subscriber vanished, or was let go, without having
everything; one that takes its leave is not waited for. Who holds pub up is named
on standard error as it happens, and with -json in objects of {"type":"stall"}. A
fault in standard input makes it 2, after what came before it was published.
`

const subHelp = `Subscribe to topics and write the messages.

Usage: fanfare sub [flags] TOPIC...

It ends when COUNT messages came, or when all publishers of its topics have ended
or were lost; of several topics each must have had a message. Without -n, -idle
and -until it waits for that as long as it takes.

Of several topics each line on standard output begins with the topic and a tab.

Flags:
` + urlHelp + `  -o F            write messages to F instead of standard output
  -framing WORD   how to write messages:
                  lines (default): each with a newline; itch: each with its length
                  before it (2 bytes, big-endian); whole: one after the other
  -n COUNT        end after COUNT messages
  -idle D         end when no message came for D (such as 500ms, 5s)
  -until D        end when D has passed since the start (such as 30s, 5m)
  -stay           stay when publishers end or are lost: others may come
` + commonHelp + `
With -json each message is an object {"type":"message","topic":...,"number":...,
"publisher":...,"data":...} ("data_base64" instead of "data" if it is not UTF-8),
unless -o takes the messages; gaps ("type":"gap") and publishers coming and going
("type":"publisher") stand between them, as does that publishers wait for this
sub ("type":"stall"); the last object is the summary.

Examples:
  fanfare sub news
  fanfare sub -o copy.itch -framing itch md.xnas
  fanfare sub -json -idle 10s md.xnas.AAPL md.xnas.MSFT
  fanfare sub -until 1m news sports

` + exitHelp + mismatchHelp + `It is 0 when COUNT messages came, when the publishers ended and everything was
delivered, when -until ended it (with -n: after COUNT), or when -idle did after at
least one message (with -n: after COUNT). It is 1 when messages were lost for
good, each gap with a line of its own, when a publisher was lost before its end,
when one is not heard, or when one has another topic with the same id.
`

const pingHelp = `Measure the round trip to another process, there and back through the bus.

Usage: fanfare ping -listen [flags] [NAME]    answer pings
       fanfare ping [flags] [NAME]            send pings

Pings go out on topic ping.NAME and come back on pong.NAME; NAME is "default"
unless given. Each process that listens answers.

Flags:
` + urlHelp + `  -listen         answer pings until interrupted
  -count N        send N pings. Default 0: until interrupted
  -interval D     time from one ping to the next. Default 1s; 0: send the next when
                  the last is answered. Below 10ms only the summary is written
  -size B         bytes in a ping. Default 56
  -timeout D      how long to wait for an answer. Default 5s
` + commonHelp + `
Examples:
  fanfare ping -listen
  fanfare ping -count 10
  fanfare ping -count 100000 -interval 0 -size 1024

` + exitHelp + mismatchHelp + `An interrupt is the normal end of -listen and of pings without -count: 0.
`
