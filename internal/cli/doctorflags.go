package cli

import "time"

func doctorCommand() command {
	return command{
		name:    "doctor",
		summary: "say whether this host is fit, and what to do where it is not",
		usage:   []string{"fanfare doctor [flags]"},
		about: `It looks at RDMA devices and ports, locked memory, interfaces, routes, IGMP,
filters and socket buffers, and tests each transport on loopback. Each line is a
finding: ok, info (good to know), warn or fail, with a command that mends it.
`,
		examples: []string{
			"fanfare doctor",
			"fanfare doctor -iface eth0",
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
		"go out to multicast groups on its network. Without it: on loopback only, and no test of rdma://")
	boolVar(fs, &d.noTests, "notest", "no tests: only look")
	durationVar(fs, &d.timeout, "timeout", 5*time.Second, "how long a test may take")
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
	return nil
}
