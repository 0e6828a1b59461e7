package cli

import "time"

func doctorCommand() command {
	return command{
		name:    "doctor",
		summary: "say whether this host is fit, and what to do where it is not",
		usage:   []string{"fanfare doctor [flags]", "fanfare doctor -listen [flags]", "fanfare doctor -peer ADDRESS [flags]"},
		about: `It looks at RDMA devices and ports, locked memory, interfaces, routes, IGMP,
filters, socket buffers and shared memory (/dev/shm, and dir= of buses that run),
asks the buses that run whether their groups are open, and tests each transport on
loopback. Each line is a finding: ok, info (good to know), warn or fail, with a
command that mends it.

With -listen on one host and -peer on another it tests the network between them:
whether multicast passes, each way, and goes on; loss, copies, reordering, the
largest packet, GSO and GRO, IGMP queriers, round trip and clocks.
`,
		notes: `Both sides of -listen and -peer send some thousand packets of up to the MTU to each
other and to the group, 2 MiB/s at most. -listen answers whoever asks. To hear IGMP
queries takes root (CAP_NET_RAW); all else takes no privilege. Linux, and IPv4, only.

With -json and -peer what was measured is an object {"type":"network",...} before
the findings; -listen writes {"type":"listening",...}, and {"type":"asked",...}
for each test.
`,
		examples: []string{
			"fanfare doctor",
			"fanfare doctor -iface eth0",
			"fanfare doctor -listen -iface eth0",
			"fanfare doctor -peer 10.0.0.2",
			"fanfare doctor -peer 10.0.0.2 -for 270s",
			`fanfare doctor -json | jq 'select(.level == "fail")'`,
		},
		exits: []word{{"3", "fit, with warnings"}},
		exitNotes: `It is 0 when nothing was warned of, and 1 when something failed.
`,
		flags: flagsOf(func() *doctorRun { return new(doctorRun) }),
	}
}

func (d *doctorRun) register(fs *flagSet) {
	stringVar(fs, &d.iface, "iface", "", "test on the network interface or RDMA device `NAME` too; its address will do. Some 100 packets "+
		"go out to multicast groups on its network. Without it: on loopback only, and no test of rdma://. With -listen the default is that of udp://, with -peer that of the route to it")
	boolVar(fs, &d.noTests, "notest", "no tests: only look")
	durationVar(fs, &d.timeout, "timeout", 5*time.Second, "how long a test may take")
	d.peer.register(fs)
	boolVar(fs, &d.json, "json", "findings as JSON objects on standard output, the last a summary")
	boolVar(fs, &d.quiet, "q", "only warnings and failures on standard output")
}

func (d *doctorRun) check(fs *flagSet, operands []string) error {
	switch {
	case len(operands) > 0:
		return usagef("doctor takes no arguments: %q is too many", operands[0])
	case d.timeout <= 0:
		return usagef("-timeout %v must be more than 0", d.timeout)
	case fs.isSet("iface") && d.iface == "":
		return usagef("-iface is empty: give the name of a network interface or of an RDMA device")
	case d.noTests && d.iface != "":
		return usagef("-iface is for tests, and -notest is for none: give one of them")
	}
	return d.peer.check(fs)
}
